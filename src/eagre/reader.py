"""Reads an exactly-once topic with in-band fences: leaves out what a dead process wrote late.

A run that begins writes a fence into each partition. A record is valid when its incarnation is not
below the highest fence of its pipeline before it. ``docs/explanation/exactly-once.md`` has the rule
for readers in any language; this is it for confluent-kafka:

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
    """The highest incarnation seen of each pipeline in each partition.

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
        seen: By topic, partition and pipeline; keep it with the offsets to go on exactly there.
        void: How many records were left out.
    """

    seen: dict[tuple[str, int, str], int] = field(default_factory=dict)
    void: int = 0

    def admit(
        self, topic: str, partition: int, headers: Iterable[tuple[str, bytes | None]] | None
    ) -> bool:
        """Tell whether a record counts: no fence, and not written after one that shuts it out.

        Call it for every record of a partition, in their order. Records of others always count.
        """
        for name, value in headers or ():
            if name not in (IDENTITY, FENCE) or not value:
                continue
            pipeline, incarnation = value.split(b" ")[:2]
            key = (topic, partition, pipeline.decode())
            known = self.seen.get(key, 0)
            self.seen[key] = max(known, int(incarnation))
            if name == FENCE:
                return False
            if int(incarnation) < known:
                self.void += 1
                return False
        return True
