"""An optional sample of the newest records, to measure the key skew of each shuffle."""

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
"""The number of records to read from the end of each partition."""


def skew(
    spark: SparkSession, writer: DataStreamWriter, facts: Facts
) -> Iterator[tuple[str, float, int]]:
    """Run the query up to each stateful operator over a sample, and count its keys.

    Yields the key columns, the share of the most frequent key, and the number of rows.
    """
    ranges = [_newest(source, facts) for source in facts.plan.sources]
    if not ranges or not all(ranges):
        return
    preflight = gateway.companion(spark, "plan.Preflight")
    counts = preflight.keys(writer._jwrite, json.dumps(ranges))  # noqa: SLF001
    for shuffle in json.loads(counts):
        if shuffle["rows"]:
            yield ", ".join(shuffle["keys"]), shuffle["most"] / shuffle["rows"], shuffle["rows"]


def _newest(source: Source, facts: Facts) -> dict[str, dict[str, dict[str, int]]]:
    """Return the offset range of the sample, in the format of Spark's batch reader."""
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
            for p, end in _end_offsets(source, name, ends).items()
        }
        for name in names
    }
    end = {name: {str(p): o for p, o in _end_offsets(source, name, ends).items()} for name in names}
    return {"begin": begin, "end": end}


def _end_offsets(source: Source, topic: str, ends: Offsets) -> dict[int, int]:
    """Return the end offsets of the partitions that the source reads."""
    assigned = source.assigned.get(topic)
    return {p: end for p, end in ends[topic].items() if assigned is None or p in assigned}
