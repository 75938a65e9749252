"""Committed positions of pipelines and consumer groups, and their lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagre.cli.console import project_checkpoint
from eagre.config import project_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.broker import Topics
    from eagre.broker.topics import Offsets

Positions = dict[str, "Offsets"]
"""Committed offsets by pipeline or group."""


def of(topics: Topics, kind: str, positions: Positions) -> Iterator[dict[str, Any]]:
    """Compare positions with the end offsets; ``kind`` is ``pipeline`` or ``group``."""
    for owner, offsets in positions.items():
        ends = topics.ends(offsets)
        for name, partitions in offsets.items():
            for partition, offset in sorted(partitions.items()):
                end = ends[name][partition]
                yield {
                    kind: owner,
                    "topic": name,
                    "partition": partition,
                    "committed": offset,
                    "end": end,
                    "lag": end - offset,
                }


def of_pipelines(name: str | None) -> Positions:
    """Return the committed offsets of a checkpoint, or of all checkpoints of this project."""
    folder = project_dir() / "checkpoints"
    names = [name] if name else sorted(p.name for p in folder.glob("*") if p.is_dir())
    positions = {}
    for checkpoint in map(project_checkpoint, names):
        described = checkpoint.describe()
        binding = described["binding"]
        start = binding["start"] if binding else {}
        positions[checkpoint.path.name] = described["offsets"] or start
    return positions


def of_group(topics: Topics, group: str) -> Positions:
    """Return the committed offsets of a consumer group."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    request = [ConsumerGroupTopicPartitions(group)]
    future = topics.admin.list_consumer_group_offsets(request)[group]
    positions: dict[str, dict[int, int]] = {}
    for partition in topics.result(future).topic_partitions:
        positions.setdefault(partition.topic, {})[partition.partition] = max(0, partition.offset)
    return {group: positions}
