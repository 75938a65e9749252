"""The JVM systems: locked jars, and a job compiled against them once per machine."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from eagre.config import cache_dir
from eagre.jvm import class_path, find_java
from eagre.jvm.java import find_jdk
from eagre.profile import CLIENTS, java_options
from eagre.trial.process import Command
from eagre_bench.errors import BenchError
from eagre_bench.systems.base import JOBS, System

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.jvm.jars import JarSet
    from eagre_bench.systems.base import Job

NO_PYTHON = "its jobs are written in Java"
JAVA_OPTIONS = ["-Xmx1g", *java_options().split()]
"""As for Spark's driver: one gigabyte, and the GC with the least cost on few cores."""


class _Compiled(System):
    """A job in Java.

    Attributes:
        jars: Its set of locked jars.
        folder: The folder of its sources, under ``jobs``.
        main: The class to start.
    """

    jars: JarSet
    folder: str
    main: str

    def refusal(self, workload: str) -> str:
        """Refuse workloads with Python functions."""
        return NO_PYTHON if workload.startswith("python") else super().refusal(workload)

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch the jars and compile the job."""
        class_path(self.jars, say)
        if not self._classes().is_dir():
            say(f"{self.name}: compiling its job")
            self._compile()

    def command(self, job: Job) -> Command:
        """Start the job's class."""
        path = job.write(self.settings(job))
        jars = [self._classes(), *class_path(self.jars, lambda _: None)]
        return Command(
            [
                str(find_java().java),
                *self.java_options(job),
                *("-cp", ":".join(map(str, jars))),
                self.main,
                str(path),
            ]
        )

    def java_options(self, job: Job) -> list[str]:
        """Options of its JVM."""
        del job
        return JAVA_OPTIONS

    def _sources(self) -> list[Path]:
        return sorted((JOBS / self.folder).rglob("*.java"))

    def _classes(self) -> Path:
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in self._sources()))
        return cache_dir() / "bench" / f"{self.folder}-{digest.hexdigest()[:16]}"

    def _compile(self) -> None:
        target = self._classes()
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            classes = Path(scratch) / "classes"
            shutil.copytree(JOBS / self.folder, classes, ignore=shutil.ignore_patterns("*.java"))
            jars = ":".join(str(jar) for jar in class_path(self.jars, lambda _: None))
            command = [str(find_jdk().javac), "--release", "17", "-proc:none", "-cp", jars]
            done = subprocess.run(
                [*command, "-d", str(classes), *map(str, self._sources())],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise BenchError("JOB_NOT_COMPILED", f"{self.name}: {done.stderr.strip()[:500]}")
            classes.rename(target)


class Flink(_Compiled):
    """Apache Flink's DataStream API."""

    name = "flink"
    title = "Flink"
    jars = "flink"
    folder = "flink"
    main = "dev.eagre.bench.flink.FlinkJob"
    checkpoints = ("chk-*/_metadata",)

    def settings(self, job: Job) -> dict[str, str]:
        """Return the settings: no buffering, object reuse, incremental checkpoints per epoch."""
        slow = f"slow://{job.state}" if job.slow_checkpoint_ms else ""
        return {
            "execution.buffer-timeout.interval": "0 ms",
            "pipeline.object-reuse": "true",
            "pipeline.generic-types": "false",
            "state.backend.type": "rocksdb",
            "state.backend.rocksdb.timer-service.factory": "HEAP",
            "taskmanager.memory.managed.size": "512m",
            "execution.checkpointing.interval": f"{job.epoch_ms} ms",
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.num-retained": "1000000",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.state-recovery.claim-mode": "CLAIM",
            "producer.linger.ms": "0",
            **({"execution.checkpointing.dir": slow} if slow else {}),
        }

    def java_options(self, job: Job) -> list[str]:
        """Return JVM options with the delay of the checkpoint store."""
        return [*super().java_options(job), f"-Deagre.slow.ms={job.slow_checkpoint_ms}"]


class FlinkThroughput(Flink):
    """Flink with the client options of Eagre's throughput profile, and buffers between tasks."""

    name = "flink-throughput"
    title = "Flink, for throughput"

    def settings(self, job: Job) -> dict[str, str]:
        """Return the settings with the same batching as Eagre's clients."""
        clients = CLIENTS["throughput"]
        return {
            **super().settings(job),
            **{key.replace("kafka.", "consumer.", 1): v for key, v in clients.source.items()},
            **{key.replace("kafka.", "producer.", 1): v for key, v in clients.sink.items()},
            "execution.buffer-timeout.interval": f"{clients.sink['kafka.linger.ms']} ms",
        }


class KafkaStreams(_Compiled):
    """Kafka Streams."""

    name = "kafka-streams"
    title = "Kafka Streams"
    jars = "kafka-streams"
    folder = "streams"
    main = "dev.eagre.bench.streams.StreamsJob"

    def settings(self, job: Job) -> dict[str, str]:
        """Return the settings: no store cache, no lingering, commits once per epoch."""
        return {
            "commit.interval.ms": str(job.epoch_ms),
            "statestore.cache.max.bytes": "0",
            "producer.linger.ms": "0",
        }
