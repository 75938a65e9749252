"""Sinks: which take rows one by one, and what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.finding import ALLOWLIST, REFUSED, Found, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

SINKS = ("kafka", "console", "foreach")
FILES = ("parquet", "delta", "iceberg", "hudi", "orc", "json", "csv", "text", "avro")
"""Sinks that only append, in whole files."""


@rule(
    "OUTPUT_MODE",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED",
)
def output_mode(facts: Facts) -> Iterator[Found]:
    """Real-Time Mode writes each result as it comes, so its output mode is `update`.

    `append` would hold a result back until a watermark says it is final, and `complete` would write
    the whole table again. `eg.pipeline` always writes in update mode. In plain PySpark:

        writer.outputMode("update")

    A reader that needs only final results takes the last version of each key.
    """
    mode = facts.plan.output_mode
    if mode != "Update":
        yield Found(
            f'outputMode("{mode.lower()}")',
            f"the output mode is {mode.lower()} and real time knows only update.",
            'write `.outputMode("update")`.',
        )


@rule("FOREACH_BATCH", "error", REFUSED, ALLOWLIST)
def foreach_batch(facts: Facts) -> Iterator[Found]:
    """`foreachBatch` hands over finished batches, and real time has none until its epoch ends.

    Write to Kafka in real time, and run `foreachBatch` in a second, micro-batch query that reads
    that topic; or run this query itself in micro-batches (`eagre run --mode micro-batch`).
    """
    if facts.plan.format.lower() == "foreachbatch":
        yield Found(
            "foreachBatch",
            "foreachBatch has no meaning in real time: there are no batches.",
            "write to a Kafka topic in real time, and run foreachBatch in a micro-batch query that "
            "reads it.",
        )


@rule("SINK_APPEND_ONLY", "error", REFUSED, "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE")
def append_only_sink(facts: Facts) -> Iterator[Found]:
    """Files and lake tables can only be appended to, in whole files, once per batch.

    Real time writes row by row. Keep the critical path in real time, to Kafka, and let a second
    query copy that topic, or the source, into the table in micro-batches:

        (spark.readStream.format("kafka")...
            .writeStream.format("parquet").outputMode("append")
            .option("checkpointLocation", "checkpoints/archive")
            .trigger(processingTime="1 minute").start("archive"))

    Each query has its own checkpoint; run them in sessions of their own.
    """
    kind = facts.plan.format.lower()
    if kind in FILES:
        yield Found(
            f"sink {kind}",
            f"a {kind} table is appended to in whole files, and real time writes rows.",
            "write to Kafka in real time, and copy that topic into the table with a micro-batch "
            "query beside it.",
        )


@rule("SINK", "error", REFUSED, ALLOWLIST)
def sink(facts: Facts) -> Iterator[Found]:
    """Real-Time Mode writes to Kafka, to a JVM `ForeachWriter` and to the console.

    `eg.Postgres` and `eg.Redis` are such writers, for the newest row of each key. For any other
    sink write to Kafka, and let a micro-batch query or a connector carry the records on.
    """
    kind = facts.plan.format.lower()
    if kind not in (*SINKS, *FILES, "foreachbatch"):
        yield Found(
            f"sink {kind}",
            f"the sink {kind!r} does not take rows one by one.",
            "write to Kafka, and carry the records on from there.",
        )


@rule("PYTHON_FOREACH", "error", "Rows stay in a buffer of the Python runner, often for minutes.")
def python_foreach(facts: Facts) -> Iterator[Found]:
    """A Python `foreach` passes Spark's checks, and its rows are withheld.

    PySpark hands rows to the Python worker in batches that double up to a megabyte, so at modest
    rates nothing arrives until the epoch ends: of 50 rows at 10 per second none had arrived after
    20 seconds. Write to Kafka and read the topic from Python, or run the query in micro-batches.
    """
    if "Python" in facts.plan.foreach:
        yield Found(
            "foreach",
            "a Python foreach gets its rows in batches of up to a megabyte.",
            "write to a Kafka topic, and consume that topic in Python.",
        )


@rule("SINK_COLUMNS", "error", "Spark refuses the query, or each row of it.", real_time_only=False)
def sink_columns(facts: Facts) -> Iterator[Found]:
    """Spark's Kafka sink writes the column `value`, and `key`, `headers`, `topic` where they are.

    `value` and `key` must be strings or bytes. Without the option `topic` each row names its topic
    in a column of that name. `eg.pipeline` makes these columns by itself.
    """
    if facts.plan.format != "kafka":
        return
    columns = facts.plan.columns
    if columns.get("value") not in ("string", "binary"):
        yield Found(
            "column value",
            f"the Kafka sink needs a string or binary column 'value'; it is "
            f"{columns.get('value', 'missing')}.",
            'end with `.select(F.to_json(F.struct("*")).alias("value"))`.',
        )
    if columns.get("key", "string") not in ("string", "binary"):
        yield Found(
            "column key",
            f"the Kafka sink needs a key of type string or binary; it is {columns['key']}.",
            'write `F.col("key").cast("string")`.',
        )
    if not facts.plan.option("topic") and columns.get("topic") != "string":
        yield Found(
            "option topic",
            "the Kafka sink has neither an option `topic` nor a column of that name.",
            'write `.option("topic", "...")`.',
        )
