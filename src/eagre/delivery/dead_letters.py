"""Dead letters as they stand in their topics, and which of them were replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.error_policy import SUFFIX
from eagre.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eagre.broker import Topics

LETTERHEAD = ["eagre-pipeline", "eagre-reason", "eagre-source", "eagre-time"]
"""The headers that a letter has behind those of its record, in their order."""

IDENTITY = "eagre-letter"
"""The header behind them, where results are delivered exactly once: what a run knows it by."""

LOST = "eagre-lost"
"""The last header, if a part of the record is missing: why."""

REPLAYED = "eagre-replayed"
"""The header of a replayed record: how often it was, and from which letter the last time."""

_MOST_METADATA = 4000


@dataclass(frozen=True)
class DeadLetter:
    """A record that could not go on.

    Attributes:
        topic: The topic of the letter; with ``partition`` and ``offset`` its own place.
        partition: Its partition.
        offset: Its offset.
        pipeline: The pipeline that could not go on with it.
        reason: Why.
        source: Where the record stood, as topic/partition/offset; empty if nobody knows.
        time: When that was, in ISO 8601.
        lost: Why a part of the record is missing; empty if nothing is.
        key: The record's key.
        value: The record's value.
        headers: The record's own headers.
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
        """Where the letter stands."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def kind(self) -> str:
        """The reason without its particulars: what stands before the first colon."""
        return self.reason.split(": ", 1)[0]

    @property
    def replays(self) -> int:
        """How often its record had been replayed when it failed."""
        marks = [value for name, value in self.headers if name == REPLAYED and value]
        count = marks[-1].split()[0] if marks else b"0"
        return int(count) if count.isdigit() else 0

    @property
    def origin(self) -> tuple[str, int] | None:
        """The topic and partition that the record came from."""
        parts = self.source.rsplit("/", 2)
        return (parts[0], int(parts[1])) if len(parts) == 3 and parts[1].isdigit() else None  # noqa: PLR2004

    @classmethod
    def of(cls, record: Any) -> DeadLetter:  # noqa: ANN401  (librdkafka's record has no types)
        """Read a record of a topic of dead letters; one that is no letter has no reason."""
        headers = list(record.headers() or [])
        lost = headers.pop()[1] if headers and headers[-1][0] == LOST else b""
        if headers and headers[-1][0] == IDENTITY:
            headers.pop()
        own, head = headers[: -len(LETTERHEAD)], headers[-len(LETTERHEAD) :]
        if [name for name, _ in head] != LETTERHEAD:
            own, head = headers, [(name, b"") for name in LETTERHEAD]
        pipeline, reason, source, when = (_text(value) for _, value in head)
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
            tuple(own),
        )


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


def topic_of(name: str) -> str:
    """Give the topic of dead letters, also for its source's name.

    >>> topic_of("payments"), topic_of("payments.dlq")
    ('payments.dlq', 'payments.dlq')
    """
    return name if name.endswith(SUFFIX) else name + SUFFIX


def letters(topics: Topics, name: str) -> Iterator[DeadLetter]:
    """Read a topic of dead letters from its beginning to its present end.

    Raises:
        BrokerError: It does not exist, or cannot be read.
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
    """Which letters of a topic were replayed, kept by the cluster as a consumer group's offsets.

    The committed offset of a partition is that of its first letter that was not; those behind it
    that were stand in the commit's metadata, as ranges.
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
        self._behind: dict[int, set[int]] = {}
        asked = [TopicPartition(name, p) for p in begins]
        for one in self._consumer.committed(asked, timeout=10):
            self._first[one.partition] = max(one.offset, begins[one.partition])
            self._behind[one.partition] = ranged(one.metadata or "")

    def __contains__(self, letter: DeadLetter) -> bool:
        behind = self._behind[letter.partition]
        return letter.offset < self._first[letter.partition] or letter.offset in behind

    def add(self, letter: DeadLetter) -> None:
        """Note that a letter was replayed."""
        self._behind[letter.partition].add(letter.offset)

    def save(self) -> None:
        """Let the cluster keep it."""
        self._consumer.commit(offsets=self._offsets(), asynchronous=False)

    def close(self) -> None:
        """Let go of the cluster."""
        self._consumer.close()

    def check(self) -> None:
        """Refuse what the cluster could not keep.

        Raises:
            BrokerError: The replayed letters are too scattered.
        """
        if any(len(offset.metadata) > _MOST_METADATA for offset in self._offsets()):
            raise BrokerError(
                "REPLAY_TOO_SCATTERED",
                f"the letters of {self._name!r} that were replayed are in too many places for "
                "the cluster to keep account of them.",
                hint="replay with a wider filter: leave out --reason or --since.",
            )

    def _offsets(self) -> list[Any]:
        from confluent_kafka import TopicPartition

        offsets = []
        for partition, behind in self._behind.items():
            first = self._first[partition]
            while first in behind:
                behind.remove(first)
                first += 1
            self._first[partition] = first
            offsets.append(TopicPartition(self._name, partition, first, metadata=ranges(behind)))
        return offsets


def ranges(numbers: Iterable[int]) -> str:
    """Write numbers as ranges.

    >>> ranges([7, 1, 2, 3])
    '1-3,7'
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def ranged(text: str) -> set[int]:
    """Read ranges of numbers.

    >>> sorted(ranged("1-3,7"))
    [1, 2, 3, 7]
    """
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers
