"""The pipelines of the campaign: every operator, Python functions, exactly-once and database sinks.

The outputs have more partitions than the source, so that neighbouring rows of the source go to
different partitions: a run that dies may have delivered any subset of them.
"""

import os

import heap
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import eagre as eg

heap.listen()

events = eg.Kafka(
    "chaos-in",
    schema="id BIGINT, card STRING, n BIGINT, at TIMESTAMP, copies INT",
    partitioned_by="card",
    partitions=2,
)
others = eg.Kafka(
    "chaos-others", schema="other BIGINT, card STRING, price BIGINT, when TIMESTAMP", partitions=2
)
DATABASES = {
    name: {"url": os.environ.get(f"CHAOS_{name}_URL", f"{name.lower()}://127.0.0.1:1/0")}
    | {"credentials": os.environ.get("CHAOS_CREDENTIALS")}
    for name in ("POSTGRESQL", "REDIS")
}


def once(name: str, key: str = "card") -> eg.Kafka:
    """Return an exactly-once output."""
    return eg.Kafka(
        f"chaos-{name}", key=key, delivery="exactly-once", fence="in-band", partitions=3
    )


def least(name: str, key: str = "card") -> eg.Kafka:
    """Return an at-least-once output."""
    return eg.Kafka(f"chaos-{name}", key=key, partitions=3)


@eg.pipeline(source=events, sink=once("stateless"))
def stateless(df: DataFrame) -> DataFrame:
    """Return one result for most rows, two for every third."""
    copies = F.sequence(F.lit(1), F.when(F.col("id") % 3 == 0, 2).otherwise(1))
    return df.select("id", "card", "n", F.explode(copies).alias("copy"))


@eg.pipeline(source=events, sink=once("bursts"))
def bursts(df: DataFrame) -> DataFrame:
    """Return as many results as a row asks for: a few ask for thousands."""
    copies = F.sequence(F.lit(1), F.col("copies"))
    return df.select("id", "card", "n", F.explode(copies).alias("copy"))


@eg.pipeline(source=events, sink=once("counts"))
def counts(df: DataFrame) -> DataFrame:
    """Return the running count and sum of each card."""
    return df.groupBy("card").agg(F.count("*").alias("count"), F.sum("n").alias("total"))


@eg.pipeline(source=events, sink=once("distinct"))
def distinct(df: DataFrame) -> DataFrame:
    """Return each id once, by Spark's own operator."""
    return df.dropDuplicates(["id"]).select("id", "card", "n")


@eg.pipeline(source=[events, others], sink=once("union"))
def union(df: DataFrame, more: DataFrame) -> DataFrame:
    """Return the rows of two topics."""
    renamed = more.select(F.col("other").alias("id"), "card", F.col("price").alias("n"))
    return df.select("id", "card", "n").union(renamed)


@eg.udf("bigint")
def doubled(n: int) -> int:
    """Double a number, row by row."""
    return 2 * n


@eg.batch_udf("bigint")
def increased(values: list) -> list:
    """Add one to numbers, many at a time."""
    return [n + 1 for n in values]


@eg.pipeline(source=events, sink=once("functions"))
def functions(df: DataFrame) -> DataFrame:
    """Return what two Python functions make of each row, twice."""
    worked = df.select("id", "card", increased(doubled("n")).alias("n"))

    def twice(row):  # noqa: ANN001, ANN202  (a function of a user)
        return [(row.id, row.card, row.n, copy) for copy in (1, 2)]

    return eg.flat_map(worked, twice, "id BIGINT, card STRING, n BIGINT, copy INT")


class Sums(StatefulProcessor):
    """The running count and sum of a card, in Python."""

    def init(self, handle) -> None:  # noqa: ANN001, D102
        self.sums = handle.getValueState("sums", "count LONG, total LONG")

    def handleInputRows(self, key, rows, timerValues):  # noqa: ANN001, ANN201, ARG002, D102, N802, N803
        count, total = self.sums.get() or (0, 0)
        for row in rows:
            count, total = count + 1, total + row.n
            yield key[0], count, total
        self.sums.update((count, total))

    def close(self) -> None: ...  # noqa: D102


@eg.pipeline(source=events, sink=once("python-state"), name="python-state")
def python_state(df: DataFrame) -> DataFrame:
    """Return the running count and sum of each card, by a Python processor."""
    schema = "card STRING, count BIGINT, total BIGINT"
    return eg.transform_with_state(df.groupBy("card"), Sums(), schema, "none")


def totals(df: DataFrame) -> DataFrame:
    """Return the count and sum of each card with the position of its newest row."""
    newest = F.max("_source").alias("_source")
    return df.groupBy("card").agg(F.count("*").alias("count"), F.sum("n").alias("total"), newest)


postgres = eg.pipeline(
    source=events,
    sink=eg.Postgres("chaos_totals", key="card", **DATABASES["POSTGRESQL"]),
    name="postgres",
)(totals)
redis = eg.pipeline(
    source=events, sink=eg.Redis("chaos:{card}", key="card", **DATABASES["REDIS"]), name="redis"
)(totals)

LATE = {"grace": "1 day", "event_time": "at"}
WANTED = ["count", "sum(n) as total"]


@eg.pipeline(source=events, sink=least("deduplicate"))
def deduplicate(df: DataFrame) -> DataFrame:
    """Return each id once, by Eagre's operator."""
    rows = eg.deduplicate(df, "id", "1 day", event_time="at")
    return rows.select("id", "card", "n")


@eg.pipeline(source=events, sink=least("rolling"))
def rolling(df: DataFrame) -> DataFrame:
    """Return each row with the count and sum of its card's last minute."""
    return eg.rolling(df, "card", {"1 minute": ["count as count", "sum(n) as total"]}, **LATE)


@eg.pipeline(source=events, sink=least("windows"))
def windows(df: DataFrame) -> DataFrame:
    """Return with each row its window so far."""
    return eg.windows(df, "card", "30 s", WANTED, **LATE)


@eg.pipeline(source=events, sink=least("sessions"))
def sessions(df: DataFrame) -> DataFrame:
    """Return the sessions of a card."""
    return eg.session_windows(df, "card", "20 s", WANTED, **LATE)


@eg.pipeline(source=events, sink=least("leaders", "zone"))
def leaders(df: DataFrame) -> DataFrame:
    """Return the three best cards of each zone and minute."""
    zoned = df.withColumn("zone", F.substring("card", -1, 1))
    return eg.top_n(zoned, "zone", "sum(n - 500)", 3, "1 minute", item="card", **LATE)


@eg.pipeline(source=[events, others], sink=least("join"))
def join(df: DataFrame, more: DataFrame) -> DataFrame:
    """Return pairs of the same card that are close in time."""
    times = {"grace": "1 day", "event_time": ("at", "when")}
    pairs = eg.interval_join(df, more, "card", ("2 s", "10 s"), **times)
    return pairs.select("id", "card", "other")


@eg.pipeline(source=[events, others], sink=least("lookup"))
def lookup(df: DataFrame, table: DataFrame) -> DataFrame:
    """Return each row with the price of its card."""
    return eg.lookup(df, table, "card", wait="1 minute").select("id", "card", "price")
