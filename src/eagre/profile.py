"""What Eagre sets by itself: Spark's settings, and those of its Kafka clients.

Spark's are the same in both profiles, so that a checkpoint serves either; what differs is how long
Kafka's clients wait for company. ``docs/reference/profile.md`` shows the measured effect of each
setting; ``make profile`` writes it.
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
        "dev.eagre.state.CheckpointFiles",
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


CHOICE = "spark.eagre.profile"
"""The Spark setting that names the profile of a session."""


@dataclass(frozen=True)
class Clients:
    """What a profile tells the Kafka clients of sources and sinks; the user's options win."""

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
"""For latency each record leaves as it comes, in a request of its own where they are few. For
throughput it waits up to 5 ms on the way in and on the way out, and shares its request."""
DEFAULT = "latency"


def clients(name: str) -> Clients:
    """Give what a profile tells the Kafka clients.

    >>> clients("latency").sink
    {'kafka.linger.ms': '0'}

    Raises:
        SettingsError: There is no such profile.
    """
    if name not in CLIENTS:
        raise SettingsError(
            "PROFILE_UNKNOWN",
            f"there is no profile {name!r}.",
            hint=f"{CHOICE} (`eagre run --profile`) is {' or '.join(CLIENTS)}.",
        )
    return CLIENTS[name]


def clients_of(spark: SparkSession) -> Clients:
    """Give what the profile of a session tells the Kafka clients.

    Raises:
        SettingsError: The session names a profile that there is not.
    """
    return clients(spark.conf.get(CHOICE, DEFAULT) or DEFAULT)
