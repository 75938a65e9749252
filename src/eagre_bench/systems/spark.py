"""Spark's engine: with Eagre, in plain Real-Time Mode, and in micro-batches."""

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
"""Spark's default of 200 shuffle partitions needs as many task slots."""


class Eagre(System):
    """Eagre, started by ``eagre run``.

    Args:
        overrides: Spark settings that differ from the profile.
    """

    name = "eagre"
    title = "Eagre, real time"
    checkpoints = COMMITS
    variant = "bridge"
    dashboard = False
    profile = DEFAULT
    placement: tuple[str, ...] = ()

    def __init__(self, overrides: dict[str, str] | None = None) -> None:
        self._overrides = overrides or {}

    def settings(self, job: Job) -> dict[str, str]:
        """Return the settings of the profile."""
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
            *self.placement,
            environment={"EAGRE_BENCH_JOB": str(path), "EAGRE_BENCH_VARIANT": self.variant},
            settings={**slow(job), **self._overrides},
            dashboard=self.dashboard,
        )


class EagreCluster(Eagre):
    """Eagre on two executors, which are processes of their own on this machine."""

    name = "eagre-cluster"
    title = "Eagre, two executors"
    placement = ("--master", "local-cluster[2,2,1024]")

    def __init__(self) -> None:
        two = {"spark.executor.memory": "900m", "spark.sql.shuffle.partitions": "2"}
        super().__init__(two)


class _Scoring(Eagre):
    """Another implementation of the Python function of ``python-map``."""

    missing: str

    def refusal(self, workload: str) -> str:
        """Refuse other workloads."""
        return "" if workload == "python-map" else f"only python-map has {self.missing}"


class EagreBatchFunction(_Scoring):
    """The Python function as a batch function."""

    name = "eagre-batch"
    title = "Eagre, batch function"
    variant = "batch"
    missing = "a batch function"


class EagreSql(_Scoring):
    """The Python function as an SQL expression; the difference is the cost of the Python bridge."""

    name = "eagre-sql"
    title = "Eagre, SQL expression"
    variant = "sql"
    missing = "a counterpart in SQL"


class EagreExactlyOnce(Eagre):
    """Eagre with an exactly-once sink; the difference is the cost of the replay filter."""

    name = "eagre-exactly-once"
    title = "Eagre, exactly once"
    variant = "exactly-once"

    def refusal(self, workload: str) -> str:
        """Refuse workloads that do not support exactly-once delivery."""
        known = ("stateless", "count")
        return "" if workload in known else f"exactly once is compared on {' and '.join(known)}"


class EagrePoisoned(Eagre):
    """Eagre with one bad record in a hundred; the difference is the cost of dead letters."""

    name = "eagre-poisoned"
    title = "Eagre, 1 % bad records"
    poison = 100

    def refusal(self, workload: str) -> str:
        """Refuse all but one workload."""
        return "" if workload == "stateless" else "bad records are measured on stateless"


class EagreThroughput(Eagre):
    """Eagre with the throughput profile."""

    name = "eagre-throughput"
    title = "Eagre, for throughput"
    profile = "throughput"


class EagreDashboard(Eagre):
    """Eagre with the dashboard; the difference is the cost of its sampler and its status calls."""

    name = "eagre-dashboard"
    title = "Eagre with its dashboard"
    dashboard = True


class EagreOperator(Eagre):
    """Workloads with one of Eagre's operators.

    Args:
        operator: Its name.
        workloads: The workloads that it can implement; the sweep uses the first.
    """

    def __init__(self, operator: str, *workloads: str) -> None:
        super().__init__()
        self.name = f"eagre-{operator.replace('_', '-')}"
        self.title = f"Eagre, {operator}"
        self.variant = operator
        self.workloads = workloads

    def refusal(self, workload: str) -> str:
        """Refuse workloads that the operator does not implement."""
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
"""The systems by operator."""


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
    """Spark's Real-Time Mode without Eagre."""

    name = "spark-rtm-defaults"
    title = "Spark real time, its defaults"

    def refusal(self, workload: str) -> str:
        """Refuse workloads with Python functions."""
        return NO_PYTHON if workload.startswith("python") else super().refusal(workload)

    def settings(self, job: Job) -> dict[str, str]:
        """Return only the settings that it needs to start."""
        fewer = {"spark.sql.shuffle.partitions": FEWER_PARTITIONS}
        return {**self._base(job), **fewer, "trigger": f"realTime={job.epoch_ms} milliseconds"}


class SparkMicroBatch(_Plain):
    """Spark in micro-batches, with Eagre's profile: only the trigger differs."""

    name = "spark-micro-batch"
    title = "Spark micro-batch"

    def settings(self, job: Job) -> dict[str, str]:
        """Return the profile and the trigger."""
        profile = {setting.key: setting.value for setting in (*PROFILE, GC_OPTIONS)}
        trigger = {"trigger": f"processingTime={job.trigger_ms} milliseconds"}
        return {**self._base(job), **profile, **trigger}


def slow(job: Job) -> dict[str, str]:
    """Return settings that delay every access to the checkpoint's file system."""
    if not job.slow_checkpoint_ms:
        return {}
    return {
        "spark.driver.extraClassPath": str(companion_jar()),
        "spark.hadoop.fs.file.impl": "dev.eagre.testing.SlowFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "dev.eagre.testing.SlowFileSystem$Context",
        "spark.hadoop.eagre.slow.ms": str(job.slow_checkpoint_ms),
    }
