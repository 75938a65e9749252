"""Spark's engine three times: by Eagre, in real time as it comes, and in micro-batches."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from eagre.config import LOOPBACK
from eagre.jvm import class_path, companion_jar, find_java
from eagre.profile import CLIENTS, DEFAULT, GC_OPTIONS, PROFILE
from eagre.session import LOCAL_SLOTS
from eagre.trial.app import COMMITS, run_app
from eagre.trial.process import Command
from eagre_bench.systems.base import JOBS, System

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre_bench.systems.base import Job

NO_PYTHON = "Spark's Real-Time Mode runs no Python"
FEWER_PARTITIONS = "8"
"""Spark's own default of 200 shuffle partitions needs as many task slots."""


class Eagre(System):
    """The product as its users start it: ``eagre run``.

    Args:
        overrides: Spark settings that differ from the profile.
    """

    name = "eagre"
    title = "Eagre, real time"
    checkpoints = COMMITS
    variant = "bridge"
    page = False
    profile = DEFAULT

    def __init__(self, overrides: dict[str, str] | None = None) -> None:
        self._overrides = overrides or {}

    def settings(self, job: Job) -> dict[str, str]:
        """The profile, which Eagre sets by itself."""
        profile = {setting.key: setting.value for setting in (*PROFILE, GC_OPTIONS)}
        clients = CLIENTS[self.profile]
        return {**profile, **clients.source, **clients.sink, **slow(job), **self._overrides}

    def command(self, job: Job) -> Command:
        """Run the app on the given brokers."""
        path = job.write(self.settings(job))
        return run_app(
            *(f"{JOBS / 'eagre_job.py'}:bench", "--mode", "real-time"),
            *("--every", f"{job.epoch_ms} ms", "--brokers", job.brokers),
            *("--checkpoint", f"{job.state}/checkpoint", "--from", "earliest"),
            *("--profile", self.profile),
            environment={"EAGRE_BENCH_JOB": str(path), "EAGRE_BENCH_VARIANT": self.variant},
            settings={**slow(job), **self._overrides},
            page=self.page,
        )


class _Scoring(Eagre):
    """The Python function of ``python-map`` in another way, and no other workload."""

    missing: str

    def refusal(self, workload: str) -> str:
        """Only the map has a counterpart."""
        return "" if workload == "python-map" else f"only python-map has {self.missing}"


class EagreBatch(_Scoring):
    """The Python function as one of lists."""

    name = "eagre-batch"
    title = "Eagre, Python in lists"
    variant = "batch"
    missing = "a function of lists"


class EagreSql(_Scoring):
    """The Python function as an SQL expression: what the bridge itself costs is the difference."""

    name = "eagre-sql"
    title = "Eagre, the same in SQL"
    variant = "sql"
    missing = "a counterpart in SQL"


class EagreExactlyOnce(Eagre):
    """The same with an exactly-once sink: what the gate and the headers cost is the difference."""

    name = "eagre-exactly-once"
    title = "Eagre, exactly once"
    variant = "exactly-once"

    def refusal(self, workload: str) -> str:
        """Shapes that cannot be replayed are refused by the product itself."""
        known = ("stateless", "count")
        return "" if workload in known else f"exactly once is compared on {' and '.join(known)}"


class EagrePoisoned(Eagre):
    """The same with a bad record after every hundred: what dead letters cost the good rows."""

    name = "eagre-poisoned"
    title = "Eagre, 1 % bad records"
    poison = 100

    def refusal(self, workload: str) -> str:
        """One workload is enough."""
        return "" if workload == "stateless" else "bad records are measured on stateless"


class EagreThroughput(Eagre):
    """The same with the profile for throughput: what it gives, and what it costs at the median."""

    name = "eagre-throughput"
    title = "Eagre, for throughput"
    profile = "throughput"


class EagrePage(Eagre):
    """The same with its page: what the tap and a look into the JVM each second cost."""

    name = "eagre-page"
    title = "Eagre with its page"
    page = True


class EagreOperator(Eagre):
    """Workloads by one of Eagre's own operators.

    Args:
        operator: Its name.
        workloads: Those whose results it can give; the sweep takes the first.
    """

    def __init__(self, operator: str, *workloads: str) -> None:
        super().__init__()
        self.name = f"eagre-{operator.replace('_', '-')}"
        self.title = f"Eagre, {operator}"
        self.variant = operator
        self.workloads = workloads

    def refusal(self, workload: str) -> str:
        """Only what the operator does is compared."""
        known = " and ".join(self.workloads)
        return "" if workload in self.workloads else f"{self.variant} is compared on {known}"


OPERATORS = {
    system.variant: system
    for system in (
        EagreOperator("deduplicate", "dedup"),
        EagreOperator("rolling", "count"),
        EagreOperator("top_n", "top"),
        EagreOperator("session_windows", "count"),
        EagreOperator("windows", "window", "features"),
        EagreOperator("interval_join", "enrich"),
        EagreOperator("lookup", "enrich"),
    )
}
"""By the operator's name."""


class _Plain(System):
    """Spark through PySpark, without Eagre."""

    checkpoints = COMMITS

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch the connector."""
        class_path("spark", say)

    def command(self, job: Job) -> Command:
        """Run the script."""
        path = job.write(self.settings(job))
        environment = {
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYTHONPATH": str(JOBS),
        }
        return Command([sys.executable, str(JOBS / "spark_job.py"), str(path)], environment)

    def _base(self, job: Job) -> dict[str, str]:
        jars = [*class_path("spark", lambda _: None), companion_jar()]
        return {
            "spark.master": f"local[{LOCAL_SLOTS}]",
            "spark.jars": ",".join(map(str, jars)),
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **slow(job),
        }


class SparkDefaults(_Plain):
    """Real time as Spark ships it."""

    name = "spark-rtm-defaults"
    title = "Spark real time, its defaults"

    def refusal(self, workload: str) -> str:
        """No Python."""
        return NO_PYTHON if workload.startswith("python") else super().refusal(workload)

    def settings(self, job: Job) -> dict[str, str]:
        """What it needs to start, and no more."""
        fewer = {"spark.sql.shuffle.partitions": FEWER_PARTITIONS}
        return {**self._base(job), **fewer, "trigger": f"realTime={job.epoch_ms} milliseconds"}


class SparkMicroBatch(_Plain):
    """Classic micro-batches, with every setting of Eagre's profile: only the trigger differs."""

    name = "spark-micro-batch"
    title = "Spark micro-batch"

    def settings(self, job: Job) -> dict[str, str]:
        """The profile, and a trigger."""
        profile = {setting.key: setting.value for setting in (*PROFILE, GC_OPTIONS)}
        trigger = {"trigger": f"processingTime={job.trigger_ms} milliseconds"}
        return {**self._base(job), **profile, **trigger}


def slow(job: Job) -> dict[str, str]:
    """Make every access to the checkpoint's file system take longer, as a distant store's do."""
    if not job.slow_checkpoint_ms:
        return {}
    return {
        "spark.driver.extraClassPath": str(companion_jar()),
        "spark.hadoop.fs.file.impl": "dev.eagre.testing.SlowFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "dev.eagre.testing.SlowFileSystem$Context",
        "spark.hadoop.eagre.slow.ms": str(job.slow_checkpoint_ms),
    }
