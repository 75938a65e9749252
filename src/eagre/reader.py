"""Reads an exactly-once topic with in-band fences, and skips late writes of zombie processes.

Each run writes a fence into each partition when it starts. A record is valid if its incarnation is
not lower than the highest preceding fence of its pipeline. ``docs/explanation/exactly-once.md``
describes the rule for readers in any language. With confluent-kafka:

>>> from confluent_kafka import Consumer  # doctest: +SKIP
>>> fences = Fences()  # doctest: +SKIP
>>> while (message := consumer.poll(1)) is not None:  # doctest: +SKIP
...     if fences.admit(message.topic(), message.partition(), message.headers()):
...         use(message)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

IDENTITY = "eagre"
FENCE = "eagre-fence"


@dataclass
class Fences:
    """The highest incarnation of each pipeline in each partition.

    >>> fences = Fences()
    >>> fences.admit("scores", 0, [("eagre", b"3f2a 1 payments/0/7/0 1767225600000")])
    True
    >>> fences.admit("scores", 0, [("eagre-fence", b"3f2a 2")])
    False
    >>> fences.admit("scores", 0, [("eagre", b"3f2a 1 payments/0/8/0 1767225600000")])
    False
    >>> fences.admit("scores", 0, [("eagre", b"3f2a 2 payments/0/8/0 1767225600000")])
    True

    Attributes:
        seen: By topic, partition and pipeline. Store it with the offsets to resume from there.
        void: The number of records that were skipped.
    """

    seen: dict[tuple[str, int, str], int] = field(default_factory=dict)
    void: int = 0

    def admit(
        self, topic: str, partition: int, headers: Iterable[tuple[str, bytes | None]] | None
    ) -> bool:
        """Return whether a record is valid: it is not a fence, and no later run fenced it off.

        Call it for every record of a partition, in order. Records of other producers are valid.
        """
        for name, value in headers or ():
            if name not in (IDENTITY, FENCE) or not value:
                continue
            pipeline, incarnation = value.split(b" ")[:2]
            key = (topic, partition, pipeline.decode())
            highest = self.seen.get(key, 0)
            self.seen[key] = max(highest, int(incarnation))
            if name == FENCE:
                return False
            if int(incarnation) < highest:
                self.void += 1
                return False
        return True
