"""Topics of a Kafka cluster: names, partitions, ids, offsets, settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.broker.client import Client
from eagre.broker.refusals import GUESSED, misunderstood, refused
from eagre.errors import BrokerError, SettingsError
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""

PASSING = (
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "REQUEST_TIMED_OUT",
    "_TIMED_OUT",
    "_TRANSPORT",
)
"""Temporary errors: the request is repeated.

A broker that was paused is fenced and returns with a new epoch: its metadata has that
epoch before its partitions do, and for a while there is no controller.
"""

ATTEMPTS = 3
"""The share of the timeout for the first attempt; later attempts get more."""
FIRST_SECONDS = 1.0
"""The timeout of the first metadata request in seconds; it doubles with each attempt."""
RECONNECT_MS = 250
"""The longest wait before a client reconnects: 10 s by default, too long while a broker starts."""


@dataclass(frozen=True)
class Topic:
    """A topic as the cluster describes it."""

    name: str
    id: str
    partitions: int


class Topics:
    """The topics of one cluster.

    Args:
        cluster: ``host:port``, several with commas; or a ``Client`` with security settings.
        timeout: Seconds to wait for an answer.

    Raises:
        SettingsError: librdkafka does not support the client's settings.
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
        """The librdkafka admin client, created at the first use.

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
        defaults = {} if stated else {"reconnect.backoff.max.ms": RECONNECT_MS}
        try:
            return AdminClient({**defaults, **self.client_settings, "error_cb": self._heard})
        except KafkaException as error:
            raise SettingsError(
                "CLIENT_SETTINGS_UNUSABLE",
                f"the client settings for {self.brokers} cannot be used "
                f"({self._client.described()}): {error.args[0].str()}.",
                hint="check the files it names and their passwords; PEM files are read.",
            ) from None

    def _heard(self, error: Any) -> None:  # noqa: ANN401
        """Store an error of librdkafka: the cluster is unreachable, or refuses the client."""
        self._down = self._down or error.name() == "_ALL_BROKERS_DOWN"
        self._refused = refused(self._client, error.name(), error.str()) or self._refused

    def answers(self) -> bool:
        """Return whether the cluster answers a metadata request.

        A slow cluster gets the whole timeout; without a listener, a second is enough.

        Raises:
            BrokerError: It refuses the client.
        """
        try:
            wait_until(lambda: self._asked() or self._down, self._timeout, "")
        except TimeoutError:
            return False
        return not self._down

    def _asked(self) -> Any:  # noqa: ANN401
        """Request metadata; None without an answer.

        A cluster that listens but does not answer in time gets more time at the next request.
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

    def names(self) -> list[str]:
        """Return the topics, without Kafka's internal ones."""
        return sorted(name for name in self._metadata().topics if not name.startswith("__"))

    def cluster_id(self) -> str:
        """Return the cluster id."""
        return str(self._metadata().cluster_id)

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        """Describe the existing ones of these topics."""
        from confluent_kafka import TopicCollection

        existing = set(self._metadata().topics)
        wanted = [name for name in dict.fromkeys(names) if name in existing]
        if not wanted:
            return {}
        descriptions = self._read(
            lambda seconds: self.admin.describe_topics(
                TopicCollection(wanted), request_timeout=seconds
            )
        )
        return {
            name: Topic(name, str(topic.topic_id), len(topic.partitions))
            for name, topic in descriptions.items()
        }

    def require(self, name: str) -> Topic:
        """Describe a topic that must exist.

        Raises:
            BrokerError: It does not exist.
        """
        described = self.describe([name])
        if name not in described:
            raise BrokerError(
                "TOPIC_NOT_FOUND",
                f"topic {name!r} does not exist on {self.brokers}.",
                hint=f"`eagre topic create {name} --brokers {self.brokers}` makes it.",
            )
        return described[name]

    def create(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic, and wait until every partition has a leader.

        Raises:
            BrokerError: The cluster refuses, with its reason.
        """
        from confluent_kafka.admin import NewTopic

        new = NewTopic(name, partitions, config=dict(settings or {}))
        self._change(
            lambda _, seconds: self.admin.create_topics(
                [new], request_timeout=seconds, operation_timeout=seconds
            ),
            [name],
            "topic {!r} could not be created",
            done="TOPIC_ALREADY_EXISTS",
        )
        try:
            wait_until(lambda: self._led(name, partitions), self._timeout, "")
        except TimeoutError:
            raise self._silent() from None

    def settings(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the settings of existing topics, including those of the cluster.

        Raises:
            BrokerError: The cluster refuses, with its reason.
        """
        return {
            name: {key: str(entry.value) for key, entry in entries.items()}
            for name, entries in self._settings(names).items()
        }

    def changed_settings(self, name: str) -> dict[str, str]:
        """Return the settings of an existing topic that differ from Kafka's defaults.

        Raises:
            BrokerError: The cluster refuses, with its reason.
        """
        from confluent_kafka.admin import ConfigSource

        default = ConfigSource.DEFAULT_CONFIG.value
        entries = self._settings([name])[name]
        return {
            key: str(entry.value)
            for key, entry in sorted(entries.items())
            if entry.source != default
        }

    def _settings(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        from confluent_kafka.admin import ConfigResource

        asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        if not asked:
            return {}
        configs = self._read(
            lambda seconds: self.admin.describe_configs(asked, request_timeout=seconds)
        )
        return {resource.name: entries for resource, entries in configs.items()}

    def delete(self, names: Iterable[str]) -> None:
        """Delete topics with their records.

        Raises:
            BrokerError: The cluster refuses, with its reason.
        """
        self._change(
            lambda left, seconds: self.admin.delete_topics(left, request_timeout=seconds),
            names,
            "topic {!r} could not be deleted",
            done="UNKNOWN_TOPIC_OR_PART",
        )

    def _change(
        self,
        ask: Callable[[list[str], float], dict[str, Any]],
        names: Iterable[str],
        what: str,
        *,
        done: str,
    ) -> None:
        """Create or delete topics, and repeat the request while the cluster is not ready.

        Args:
            ask: Sends the request for these topics, with a timeout in seconds.
            names: The topics.
            what: The message for a topic that the cluster refuses.
            done: The error that means success after an attempt without an answer.

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

    def _led(self, name: str, partitions: int) -> bool:
        """Return whether all partitions of a new topic have a leader that answers."""
        try:
            offsets = self.ends([name])
        except BrokerError:
            return False
        return len(offsets.get(name, ())) == partitions

    def begins(self, names: Iterable[str]) -> Offsets:
        """Return the first offset of each partition."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(names, OffsetSpec.earliest())

    def ends(self, names: Iterable[str]) -> Offsets:
        """Return the offset after the last record of each partition."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(names, OffsetSpec.latest())

    def at(self, names: Iterable[str], timestamp_ms: int) -> Offsets:
        """Return the first offset at or after a time, or the end."""
        from confluent_kafka.admin import OffsetSpec

        wanted = list(names)
        first = self._offsets(wanted, OffsetSpec.for_timestamp(timestamp_ms))
        ends = self.ends(wanted)
        return {
            topic: {p: o if o >= 0 else ends[topic][p] for p, o in offsets.items()}
            for topic, offsets in first.items()
        }

    def _partitions(self, names: Iterable[str], spec: object) -> dict[Any, object]:
        """Request offsets of every partition of these topics."""
        from confluent_kafka import TopicPartition

        topics = [self.require(name) for name in names]
        return {TopicPartition(t.name, p): spec for t in topics for p in range(t.partitions)}

    def _offsets(self, names: Iterable[str], spec: object) -> Offsets:
        request = self._partitions(names, spec)
        if not request:
            return {}
        results = self._read(
            lambda seconds: self.admin.list_offsets(request, request_timeout=seconds)
        )
        offsets: Offsets = {}
        for at, listed in results.items():
            offsets.setdefault(at.topic, {})[at.partition] = listed.offset
        return offsets

    def _read(self, ask: Callable[[float], dict[Any, Any]]) -> dict[Any, Any]:
        """Repeat a request until the cluster answers or the timeout is over.

        Args:
            ask: Sends the request, with a timeout in seconds; returns the futures by key.

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

    def _limits(self) -> Iterator[float]:
        """Yield the timeout of each attempt; each is longer than the previous one."""
        seconds = self._timeout / ATTEMPTS
        while True:
            yield seconds
            seconds = min(2 * seconds, self._timeout)

    def _passes(self, error: BrokerError) -> bool:
        """Return whether a failure may be temporary, and store its message."""
        self._told = error.problem
        return error.data.get("kafka_error") in PASSING

    def _metadata(self) -> Any:  # noqa: ANN401
        try:
            # A cluster that listens may be slow; the timeout is not extended for one that does not.
            return wait_until(self._asked, self._timeout, "", patient=lambda: not self._down)
        except TimeoutError:
            why = self._refused or misunderstood(self._client)
            raise why or self._silent(f": {self._told}") from None

    def _silent(self, why: str = "") -> BrokerError:
        return BrokerError(
            "BROKER_UNREACHABLE",
            f"no Kafka broker answers at {self.brokers}{why}.",
            hint="check the address and that the cluster runs; `eagre broker start` starts one.",
        )

    def result(self, future: Any, what: str = "the cluster refused") -> Any:  # noqa: ANN401
        """Return the answer of the cluster.

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


def offsets_of(parsed: dict[str, dict[str, int]]) -> Offsets:
    """Parse offsets from JSON, whose keys are strings."""
    return {t: {int(p): int(o) for p, o in partitions.items()} for t, partitions in parsed.items()}
