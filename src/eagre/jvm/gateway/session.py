"""The settings of a session, and its task slots."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagre.jvm.gateway.handshake import companion
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


EXECUTORS = "2"
"""The number of executors that YARN and Kubernetes start by default."""


REGISTER_SECONDS = 30.0
SETTLED_SECONDS = 3.0
INTERVAL = 0.25


@dataclass(frozen=True)
class Capacity:
    """What a cluster gives to an application.

    Attributes:
        executors: The number of its executors.
        slots: How many tasks they can run at the same time.
    """

    executors: int
    slots: int


def settings(spark: SparkSession) -> dict[str, str]:
    """Return all explicit settings of a session and its context, in one call."""
    internals = companion(spark, "spark.SparkInternals")
    return dict(json.loads(internals.settings(spark._jsparkSession)))  # noqa: SLF001


def ping(spark: SparkSession) -> None:
    """Return when the JVM has answered a request; any thread may ask."""
    spark.sparkContext._jsc.startTime()  # noqa: SLF001


def stopped(spark: SparkSession) -> bool:
    """Return whether Spark has stopped in a JVM that still answers, as after an exhausted heap."""
    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())  # noqa: SLF001
    except Exception:  # noqa: BLE001  (the JVM does not answer)
        return False


def slots(spark: SparkSession) -> int | None:
    """Return how many tasks a session can run at the same time; None for an elastic cluster."""
    conf = settings(spark)
    cores = _cores(spark, str(spark.sparkContext.master), conf)
    return None if cores is None else cores // int(conf.get("spark.task.cpus", "1"))


def executor_slots(spark: SparkSession) -> int | None:
    """Return how many tasks the executors can run now; None if tasks run in the driver."""
    count = int(companion(spark, "cluster.Cluster").slots(spark.sparkContext._jsc.sc()))  # noqa: SLF001
    return None if count < 0 else count


def capacity(spark: SparkSession) -> Capacity | None:
    """Ask the cluster what it gives: wait until no more executors register.

    Returns:
        The executors that it gives now; None if tasks run in the driver.
    """
    cluster, context = companion(spark, "cluster.Cluster"), spark.sparkContext._jsc.sc()  # noqa: SLF001
    seen: list[int] = []
    if int(cluster.slots(context)) < 0:
        return None

    def settled() -> bool:
        seen.append(int(cluster.executors(context)))
        steady = seen[-round(SETTLED_SECONDS / INTERVAL) :]
        return len(seen) > len(steady) and steady[0] > 0 and len(set(steady)) == 1

    with contextlib.suppress(TimeoutError):  # a full cluster gives none
        wait_until(settled, REGISTER_SECONDS, "", INTERVAL)
    return Capacity(int(cluster.executors(context)), int(cluster.slots(context)))


def lost_executors(spark: SparkSession) -> list[str]:
    """Return which executors have been lost so far, and why."""
    return list(json.loads(companion(spark, "cluster.Cluster").lostExecutors()))


def silence_seconds(spark: SparkSession) -> float:
    """Return when every executor that was lost has ended for certain, in seconds from now."""
    return float(companion(spark, "cluster.Cluster").silentInMs()) / 1000


def _cores(spark: SparkSession, master: str, conf: dict[str, str]) -> int | None:
    local = re.match(r"local(?:\[(\d+|\*)[^\]]*\])?$", master)
    if local:
        threads = local[1] or "1"
        return int(threads) if threads.isdigit() else _processors(spark)
    local_cluster = re.match(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,", master)
    if local_cluster:
        return int(local_cluster[1]) * int(local_cluster[2])
    return _cluster_cores(master, conf)


def _cluster_cores(master: str, conf: dict[str, str]) -> int | None:
    """Return the cores that a session asks a cluster for; None if the cluster decides."""
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return None
    instances, cores = (conf.get(f"spark.executor.{key}") for key in ("instances", "cores"))
    if master.startswith(("yarn", "k8s:")):
        instances, cores = instances or EXECUTORS, cores or "1"
    requested = int(instances) * int(cores) if instances and cores else None
    limit = conf.get("spark.cores.max")
    limits = [requested] if requested else []
    return min([*limits, int(limit)]) if limit else requested


def _processors(spark: SparkSession) -> int:
    """Return the JVM's number of cores, which respects the limits of a container."""
    jvm = spark._jvm  # noqa: SLF001
    return int(jvm.java.lang.Runtime.getRuntime().availableProcessors())  # type: ignore[union-attr]
