"""The settings of a session, and its task slots."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from eagre.jvm.gateway.handshake import companion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def settings(spark: SparkSession) -> dict[str, str]:
    """Return all explicit settings of a session and its context, in one call."""
    internals = companion(spark, "spark.SparkInternals")
    return dict(json.loads(internals.settings(spark._jsparkSession)))  # noqa: SLF001


def slots(spark: SparkSession) -> int | None:
    """Return how many tasks a session can run at the same time; None for an elastic cluster."""
    conf = settings(spark)
    cores = _cores(spark, str(spark.sparkContext.master), conf)
    return None if cores is None else cores // int(conf.get("spark.task.cpus", "1"))


def _cores(spark: SparkSession, master: str, conf: dict[str, str]) -> int | None:
    local = re.match(r"local(?:\[(\d+|\*)[^\]]*\])?$", master)
    if local:
        threads = local[1] or "1"
        return int(threads) if threads.isdigit() else _processors(spark)
    local_cluster = re.match(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,", master)
    if local_cluster:
        return int(local_cluster[1]) * int(local_cluster[2])
    instances, cores = (conf.get(f"spark.executor.{k}") for k in ("instances", "cores"))
    fixed = conf.get("spark.dynamicAllocation.enabled", "false").lower() != "true"
    return int(instances) * int(cores) if instances and cores and fixed else None


def _processors(spark: SparkSession) -> int:
    """Return the JVM's number of cores, which respects the limits of a container."""
    jvm = spark._jvm  # noqa: SLF001
    return int(jvm.java.lang.Runtime.getRuntime().availableProcessors())  # type: ignore[union-attr]
