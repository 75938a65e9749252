"""Topics of a Kafka cluster: names, partitions, ids, offsets, settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.broker.admin_requests import AdminRequests
from eagre.errors import BrokerError
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""


CLUSTER_DEFAULT = -1
"""The replication factor that stands for the cluster's ``default.replication.factor``."""


@dataclass(frozen=True)
class Topic:
    """A topic as the cluster describes it."""

    name: str
    id: str
    partitions: int


class Topics(AdminRequests):
    """The topics of one cluster.

    Args:
        cluster: ``host:port``, several with commas; or ``ClientSettings``.
        timeout: Seconds to wait for an answer.

    Raises:
        SettingsError: librdkafka does not support the client's settings.
    """

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

    def hidden(self, names: Iterable[str]) -> set[str]:
        """Return those of these topics that exist, but that an ACL hides from this client.

        A list of all topics silently omits them; a request by name is refused.

        Raises:
            BrokerError: The cluster does not answer.
        """
        from confluent_kafka import TopicCollection

        requested = list(names)
        futures = (
            self.admin.describe_topics(TopicCollection(requested), request_timeout=self._timeout)
            if requested
            else {}
        )
        return {name for name, future in futures.items() if self._is_unauthorized(future)}

    def _is_unauthorized(self, future: Any) -> bool:  # noqa: ANN401  (librdkafka's future)
        try:
            self.result(future)
        except BrokerError as error:
            if error.data.get("kafka_error") == "TOPIC_AUTHORIZATION_FAILED":
                return True
            if error.data.get("kafka_error") != "UNKNOWN_TOPIC_OR_PART":
                raise
        return False

    def require_not_hidden(self, name: str) -> None:
        """Check that a topic that is not listed is not merely hidden.

        Raises:
            BrokerError: An ACL hides it.
        """
        if self.hidden([name]):
            raise BrokerError(
                "TOPIC_NOT_AUTHORIZED",
                f"topic {name!r} on {self.brokers} is hidden from this client by an ACL.",
                hint="allow its user to describe and read the topic.",
            )

    def require(self, name: str) -> Topic:
        """Describe a topic that must exist.

        Raises:
            BrokerError: It does not exist, or an ACL hides it.
        """
        described = self.describe([name])
        if name not in described:
            self.require_not_hidden(name)
            raise BrokerError(
                "TOPIC_NOT_FOUND",
                f"topic {name!r} does not exist on {self.brokers}.",
                hint=f"`eagre topic create {name} --brokers {self.brokers}` creates it.",
            )
        return described[name]

    def create(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic with the cluster's default replication, and wait for its leaders.

        Raises:
            BrokerError: The cluster refuses, with its reason.
        """
        from confluent_kafka.admin import NewTopic

        new = NewTopic(name, partitions, CLUSTER_DEFAULT, config=dict(settings or {}))
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

        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        if not resources:
            return {}
        configs = self._read(
            lambda seconds: self.admin.describe_configs(resources, request_timeout=seconds)
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


def offsets_of(parsed: dict[str, dict[str, int]]) -> Offsets:
    """Parse offsets from JSON, whose keys are strings."""
    return {t: {int(p): int(o) for p, o in partitions.items()} for t, partitions in parsed.items()}
