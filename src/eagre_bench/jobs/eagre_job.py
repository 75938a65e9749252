"""The workloads as an Eagre pipeline, run by ``eagre run``."""

import json
import os
from pathlib import Path

import eagre_operators
import eagre_python
from pyspark.sql import DataFrame
from semantics import SEMANTICS
from transforms import MERCHANTS, schema, transform

import eagre as eg

job = json.loads(Path(os.environ["EAGRE_BENCH_JOB"]).read_text())
variant = os.environ["EAGRE_BENCH_VARIANT"]
key = SEMANTICS[job["workload"]].slot[0]
events = eg.Kafka(job["source"], schema=schema(job["workload"]), partitioned_by=key)
results = eg.Kafka(
    job["sink"],
    key=key,
    delivery="exactly-once" if variant == "exactly-once" else "at-least-once",
)
sources = [events]
if variant in eagre_operators.WITH_TABLE:
    sources.append(eg.Kafka(job["table"], schema=MERCHANTS))


@eg.pipeline(source=sources, sink=results)
def bench(df: DataFrame, *tables: DataFrame) -> DataFrame:
    """Run the workload that the job names."""
    operator = eagre_operators.OPERATORS.get((variant, job["workload"]))
    if operator:
        return operator(df, *tables)
    if job["workload"] == "python-map":
        return eagre_python.python_map(df, variant)
    if job["workload"] == "python-state":
        return eagre_python.python_state(df)
    return transform(df, job["workload"], job["merchants"])
