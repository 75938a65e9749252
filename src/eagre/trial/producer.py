"""The producer of a load and of its tables: settings, encoding, the last flush."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from eagre.waiting import wait_until

PRODUCER = {
    "linger.ms": 0,
    "acks": 1,
    "partitioner": "murmur2_random",
    "socket.nagle.disable": True,
    "delivery.report.only.error": True,
    "log_level": 0,
}
"""As in the published benchmark: no lingering, one acknowledgement, Java's partitioner."""
FLUSH_SECONDS = 10


def unsent(producer: Any) -> int:  # noqa: ANN401  (librdkafka's client has no types)
    """Wait until all records are sent; return how many are not."""
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: not producer.flush(1), FLUSH_SECONDS, "")
    return len(producer)


def encode(event: dict[str, Any]) -> str:
    """Encode an event for the topic."""
    return json.dumps(event, separators=(",", ":"))
