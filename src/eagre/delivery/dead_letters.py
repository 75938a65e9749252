"""Reads dead letters from their topics, and tracks which were replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.connectors.error_policy import SUFFIX
from eagre.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eagre.broker import Topics

HEADERS = ["eagre-pipeline", "eagre-reason", "eagre-source", "eagre-time"]
"""The headers that a dead letter adds after those of its record, in this order."""

IDENTITY = "eagre-letter"
"""The next header, with exactly-once delivery: it identifies the dead letter across runs."""

LOST = "eagre-lost"
"""The last header, if a part of the record is missing: the reason."""

REPLAYED = "eagre-replayed"
"""The header of a replayed record: how often it was replayed, and its last dead letter."""

_MOST_METADATA = 4000


@dataclass(frozen=True)
class DeadLetter:
    """A record that could not be processed.

    Attributes:
        topic: The topic of the dead letter, not of the record.
        partition: The partition of the dead letter.
        offset: The offset of the dead letter.
        pipeline: The pipeline that could not process the record.
        reason: Why not.
        source: The position of the record, as topic/partition/offset; empty if unknown.
        time: When the record failed, in ISO 8601.
        lost: Why a part of the record is missing; empty if it is complete.
        key: The record's key.
        value: The record's value.
        headers: The record's original headers.
    """

    topic: str
    partition: int
    offset: int
    pipeline: str
    reason: str
    source: str
    time: str
    lost: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def place(self) -> str:
        """The position of the dead letter, as topic/partition/offset."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def kind(self) -> str:
        """The reason without details: the text before the first colon."""
        return self.reason.split(": ", 1)[0]

    @property
    def replays(self) -> int:
        """How often its record had been replayed when it failed."""
        replays = [value for name, value in self.headers if name == REPLAYED and value]
        count = replays[-1].split()[0] if replays else b"0"
        return int(count) if count.isdigit() else 0

    @property
    def source_partition(self) -> tuple[str, int] | None:
        """The topic and partition of the record."""
        parts = self.source.rsplit("/", 2)
        return (parts[0], int(parts[1])) if len(parts) == 3 and parts[1].isdigit() else None  # noqa: PLR2004

    @classmethod
    def of(cls, record: Any) -> DeadLetter:  # noqa: ANN401  (librdkafka's record has no types)
        """Read a record of a dead-letter topic; one that is not a dead letter has no reason."""
        headers = list(record.headers() or [])
        lost = headers.pop()[1] if headers and headers[-1][0] == LOST else b""
        if headers and headers[-1][0] == IDENTITY:
            headers.pop()
        original, added = headers[: -len(HEADERS)], headers[-len(HEADERS) :]
        if [name for name, _ in added] != HEADERS:
            original, added = headers, [(name, b"") for name in HEADERS]
        pipeline, reason, source, when = (_text(value) for _, value in added)
        return cls(
            record.topic(),
            record.partition(),
            record.offset(),
            pipeline,
            reason,
            source,
            when,
            _text(lost),
            record.key(),
            record.value(),
            tuple(original),
        )


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


def topic_of(name: str) -> str:
    """Return the dead-letter topic of a topic; a dead-letter topic is returned unchanged.

    >>> topic_of("payments"), topic_of("payments.dlq")
    ('payments.dlq', 'payments.dlq')
    """
    return name if name.endswith(SUFFIX) else name + SUFFIX


def dead_letters(topics: Topics, name: str) -> Iterator[DeadLetter]:
    """Read a dead-letter topic from its beginning to its current end.

    Raises:
        BrokerError: The topic does not exist or cannot be read.
    """
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    begins, ends = topics.begins([name])[name], topics.ends([name])[name]
    left = {p for p, end in ends.items() if end > begins[p]}
    settings = {"group.id": "eagre-dlq", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**topics.client_settings, **settings})
    consumer.assign([TopicPartition(name, p, begins[p]) for p in left])
    try:
        while left:
            record = consumer.poll(1)
            if record is None:
                continue
            error = record.error()
            if error and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise BrokerError("TOPIC_UNREADABLE", f"{name!r}: {error.str()}.")
            if error or record.offset() >= ends[record.partition()] - 1:
                left.discard(record.partition())
            if not error and record.offset() < ends[record.partition()]:
                yield DeadLetter.of(record)
    finally:
        consumer.close()


class Progress:
    """Which dead letters of a topic were replayed, stored as a consumer group's offsets.

    The committed offset of a partition is that of its first dead letter that was not replayed. The
    metadata of the commit lists the replayed ones after it, as ranges.
    """

    def __init__(self, topics: Topics, name: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._name = name
        self._consumer = Consumer(
            {
                **topics.client_settings,
                "group.id": f"eagre-dlq-replay.{name}",
                "enable.auto.commit": False,
            }
        )
        begins = topics.begins([name])[name]
        self._first: dict[int, int] = {}
        self._replayed: dict[int, set[int]] = {}
        partitions = [TopicPartition(name, p) for p in begins]
        for committed in self._consumer.committed(partitions, timeout=10):
            self._first[committed.partition] = max(committed.offset, begins[committed.partition])
            self._replayed[committed.partition] = parse_ranges(committed.metadata or "")

    def __contains__(self, dead_letter: DeadLetter) -> bool:
        replayed = self._replayed[dead_letter.partition]
        return (
            dead_letter.offset < self._first[dead_letter.partition]
            or dead_letter.offset in replayed
        )

    def add(self, dead_letter: DeadLetter) -> None:
        """Record that a dead letter was replayed."""
        self._replayed[dead_letter.partition].add(dead_letter.offset)

    def save(self) -> None:
        """Commit the offsets to the cluster."""
        self._consumer.commit(offsets=self._offsets(), asynchronous=False)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def check(self) -> None:
        """Check that the cluster can store the progress.

        Raises:
            BrokerError: The replayed dead letters form too many ranges.
        """
        if any(len(offset.metadata) > _MOST_METADATA for offset in self._offsets()):
            raise BrokerError(
                "REPLAY_TOO_SCATTERED",
                f"the replayed dead letters of {self._name!r} form too many ranges for the cluster "
                "to store.",
                hint="replay with a wider filter: omit --reason or --since.",
            )

    def _offsets(self) -> list[Any]:
        from confluent_kafka import TopicPartition

        offsets = []
        for partition, replayed in self._replayed.items():
            first = self._first[partition]
            while first in replayed:
                replayed.remove(first)
                first += 1
            self._first[partition] = first
            offsets.append(
                TopicPartition(self._name, partition, first, metadata=format_ranges(replayed))
            )
        return offsets


def format_ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ranges.

    >>> format_ranges([7, 1, 2, 3])
    '1-3,7'
    """
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def parse_ranges(text: str) -> set[int]:
    """Parse ranges of numbers.

    >>> sorted(parse_ranges("1-3,7"))
    [1, 2, 3, 7]
    """
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers
