"""Reads records of a topic as they arrive, so that their time of receipt is exact."""

from __future__ import annotations

from typing import Any

POLL_SECONDS = 0.2


def arrived(consumer: Any, most: int) -> tuple[Any, ...]:  # noqa: ANN401  (librdkafka's types)
    """Wait a moment for a record, and return it with those that have arrived with it.

    The caller reads the clock afterwards: once for all of them, when none of them waits any more.
    """
    first = consumer.poll(POLL_SECONDS)
    return () if first is None else (first, *consumer.consume(most, 0))
