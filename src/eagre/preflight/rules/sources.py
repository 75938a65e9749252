"""Sources: which can be read row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.finding import REFUSED, Found, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts


@rule(
    "SOURCE",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED",
)
def source(facts: Facts) -> Iterator[Found]:
    """Only sources that can wait for the next row run in real time: of those Spark ships, Kafka.

    Files, rate, sockets and Python data sources deliver whole batches. Bring the data into a Kafka
    topic first; `eagre topic produce` does it for a try.
    """
    for one in facts.plan.sources:
        if not one.real_time:
            yield Found(
                f"source {one.name}",
                f"the source {one.name!r} cannot be read in real time.",
                "read from Kafka.",
            )


@rule(
    "SOURCE_TWICE",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.IDENTICAL_SOURCES_IN_UNION_NOT_SUPPORTED",
)
def source_twice(facts: Facts) -> Iterator[Found]:
    """One source may stand in a real-time query once: a union of a stream with itself is refused.

    Give the rows a column that tells the branches apart instead, in one pass:

        df.withColumn("kind", F.explode(F.array(F.lit("a"), F.lit("b"))))

    or read the topic by a second `eg.Kafka(...)` with another option, such as another
    `groupIdPrefix`.
    """
    for one in facts.plan.sources:
        if one.again:
            yield Found(
                f"source {','.join(one.topics) or one.name}",
                "the same stream stands in the query twice.",
                "make both branches in one pass with F.explode(F.array(...)).",
            )
