"""The workloads in Spark without Eagre, in micro-batches or in real time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from semantics import SEMANTICS, python_state
from transforms import schema, transform

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

STATE = "n LONG, mean DOUBLE, squares DOUBLE"


def events(spark: SparkSession, job: dict[str, Any]) -> DataFrame:
    """The source, parsed."""
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job["brokers"])
        .option("subscribe", job["source"])
        .option("startingOffsets", "earliest")
        .load()
    )
    parsed = F.from_json(F.col("value").cast("string"), schema(job["workload"]))
    return stream.select(parsed.alias("event"), "offset").select("event.*", "offset")


def keep_state(rows: DataFrame) -> DataFrame:
    """The Python function with state, through pandas."""
    result = "card STRING, n LONG, score LONG"
    return rows.groupBy("card").applyInPandasWithState(
        deviate, result, STATE, "update", "NoTimeout"
    )


def deviate(
    key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """One card's payments of a batch, in their order."""
    import pandas as pd

    stored: dict[str, Any] = dict(
        zip(("n", "mean", "squares"), state.getOption or (), strict=False)
    )
    rows = pd.concat(list(frames)).sort_values("offset")
    results = [
        python_state(stored, {"card": key[0], "amount": int(amount)}, {})[0]
        for amount in rows["amount"]
    ]
    state.update((stored["n"], stored["mean"], stored["squares"]))
    yield pd.DataFrame(results)


def main() -> None:
    """Run the job until killed."""
    job = json.loads(Path(sys.argv[1]).read_text())
    builder = SparkSession.builder.appName("bench")
    settings = dict(job["settings"])
    trigger = settings.pop("trigger")
    for key, value in settings.items():
        builder.config(key, value)
    spark = builder.getOrCreate()
    rows = events(spark, job)
    workload = job["workload"]
    results = (
        keep_state(rows)
        if workload == "python-state"
        else transform(rows.drop("offset"), workload, job["merchants"])
    )
    key = SEMANTICS[workload].slot[0]
    query = (
        results.select(F.col(key).alias("key"), F.to_json(F.struct("*")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", job["brokers"])
        .option("kafka.linger.ms", "0")
        .option("topic", job["sink"])
        .option("checkpointLocation", f"{job['state']}/checkpoint")
        .outputMode("update")
        .trigger(**{trigger.split("=")[0]: trigger.split("=")[1]})
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
