"""The settings that Eagre applies to Spark and to its Kafka clients.

The Spark settings are the same in both profiles, so that a checkpoint works with either. The
profiles differ in how long the Kafka clients wait to batch records. ``make profile`` measures the
effect of each setting and writes it to ``docs/reference/profile.md``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Setting:
    """One setting of the profile.

    Attributes:
        key: Spark's name for it.
        value: The value in the profile.
        reason: Why the profile sets it.
        without: The baseline of the measured effect: Spark's default, or the nearest value that two
            cores can run. None if latency is not the reason.
        rule: The formula of a value that depends on the machine.
    """

    key: str
    value: str
    reason: str
    without: str | None = None
    rule: str = ""

    @property
    def shown(self) -> str:
        """The value as the documentation shows it: the same on every machine."""
        return self.rule or self.value


YOUNG_SHARE = 0.4
"""The young generation's share of the heap: most objects of a real-time query die young."""


def java_options(heap_mb: int = 1024) -> str:
    """Return the JVM options for a heap.

    >>> java_options(2048)
    '-XX:+UseParallelGC -Xms2048m -Xmn819m -XX:MetaspaceSize=256m'
    """
    young = int(heap_mb * YOUNG_SHARE)
    return f"-XX:+UseParallelGC -Xms{heap_mb}m -Xmn{young}m -XX:MetaspaceSize=256m"


GC_OPTIONS = Setting(
    "spark.driver.extraJavaOptions",
    java_options(),
    "Most garbage consists of short-lived rows; the parallel GC costs the least on few cores. "
    "The heap has its full size from the start, with a large young generation. Spark's classes fit "
    "into the initial metaspace, which avoids a full GC each time it grows.",
    without="-XX:+UseG1GC",
)
"""Applied unless the user's options choose a GC; the user's other options are retained."""

PROFILE = (
    Setting(
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs",
        "1",
        "A row waits in the streaming shuffle's buffer until the buffer is full or this time "
        "has passed.",
        without="50",
    ),
    Setting(
        "spark.sql.shuffle.partitions",
        str(max(1, (os.cpu_count() or 2) // 2)),
        "One for every two cores: the other core reads and writes. In real time each shuffle "
        "partition occupies a task slot while the query runs, and fewer partitions wake fewer "
        "threads. Spark's default is 200. A checkpoint keeps its number; `eagre checkpoint "
        "repartition` changes it, but not for `groupBy().agg()`.",
        without="8",
        rule="cores / 2",
    ),
    Setting(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "A commit writes the changes of an epoch instead of a whole snapshot.",
        without="false",
    ),
    Setting(
        "spark.sql.streaming.checkpointFileManagerClass",
        "dev.eagre.state.CheckpointFiles",
        "Hadoop starts a process for each checkpoint file that it creates or renames on a local "
        "disk, about ten at each epoch boundary. The companion writes local files directly. Other "
        "file systems are not affected.",
        without="org.apache.spark.sql.execution.streaming.checkpointing."
        "FileContextBasedCheckpointFileManager",
    ),
    Setting(
        "spark.ui.enabled",
        "false",
        "The Spark UI listens on a port and keeps history in memory; set it to true to enable it.",
    ),
    Setting(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "Real time needs RocksDB; with RocksDB in micro-batches too, one checkpoint serves both "
        "modes.",
    ),
    Setting(
        "spark.sql.streaming.stateStore.checkpointFormatVersion",
        "2",
        "Real time needs state checkpoint format 2; with it in micro-batches too, one checkpoint "
        "serves both modes.",
    ),
    Setting(
        "spark.default.parallelism",
        str(os.cpu_count() or 2),
        "The number of cores: a local session has more task slots than cores, and batch reads "
        "should not be split into that many tasks.",
        rule="cores",
    ),
    Setting(
        "spark.sql.session.timeZone",
        "UTC",
        "Timestamps in JSON have the same meaning on every machine.",
    ),
    Setting(
        "spark.ui.showConsoleProgress",
        "false",
        "A real-time stage never ends, so its progress bar is meaningless.",
    ),
)


CHOICE = "spark.eagre.profile"
"""The Spark setting that names the profile of a session."""


@dataclass(frozen=True)
class Clients:
    """The Kafka client options of a profile; the user's options take precedence."""

    source: Mapping[str, str]
    sink: Mapping[str, str]


CLIENTS = {
    "latency": Clients(source={}, sink={"kafka.linger.ms": "0"}),
    "throughput": Clients(
        source={"kafka.fetch.min.bytes": "65536", "kafka.fetch.max.wait.ms": "5"},
        sink={
            "kafka.linger.ms": "5",
            "kafka.batch.size": "131072",
            "kafka.compression.type": "lz4",
        },
    ),
}
"""The latency profile sends each record immediately. The throughput profile waits up to 5 ms when
it reads and when it writes, and batches records."""
DEFAULT = "latency"


def clients(name: str) -> Clients:
    """Return the Kafka client options of a profile.

    >>> clients("latency").sink
    {'kafka.linger.ms': '0'}

    Raises:
        SettingsError: The profile is unknown.
    """
    if name not in CLIENTS:
        raise SettingsError(
            "PROFILE_UNKNOWN",
            f"there is no profile {name!r}.",
            hint=f"{CHOICE} (`eagre run --profile`) is {' or '.join(CLIENTS)}.",
        )
    return CLIENTS[name]


def clients_of(spark: SparkSession) -> Clients:
    """Return the Kafka client options of a session's profile.

    Raises:
        SettingsError: The session's profile is unknown.
    """
    return clients(spark.conf.get(CHOICE, DEFAULT) or DEFAULT)
