"""Sources: which of them Real-Time Mode can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.finding import REFUSED, Match, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts


@rule(
    "SOURCE",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED",
)
def source(facts: Facts) -> Iterator[Match]:
    """Real-Time Mode reads only sources that deliver row by row. In Spark, that is Kafka.

    Files, rate, sockets and Python data sources deliver whole batches. Write the data to a Kafka
    topic first. For a quick test, use `eagre topic produce`.
    """
    for stream in facts.plan.sources:
        if not stream.real_time:
            yield Match(
                f"source {stream.name}",
                f"the source {stream.name!r} cannot be read in real time.",
                "read from Kafka.",
            )


@rule(
    "SOURCE_TWICE",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.IDENTICAL_SOURCES_IN_UNION_NOT_SUPPORTED",
)
def source_twice(facts: Facts) -> Iterator[Match]:
    """A real-time query can use each source once. Spark refuses a union of a stream with itself.

    Read the stream once, and add a column that identifies the branch:

        df.withColumn("kind", F.explode(F.array(F.lit("a"), F.lit("b"))))

    Or read the topic through a second `eg.Kafka(...)` with a different option, such as a different
    `groupIdPrefix`.
    """
    for stream in facts.plan.sources:
        if stream.again:
            yield Match(
                f"source {','.join(stream.topics) or stream.name}",
                "the query uses the same stream twice.",
                "read it once, and create both branches with F.explode(F.array(...)).",
            )
