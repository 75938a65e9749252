"""A look at the newest records, on request: how the keys of each shuffle are spread."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from eagre.broker import Topics
from eagre.errors import EagreError
from eagre.jvm import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from eagre.broker.topics import Offsets
    from eagre.preflight.facts import Facts
    from eagre.preflight.plan import Source

ROWS = 2_000
"""How many of the newest records of each partition are read."""


def skew(
    spark: SparkSession, writer: DataStreamWriter, facts: Facts
) -> Iterator[tuple[str, float, int]]:
    """Run the query up to each stateful operator over a sample, and count its keys.

    Gives the keys, the share of the most frequent one, and the rows that were counted.
    """
    ranges = [_newest(source, facts) for source in facts.plan.sources]
    if not ranges or not all(ranges):
        return
    told = gateway.companion(spark, "plan.Preflight").keys(writer._jwrite, json.dumps(ranges))  # noqa: SLF001
    for one in json.loads(told):
        if one["rows"]:
            yield ", ".join(one["keys"]), one["most"] / one["rows"], one["rows"]


def _newest(source: Source, facts: Facts) -> dict[str, dict[str, dict[str, int]]]:
    """The offsets between which the sample lies, as Spark's batch reader takes them."""
    names = [name for name in source.topics if name in facts.topics and facts.topics[name].exists]
    client = source.client
    if not names or not client:
        return {}
    try:
        ends = Topics(client).ends(names)
    except EagreError:
        return {}
    begin = {
        name: {
            str(p): max(facts.topics[name].begins.get(p, 0), end - ROWS)
            for p, end in _read(source, name, ends).items()
        }
        for name in names
    }
    end = {name: {str(p): o for p, o in _read(source, name, ends).items()} for name in names}
    return {"begin": begin, "end": end}


def _read(source: Source, topic: str, ends: Offsets) -> dict[int, int]:
    """The ends of those partitions that the source reads."""
    only = source.assigned.get(topic)
    return {p: end for p, end in ends[topic].items() if only is None or p in only}
