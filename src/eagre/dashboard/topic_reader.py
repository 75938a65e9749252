"""Reads records of a topic for the dashboard, within limits of time and memory."""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from eagre.delivery.dead_letters import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Mapping

READ_SECONDS = 4.0
READ_BYTES = 4 << 20
"""How much one reading of dead letters fetches at most, plus one record."""
FETCH_RECORDS = 16
DEAD_LETTERS = 200
"""How many of the newest dead letters count for their reasons."""
REASONS = 8

Offsets = dict[int, int]


def read(
    settings: Mapping[str, Any], topic: str, starts: Offsets, ends: Offsets, most: int | None = None
) -> list[Any]:
    """Read the records between offsets, partition by partition in order.

    Args:
        settings: The client's settings for librdkafka.
        topic: The topic.
        starts: The first offset of each partition.
        ends: The offset after the last record of each partition.
        most: The number of bytes after which to stop; None for no limit.
    """
    from confluent_kafka import Consumer, TopicPartition

    waiting = sum(max(0, ends[p] - start) for p, start in starts.items())
    limits = (
        {"queued.max.messages.kbytes": READ_BYTES >> 10, "fetch.max.bytes": READ_BYTES}
        if most
        else {}
    )
    consumer = Consumer(
        {**settings, **limits, "group.id": "eagre-dashboard", "enable.auto.commit": False}
    )
    records: list[Any] = []
    size = 0
    try:
        consumer.assign([TopicPartition(topic, p, o) for p, o in starts.items() if o < ends[p]])
        deadline = time.monotonic() + READ_SECONDS
        while len(records) < waiting and time.monotonic() < deadline:
            fetched = consumer.consume(1 if most else FETCH_RECORDS, 0.2)
            records += [record for record in fetched if not record.error()]
            size += sum(len(record.value() or b"") for record in fetched)
            if most and size >= most:
                break
    finally:
        consumer.close()
    return records


class ReasonCounts:
    """Counts the reasons of the newest dead letters of a topic; each of them is read once."""

    def __init__(self) -> None:
        self._next: Offsets = {}
        self._kinds: deque[str] = deque(maxlen=DEAD_LETTERS)

    def starts(self, begins: Offsets, ends: Offsets) -> Offsets:
        """Return where to read on; a topic that was created again is read from scratch."""
        each = max(1, DEAD_LETTERS // len(ends))
        known = {p: o for p, o in self._next.items() if o <= ends.get(p, 0)}
        return {p: max(begins[p], end - each, known.get(p, 0)) for p, end in ends.items()}

    def add(self, records: list[Any]) -> None:
        """Count records that were read."""
        for record in records:
            self._kinds.append(DeadLetter.of(record).kind or "no reason given")
            self._next[record.partition()] = record.offset() + 1

    def counts(self) -> dict[str, int]:
        """Return the most frequent reasons with their numbers."""
        return dict(Counter(self._kinds).most_common(REASONS))
