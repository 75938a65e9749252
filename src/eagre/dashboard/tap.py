"""The tap: a consumer of the output topic that feeds the meter."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from eagre.latency import Meter, Result
from eagre.reader import FENCE
from eagre.sinks.kafka import HEADER, ORIGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONSUMER = {
    "group.id": "eagre-page",
    "enable.auto.commit": False,
    "isolation.level": "read_uncommitted",
    "socket.nagle.disable": True,
    "queued.max.messages.kbytes": 2048,
    "fetch.queue.backoff.ms": 5,
    "log_level": 0,
}
POLL_SECONDS = 0.2
AT_ONCE = 500
MOST_PER_SECOND = 5_000
"""Above this rate the tap samples: of each fifth of a second it looks at the first thousand."""
SLICE_SECONDS = 0.2
_SLICE = round(MOST_PER_SECOND * SLICE_SECONDS)


class Tap:
    """Reads what is appended to topics from now on, in a thread of its own.

    Args:
        settings: The client's, as librdkafka has them.
        topics: With the number of partitions of each.
        sources: The topics that the results come from; others write there too, perhaps.
        meter: What it feeds.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: Mapping[str, int],
        sources: Iterable[str],
        meter: Meter,
    ) -> None:
        from confluent_kafka import OFFSET_END, Consumer, TopicPartition

        self._meter = meter
        self._sources = tuple(name.encode() + b"/" for name in sources)
        self._consumer: Any = Consumer({**settings, **CONSUMER})
        self._ends = [
            TopicPartition(name, p, OFFSET_END) for name, n in topics.items() for p in range(n)
        ]
        self._consumer.assign(self._ends)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="eagre-tap", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._over.set()
        self._thread.join(5)

    def _read(self) -> None:
        began, taken = time.monotonic(), 0
        while not self._over.is_set():
            taken += self._take()
            now = time.monotonic()
            if taken >= _SLICE and now - began < SLICE_SECONDS:
                self._pass_over(SLICE_SECONDS - (now - began))
                now = time.monotonic()
            if now - began >= SLICE_SECONDS:
                began, taken = now, 0
        self._consumer.close()

    def _take(self) -> int:
        """Wait for one record, then take what else is there; all of it is here only after that."""
        first = self._consumer.poll(POLL_SECONDS)
        if first is None:
            return 0
        records = (first, *self._consumer.consume(AT_ONCE, 0))
        received = time.time_ns() // 1000
        good = [record for record in records if not record.error()]
        read = [origin(record) for record in good if not _is_fence(record)]
        own = [one for one in read if one and one.at.startswith(self._sources)]
        self._meter.take(own, received, unmeasured=sum(one is None for one in read))
        return len(good)

    def _pass_over(self, seconds: float) -> None:
        """Leave out what comes for a while, and go on with the newest."""
        before = self._positions()
        self._consumer.pause(self._ends)
        self._over.wait(seconds)
        self._consumer.assign(self._ends)
        first = None
        while first is None and not self._over.is_set():
            first = self._consumer.poll(POLL_SECONDS)
        if first is not None and not first.error():
            self._meter.take([], 0, skipped=_between(before, self._positions()))

    def _positions(self) -> dict[tuple[str, int], int]:
        positions: dict[tuple[str, int], int] = {}
        with contextlib.suppress(Exception):
            for one in self._consumer.position(self._ends):
                positions[one.topic, one.partition] = one.offset
        return positions


def _between(before: Mapping[tuple[str, int], int], after: Mapping[tuple[str, int], int]) -> int:
    return sum(
        max(0, after[at] - 1 - offset)
        for at, offset in before.items()
        if offset >= 0 and after.get(at, -1) >= 0
    )


def origin(record: Any) -> Result | None:  # noqa: ANN401  (librdkafka's record has no types)
    """Read where a result comes from; None where it does not say."""
    for name, value in record.headers() or ():
        if name not in (ORIGIN, HEADER) or not value:
            continue
        words = value.split(b" ")
        place, time_ms = words[-2:] if len(words) > 1 else (b"", b"")
        if not time_ms.isdigit():
            return None
        at = b"/".join(place.split(b"/")[: -1 if name == ORIGIN else -2])
        return Result(at, int(time_ms), record.timestamp()[1])
    return None


def _is_fence(record: Any) -> bool:  # noqa: ANN401
    return any(name == FENCE for name, _ in record.headers() or ())
