"""Requests to a Kafka cluster, repeated until it answers or the timeout expires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagre.broker.client_settings import ClientSettings
from eagre.broker.refusals import GUESSED, misunderstood, refused
from eagre.errors import BrokerError, SettingsError
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TRANSIENT = (
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "REQUEST_TIMED_OUT",
    "_TIMED_OUT",
    "_TRANSPORT",
)
"""Transient errors of a cluster, after which a request is repeated.

A broker that was paused is fenced and returns with a new epoch: its metadata names that epoch
before its partitions know it, and for a while no controller is known.
"""

ATTEMPTS = 3
"""The first attempt gets the timeout divided by this number; later attempts get more."""
FIRST_SECONDS = 1.0
"""The timeout of the first metadata request; each unanswered request doubles it."""
RECONNECT_MS = 250
"""The longest wait before a reconnect; the default of 10 s would delay the detection of a start."""


class AdminRequests:
    """Requests to a cluster.

    Args:
        cluster: ``host:port``, several with commas; or ``ClientSettings``.
        timeout: Seconds to wait for an answer.

    Raises:
        SettingsError: librdkafka has no equivalent of a client setting.
    """

    def __init__(self, cluster: str | ClientSettings, timeout: float = 10) -> None:
        self._client = cluster if isinstance(cluster, ClientSettings) else ClientSettings(cluster)
        self.brokers = self._client.brokers
        self.client_settings: dict[str, Any] = {**self._client.librdkafka(), "log_level": 0}
        self._timeout = timeout
        self._patience = min(FIRST_SECONDS, timeout)
        self._admin: Any = None
        self._refused: BrokerError | None = None
        self._down = False
        self._last_error = ""

    @property
    def admin(self) -> Any:  # noqa: ANN401  (librdkafka's client has no types)
        """The librdkafka admin client, created at the first use.

        Raises:
            SettingsError: A setting cannot be used, such as the password of a key.
        """
        if self._admin is None:
            self._admin = self._connect()
        return self._admin

    def _connect(self) -> Any:  # noqa: ANN401
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        configured = "reconnect.backoff.ms" in self.client_settings
        defaults = {} if configured else {"reconnect.backoff.max.ms": RECONNECT_MS}
        try:
            return AdminClient({**defaults, **self.client_settings, "error_cb": self._on_error})
        except KafkaException as error:
            raise SettingsError(
                "CLIENT_SETTINGS_UNUSABLE",
                f"the client settings for {self.brokers} cannot be used "
                f"({self._client.described()}): {error.args[0].str()}.",
                hint="check the files it names and their passwords; the files must be PEM.",
            ) from None

    def _on_error(self, error: Any) -> None:  # noqa: ANN401
        """Record that librdkafka reaches no broker, or that the cluster rejects the login."""
        self._down = self._down or error.name() == "_ALL_BROKERS_DOWN"
        self._refused = refused(self._client, error.name(), error.str()) or self._refused

    def answers(self) -> bool:
        """Return whether the cluster answers a metadata request.

        A slow cluster gets the full timeout; if nothing listens, the answer takes about a second.

        Raises:
            BrokerError: The cluster answers and rejects the login.
        """
        try:
            wait_until(lambda: self._request_metadata() or self._down, self._timeout, "")
        except TimeoutError:
            return False
        return not self._down

    def _request_metadata(self) -> Any:  # noqa: ANN401
        """Request metadata; return None if no broker answers.

        A cluster that listens but does not answer in time gets more time at the next request.
        """
        from confluent_kafka import KafkaException

        self._down = False
        try:
            answer = self.admin.list_topics(timeout=self._patience)
        except KafkaException as error:
            self._last_error = error.args[0].str()
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
            # A cluster that listens may be slow; if nothing listens, waiting longer is useless.
            return wait_until(
                self._request_metadata, self._timeout, "", patient=lambda: not self._down
            )
        except TimeoutError:
            why = self._refused or misunderstood(self._client)
            raise why or self._silent(f": {self._last_error}") from None

    def _read(self, ask: Callable[[float], dict[Any, Any]]) -> dict[Any, Any]:
        """Send a request until the cluster answers, several times within the timeout.

        Args:
            ask: Sends the request with the timeout of an attempt; returns the futures by key.

        Raises:
            BrokerError: The cluster refuses, or does not answer in time.
        """
        limits = self._limits()

        def attempt() -> dict[Any, Any]:
            try:
                futures = ask(next(limits))
                return {key: self.result(future) for key, future in futures.items()}
            except BrokerError as error:
                if not self._is_transient(error):
                    raise
                return {}

        try:
            return wait_until(attempt, self._timeout, "")
        except TimeoutError:
            raise self._silent(f": {self._last_error}") from None

    def _change(
        self,
        ask: Callable[[list[str], float], dict[str, Any]],
        names: Iterable[str],
        what: str,
        *,
        done: str,
    ) -> None:
        """Create or delete topics, with retries while the cluster is not ready.

        Args:
            ask: Sends the request for these topics with the timeout of an attempt.
            names: The topics.
            what: The error message for a topic that the cluster refuses.
            done: The error that means success if an earlier attempt had no answer.

        Raises:
            BrokerError: The cluster refuses, or does not answer in time.
        """
        pending = dict.fromkeys(names, False)
        limits = self._limits()

        def attempt() -> bool:
            for name, future in ask(list(pending), next(limits)).items():
                try:
                    self.result(future, what.format(name))
                except BrokerError as error:
                    if self._is_transient(error):
                        pending[name] = True
                        continue
                    if not pending[name] or error.data.get("kafka_error") != done:
                        raise
                del pending[name]
            return not pending

        try:
            wait_until(lambda: not pending or attempt(), self._timeout, "")
        except TimeoutError:
            raise self._silent(f": {self._last_error}") from None

    def _limits(self) -> Iterator[float]:
        """Yield the timeout of each attempt in seconds; it doubles up to the full timeout."""
        seconds = self._timeout / ATTEMPTS
        while True:
            yield seconds
            seconds = min(2 * seconds, self._timeout)

    def _is_transient(self, error: BrokerError) -> bool:
        """Return whether a failure is transient; if so, prepare the next attempt.

        Metadata of a cluster name any of its brokers as the one for administration, for some
        seconds also one that has died, and librdkafka asks for new metadata only when told to.
        """
        problem, transient = error.problem, error.data.get("kafka_error") in TRANSIENT
        if transient:
            self._request_metadata()
        self._last_error = problem
        return transient

    def result(self, future: Any, what: str = "the cluster refused") -> Any:  # noqa: ANN401
        """Return the answer of the cluster.

        Raises:
            BrokerError: The cluster refused; the message has its reason.
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
