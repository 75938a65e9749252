"""Sinks: which of them Real-Time Mode can write to, and what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.finding import ALLOWLIST, REFUSED, Match, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

SINKS = ("kafka", "console", "foreach")
FILES = ("parquet", "delta", "iceberg", "hudi", "orc", "json", "csv", "text", "avro")
"""Sinks that only append whole files."""


@rule(
    "OUTPUT_MODE",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED",
)
def output_mode(facts: Facts) -> Iterator[Match]:
    """Real-Time Mode writes each result immediately, so its output mode is `update`.

    `append` would hold back a result until the watermark makes it final, and `complete` would
    rewrite the whole table. `eg.pipeline` always writes in update mode. In plain PySpark:

        writer.outputMode("update")

    A reader that needs only final results takes the last version of each key.
    """
    mode = facts.plan.output_mode
    if mode != "Update":
        yield Match(
            f'outputMode("{mode.lower()}")',
            f"the output mode is {mode.lower()}, and real time supports only update.",
            'write `.outputMode("update")`.',
        )


@rule("FOREACH_BATCH", "error", REFUSED, ALLOWLIST)
def foreach_batch(facts: Facts) -> Iterator[Match]:
    """`foreachBatch` receives complete batches, and real time has none until its epoch ends.

    Write to Kafka in real time, and run `foreachBatch` in a second, micro-batch query that reads
    that topic. Or run this query in micro-batches (`eagre run --mode micro-batch`).
    """
    if facts.plan.format.lower() == "foreachbatch":
        yield Match(
            "foreachBatch",
            "foreachBatch has no meaning in real time: there are no batches.",
            "write to a Kafka topic in real time, and run foreachBatch in a micro-batch query that "
            "reads it.",
        )


@rule("SINK_APPEND_ONLY", "error", REFUSED, "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE")
def append_only_sink(facts: Facts) -> Iterator[Match]:
    """Files and lake tables only accept appends of whole files, once per batch.

    Real time writes row by row. Keep the critical path in real time and write to Kafka. Let a
    second query copy that topic, or the source, into the table in micro-batches:

        (spark.readStream.format("kafka")...
            .writeStream.format("parquet").outputMode("append")
            .option("checkpointLocation", "checkpoints/archive")
            .trigger(processingTime="1 minute").start("archive"))

    Each query needs its own checkpoint and its own session.
    """
    kind = facts.plan.format.lower()
    if kind in FILES:
        yield Match(
            f"sink {kind}",
            f"a {kind} table accepts only whole files, and real time writes rows.",
            "write to Kafka in real time, and copy that topic into the table with a second, "
            "micro-batch query.",
        )


@rule("SINK", "error", REFUSED, ALLOWLIST)
def sink(facts: Facts) -> Iterator[Match]:
    """Real-Time Mode writes to Kafka, to a JVM `ForeachWriter` and to the console.

    `eg.Postgres` and `eg.Redis` are such writers and store the newest row of each key, and
    `eg.Sink` writes to any store from Python. For other sinks of Spark, write to Kafka, and copy
    the records with a micro-batch query or a connector.
    """
    kind = facts.plan.format.lower()
    if kind not in (*SINKS, *FILES, "foreachbatch"):
        yield Match(
            f"sink {kind}",
            f"the sink {kind!r} does not accept single rows.",
            "write to Kafka, and copy the records from there; or write in Python with eg.Sink.",
        )


@rule("PYTHON_FOREACH", "error", "Rows wait in a buffer of the Python runner, often for minutes.")
def python_foreach(facts: Facts) -> Iterator[Match]:
    """A Python `foreach` passes Spark's checks, but Spark holds back its rows.

    PySpark sends rows to the Python worker in batches that grow up to a megabyte. At low rates
    nothing arrives until the epoch ends: of 50 rows at 10 per second, none had arrived after 20
    seconds. Give the same object to `eg.write_stream`, or to a pipeline as its sink: it then gets
    each row at once. Or run the query in micro-batches.
    """
    if "Python" in facts.plan.foreach:
        yield Match(
            "foreach",
            "a Python foreach receives its rows in batches of up to a megabyte.",
            "write `eg.write_stream(rows, the_same_object)` instead of `.foreach(...)`.",
        )


@rule(
    "SINK_COLUMNS", "error", "Spark refuses the query, or each of its rows.", real_time_only=False
)
def sink_columns(facts: Facts) -> Iterator[Match]:
    """Spark's Kafka sink writes the column `value`, and optionally `key`, `headers` and `topic`.

    `value` and `key` must be strings or bytes. Without the option `topic`, each row names its topic
    in the column `topic`. `eg.pipeline` creates these columns itself.
    """
    if facts.plan.format != "kafka":
        return
    columns = facts.plan.columns
    if columns.get("value") not in ("string", "binary"):
        yield Match(
            "column value",
            f"the Kafka sink needs a string or binary column 'value'; it is "
            f"{columns.get('value', 'missing')}.",
            'end with `.select(F.to_json(F.struct("*")).alias("value"))`.',
        )
    if columns.get("key", "string") not in ("string", "binary"):
        yield Match(
            "column key",
            f"the Kafka sink needs a key of type string or binary; it is {columns['key']}.",
            'write `F.col("key").cast("string")`.',
        )
    if not facts.plan.option("topic") and columns.get("topic") != "string":
        yield Match(
            "option topic",
            "the Kafka sink has neither an option `topic` nor a column of that name.",
            'write `.option("topic", "...")`.',
        )
