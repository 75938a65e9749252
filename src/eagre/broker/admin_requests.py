"""Requests to a Kafka cluster, repeated until it answers or the time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagre.broker.client import Client
from eagre.broker.refusals import GUESSED, misunderstood, refused
from eagre.errors import BrokerError, SettingsError
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PASSING = (
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "REQUEST_TIMED_OUT",
    "_TIMED_OUT",
    "_TRANSPORT",
)
"""Answers of a cluster that may be over in a moment: worth asking again.

A broker that stood still is fenced and comes back with a new epoch: its metadata names that
epoch before its partitions know it, and for a while no controller is known.
"""

ATTEMPTS = 3
"""The first attempt has this part of the time that is given for an answer; later ones have more."""
FIRST_SECONDS = 1.0
"""So long the first request for metadata may take; each that is not answered doubles it."""
RECONNECT_MS = 250
"""How long a client waits before it connects again: 10 s by default, which hides a start."""


class AdminRequests:
    """Requests to one cluster.

    Args:
        cluster: ``host:port``, several with commas; or a ``Client``, where it asks for more.
        timeout: Seconds to wait for an answer.

    Raises:
        SettingsError: The client's settings cannot be said in librdkafka's words.
    """

    def __init__(self, cluster: str | Client, timeout: float = 10) -> None:
        self._client = cluster if isinstance(cluster, Client) else Client(cluster)
        self.brokers = self._client.brokers
        self.client_settings: dict[str, Any] = {**self._client.librdkafka(), "log_level": 0}
        self._timeout = timeout
        self._patience = min(FIRST_SECONDS, timeout)
        self._admin: Any = None
        self._refused: BrokerError | None = None
        self._down = False
        self._told = ""

    @property
    def admin(self) -> Any:  # noqa: ANN401  (librdkafka's client has no types)
        """The librdkafka admin client, made at the first use.

        Raises:
            SettingsError: A setting cannot be used, such as the password of a key.
        """
        if self._admin is None:
            self._admin = self._connected()
        return self._admin

    def _connected(self) -> Any:  # noqa: ANN401
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        stated = "reconnect.backoff.ms" in self.client_settings
        own = {} if stated else {"reconnect.backoff.max.ms": RECONNECT_MS}
        try:
            return AdminClient({**own, **self.client_settings, "error_cb": self._heard})
        except KafkaException as error:
            raise SettingsError(
                "CLIENT_SETTINGS_UNUSABLE",
                f"the client settings for {self.brokers} cannot be used "
                f"({self._client.described()}): {error.args[0].str()}.",
                hint="check the files it names and their passwords; PEM files are read.",
            ) from None

    def _heard(self, error: Any) -> None:  # noqa: ANN401
        """Keep what librdkafka tells of a cluster that is not there, or does not let us in."""
        self._down = self._down or error.name() == "_ALL_BROKERS_DOWN"
        self._refused = refused(self._client, error.name(), error.str()) or self._refused

    def answers(self) -> bool:
        """Tell whether the cluster answers a metadata request.

        A slow one has the whole time for it; where nothing listens, a second is enough to know.

        Raises:
            BrokerError: It answers, and does not let us in.
        """
        try:
            wait_until(lambda: self._asked() or self._down, self._timeout, "")
        except TimeoutError:
            return False
        return not self._down

    def _asked(self) -> Any:  # noqa: ANN401
        """Ask for metadata; None where nobody answers.

        A cluster that listens and does not answer in time gets more of it at the next request.
        """
        from confluent_kafka import KafkaException

        self._down = False
        try:
            answer = self.admin.list_topics(timeout=self._patience)
        except KafkaException as error:
            self._told = error.args[0].str()
            self.admin.poll(0)
            if self._refused and self._refused.code != GUESSED:
                raise self._refused from None
            if not self._down:
                self._patience = min(2 * self._patience, self._timeout)
            return None
        self._refused, self._down = None, False
        return answer if answer.brokers else None

    def _metadata(self) -> Any:  # noqa: ANN401
        try:
            # A cluster that listens may be slow; one that does not is not waited for any longer.
            return wait_until(self._asked, self._timeout, "", patient=lambda: not self._down)
        except TimeoutError:
            why = self._refused or misunderstood(self._client)
            raise why or self._silent(f": {self._told}") from None

    def _read(self, ask: Callable[[float], dict[Any, Any]]) -> dict[Any, Any]:
        """Ask until the cluster answers, several times within the limit.

        Args:
            ask: Sends the request, given the seconds one attempt has; gives the futures by key.

        Raises:
            BrokerError: It refuses, or does not answer in time.
        """
        limits = self._limits()

        def attempt() -> dict[Any, Any]:
            try:
                futures = ask(next(limits))
                return {key: self.result(future) for key, future in futures.items()}
            except BrokerError as error:
                if not self._passes(error):
                    raise
                return {}

        try:
            return wait_until(attempt, self._timeout, "")
        except TimeoutError:
            raise self._silent(f": {self._told}") from None

    def _change(
        self,
        ask: Callable[[list[str], float], dict[str, Any]],
        names: Iterable[str],
        what: str,
        *,
        done: str,
    ) -> None:
        """Create or delete topics, asking again while the cluster is not ready.

        Args:
            ask: Sends the request for these topics, given the seconds one attempt has.
            names: The topics.
            what: What to say of a topic where the cluster refuses.
            done: The error that means success after an attempt whose answer did not come.

        Raises:
            BrokerError: It refuses, or does not answer in time.
        """
        left = dict.fromkeys(names, False)
        limits = self._limits()

        def attempt() -> bool:
            for name, future in ask(list(left), next(limits)).items():
                try:
                    self.result(future, what.format(name))
                except BrokerError as error:
                    if self._passes(error):
                        left[name] = True
                        continue
                    if not left[name] or error.data.get("kafka_error") != done:
                        raise
                del left[name]
            return not left

        try:
            wait_until(lambda: not left or attempt(), self._timeout, "")
        except TimeoutError:
            raise self._silent(f": {self._told}") from None

    def _limits(self) -> Iterator[float]:
        """Give the seconds of each attempt: a slow cluster gets more with every one."""
        seconds = self._timeout / ATTEMPTS
        while True:
            yield seconds
            seconds = min(2 * seconds, self._timeout)

    def _passes(self, error: BrokerError) -> bool:
        """Tell whether a failure may be over in a moment, and keep its words."""
        self._told = error.problem
        return error.data.get("kafka_error") in PASSING

    def result(self, future: Any, what: str = "the cluster refused") -> Any:  # noqa: ANN401
        """Give what the cluster answered.

        Raises:
            BrokerError: It refused, with its reason.
        """
        from concurrent.futures import wait

        from confluent_kafka import KafkaException

        try:
            wait_until(lambda: wait([future], 1).done, 2 * self._timeout, "", interval=0)
            return future.result()
        except TimeoutError:
            raise self._silent() from None
        except KafkaException as error:
            raise BrokerError(
                "KAFKA_REFUSED",
                f"{what}: {error.args[0].str()}",
                data={"kafka_error": error.args[0].name()},
            ) from None

    def _silent(self, why: str = "") -> BrokerError:
        return BrokerError(
            "BROKER_UNREACHABLE",
            f"no Kafka broker answers at {self.brokers}{why}.",
            hint="check the address and that the cluster runs; `eagre broker start` starts one.",
        )
