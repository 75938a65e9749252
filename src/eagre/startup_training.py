"""Runs what most pipelines run, so that the JVM can write down the classes it takes.

``eagre jars fetch`` does this once, in a process of its own; see ``eagre.jvm.archive``.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.errors import JvmError
from eagre.jvm import archive, find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eagre.pipeline import Pipeline
    from eagre.testing.harness import Harness

LIMIT_SECONDS = 300
LONGEST_REASON = 300
KEPT = 3
"""Archives: there may be several environments, of 200 MB each."""
LOADED_SECONDS, LOADED_RATE, SHORT = 15, 2_000, "200 ms"
"""Enough ends of epochs for the compiler to have seen what they take."""
EPOCHS = "spark.sql.streaming.realTimeMode.minBatchDuration"


def train() -> Path:
    """Write the archive for this Java and these jars, unless it is there.

    Raises:
        JvmError: It could not be written; everything works without.
    """
    target = archive.archive()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        part = Path(folder) / "part"
        env = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
        command = [sys.executable, "-m", __name__, str(part)]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=env,
                capture_output=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
            failure = _last_word(done.stderr.decode(errors="replace"))
        except subprocess.TimeoutExpired:
            failure = f"not done within {LIMIT_SECONDS} s"
        if not part.exists():
            raise JvmError("ARCHIVE_NOT_WRITTEN", f"no start-up archive was written: {failure}.")
        part.replace(target)
    written = sorted(target.parent.glob("*.archive"), key=lambda path: path.stat().st_mtime)
    for old in written[:-KEPT]:
        old.unlink()
    return target


def _last_word(told: str) -> str:
    r"""What a process said last; Java's list of its own options is no reason.

    >>> _last_word("no space left\nPicked up JAVA_TOOL_OPTIONS: -Da=b")
    'no space left'
    """
    lines = [line for line in told.splitlines() if line and not line.startswith("Picked up")]
    return lines[-1][:LONGEST_REASON] if lines else "it said nothing"


def _run(target: str) -> None:
    """Run pipelines with and without state in both modes, and a second time as after a kill."""
    from pyspark import SparkContext
    from pyspark.sql import functions as F

    import eagre as eg
    from eagre.broker import EmbeddedBroker
    from eagre.session import session
    from eagre.testing.harness import Harness

    source = eg.Kafka("in", schema="card STRING, n BIGINT", partitioned_by="card")
    sink = eg.Kafka("out", key="card", delivery="exactly-once", fence="in-band")
    plus = eg.udf(lambda n: n + 1, "bigint")

    @eg.pipeline(source=source, sink=sink)
    def counts(df: DataFrame) -> DataFrame:
        return df.groupBy("card").agg(F.count("*").alias("count"), F.sum("n").alias("sum"))

    @eg.pipeline(source=source, sink=sink)
    def calls(df: DataFrame) -> DataFrame:
        return df.where("n > 0").withColumn("m", plus("n"))

    @eg.pipeline(source=source, sink=eg.Kafka("out", key="card"))
    def features(df: DataFrame) -> DataFrame:
        once = eg.deduplicate(df, "n", within="1 minute")
        return eg.rolling(once, "card", {"1 minute": ["count as count", "avg(n) as mean"]})

    settings = {"spark.driver.extraJavaOptions": archive.write(Path(target), find_java())}
    with EmbeddedBroker(say=logging.info) as broker:
        spark = session("training", "local[8]", **settings, **{EPOCHS: "100ms"})
        rows = [{"card": f"c{n % 7}", "n": n} for n in range(200)]
        for pipeline in (counts, calls, features):
            harness = Harness(spark, broker.address, Path(tempfile.mkdtemp(dir=".")))
            harness.run(pipeline, rows, mode="micro-batch")
            for _ in range(2):
                harness.run(pipeline, rows, checkpoint=Path(pipeline.name).resolve())
            _under_load(pipeline, harness, rows)
        gateway = SparkContext._gateway  # noqa: SLF001  (PySpark never ends its JVM by itself)
        spark.stop()
        gateway.shutdown()  # type: ignore[union-attr]
        gateway.proc.stdin.close()  # type: ignore[union-attr]
        gateway.proc.wait(LIMIT_SECONDS)  # type: ignore[union-attr]


def _under_load(pipeline: Pipeline, harness: Harness, rows: list[dict[str, Any]]) -> None:
    """Run it through many ends of epochs: the next JVM compiles at once what is hot in this one."""
    from eagre.delivery import Checkpoint

    folder = Path(f"{pipeline.name}-loaded").resolve()
    query = pipeline.start(
        harness.spark,
        checkpoint=str(folder),
        brokers=harness.brokers,
        every=SHORT,
        start=harness.topics.ends(pipeline.sources[0].topics),
        gate=harness.gate(pipeline, Checkpoint(folder)),
    )
    deadline = time.monotonic() + LOADED_SECONDS
    while time.monotonic() < deadline:
        harness.write(pipeline, rows)
        time.sleep(len(rows) / LOADED_RATE)
    query.stop()


if __name__ == "__main__":
    _run(sys.argv[1])
