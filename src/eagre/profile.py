"""The latency profile: Spark settings, each with its reason.

``docs/profile.md`` shows the table with the measured effect of each; ``make profile`` writes it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """One line of the profile.

    Attributes:
        key: Spark's name for it.
        value: What the profile sets.
        reason: Why.
        without: What to measure the effect against: Spark's default, or the nearest to it that
            two cores can run. None where latency is not the reason.
        rule: What the value follows, where it follows the machine.
    """

    key: str
    value: str
    reason: str
    without: str | None = None
    rule: str = ""

    @property
    def shown(self) -> str:
        """The value as the page shows it: the same on every machine."""
        return self.rule or self.value


YOUNG_SHARE = 0.4
"""Of the heap: what a real-time query allocates is garbage a moment later."""


def java_options(heap_mb: int = 1024) -> str:
    """Give the JVM options for a heap.

    >>> java_options(2048)
    '-XX:+UseParallelGC -Xms2048m -Xmn819m -XX:MetaspaceSize=256m'
    """
    young = int(heap_mb * YOUNG_SHARE)
    return f"-XX:+UseParallelGC -Xms{heap_mb}m -Xmn{young}m -XX:MetaspaceSize=256m"


COLLECTOR = Setting(
    "spark.driver.extraJavaOptions",
    java_options(),
    "Short-lived rows are most of the garbage; the parallel collector costs least on few cores. "
    "The heap has its size from the start and young rows much of it; Spark's classes fit into the "
    "metaspace without a full collection for each time it grows.",
    without="-XX:+UseG1GC",
)
"""Set unless the user's own options choose a collector; the rest of them is kept."""

PROFILE = (
    Setting(
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs",
        "1",
        "A row waits in the streaming shuffle's buffer until it is full or this time is over.",
        without="50",
    ),
    Setting(
        "spark.sql.shuffle.partitions",
        str(max(1, (os.cpu_count() or 2) // 2)),
        "One for two cores: the other core reads and writes. In real time each shuffle partition "
        "holds a task slot for as long as the query runs, and rows that come through fewer of them "
        "wake fewer threads. Spark's default is 200. A checkpoint fixes it: choose it once.",
        without="8",
        rule="cores / 2",
    ),
    Setting(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "An epoch commits its changes instead of a whole snapshot.",
        without="false",
    ),
    Setting(
        "spark.sql.streaming.checkpointFileManagerClass",
        "dev.eagre.CheckpointFiles",
        "Hadoop starts a process for each checkpoint file it creates or renames on a local disk, "
        "some ten at each end of an epoch; the companion writes them itself. Other file systems "
        "are written to as before.",
        without="org.apache.spark.sql.execution.streaming.checkpointing."
        "FileContextBasedCheckpointFileManager",
    ),
    Setting(
        "spark.ui.enabled",
        "false",
        "The Spark UI listens on a port and keeps history in memory; set it to true to have it.",
    ),
    Setting(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "Real time needs RocksDB; the same in micro-batch lets one checkpoint serve both modes.",
    ),
    Setting(
        "spark.sql.streaming.stateStore.checkpointFormatVersion",
        "2",
        "Real time needs state checkpoints of format 2; as above.",
    ),
    Setting(
        "spark.default.parallelism",
        str(os.cpu_count() or 2),
        "The number of cores: a local session has more task slots than cores, and batch reads "
        "beside the stream should not be cut into as many pieces.",
        rule="cores",
    ),
    Setting(
        "spark.sql.session.timeZone",
        "UTC",
        "Timestamps in JSON mean the same on every machine.",
    ),
    Setting(
        "spark.ui.showConsoleProgress",
        "false",
        "A real-time stage never ends, so its progress bar says nothing.",
    ),
)
