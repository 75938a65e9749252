"""The Python systems, each in a separate environment that is created on demand."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from eagre.config import cache_dir
from eagre.jvm import class_path, find_java
from eagre.jvm.jars import folder, lock
from eagre.profile import java_options
from eagre.trial.process import Command
from eagre_bench.errors import BenchError
from eagre_bench.systems.base import JOBS, System

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from eagre_bench.systems.base import Job


class _Environment(System):
    """A job in Python with pinned requirements."""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Create the environment atomically."""
        target = self._environment()
        if (target / "ready").exists():
            return
        say(f"{self.name}: creating its environment (once per user)")
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._do([sys.executable, "-m", "venv", str(target)])
        pip = [str(target / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        self._do([*pip, "install", "--quiet", "--requirement", str(self._requirements())])
        (target / "ready").touch()

    def command(self, job: Job) -> Command:
        """Run the script in its environment."""
        path = job.write(self.settings(job))
        python = self._environment() / "bin" / "python"
        return Command([str(python), str(JOBS / f"{self.name}_job.py"), str(path)])

    def _requirements(self) -> Path:
        return JOBS / "requirements" / f"{self.name}.txt"

    def _environment(self) -> Path:
        digest = hashlib.sha256(self._requirements().read_bytes() + sys.version.encode())
        return cache_dir() / "bench" / f"{self.name}-{digest.hexdigest()[:16]}"

    def _do(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            output = (done.stderr.strip() or done.stdout.strip()).splitlines() or [""]
            raise BenchError(
                "ENVIRONMENT_NOT_MADE",
                f"{self.name}: its environment could not be created: {output[-1]}",
                hint="check the network, or omit the system with --systems.",
            )


class Quix(_Environment):
    """Quix Streams."""

    name = "quix"
    title = "Quix Streams"

    def settings(self, job: Job) -> dict[str, str]:
        """Return the settings: no lingering, commits once per epoch, static group membership."""
        return {
            "commit_interval": str(job.epoch_ms / 1000),
            "consumer.group.instance.id": "0",
            "producer.linger.ms": "0",
            "loglevel": "WARNING",
        }


class PyFlink(_Environment):
    """Flink with Python functions."""

    name = "pyflink"
    title = "PyFlink"
    checkpoints = ("chk-*/_metadata",)

    def prepare(self, say: Callable[[str], None]) -> None:
        """Create the environment, and fetch the connector."""
        class_path("flink", say)
        super().prepare(say)

    def settings(self, job: Job) -> dict[str, str]:
        """Return the settings: Python in JVM threads, no buffering, checkpoints per epoch."""
        return {
            "pipeline.jars": ";".join(f"file://{jar}" for jar in _connector()),
            "python.execution-mode": "thread",
            "parallelism.default": "1",
            "execution.buffer-timeout.interval": "0 ms",
            "pipeline.object-reuse": "true",
            "state.backend.type": "rocksdb",
            "execution.checkpointing.interval": f"{job.epoch_ms} ms",
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.num-retained": "1000000",
            "execution.state-recovery.claim-mode": "CLAIM",
            "restart-strategy.type": "none",
            "producer.linger.ms": "0",
            "env.java.opts.all": f"-Xmx1g {java_options()}",
        }

    def command(self, job: Job) -> Command:
        """Run it with the same Java as Eagre."""
        plain = super().command(job)
        return Command(plain.arguments, {"JAVA_HOME": str(find_java().home)})


class Bytewax(_Environment):
    """Bytewax."""

    name = "bytewax"
    title = "Bytewax"

    def settings(self, job: Job) -> dict[str, str]:
        """Return the settings: no lingering, snapshots once per epoch."""
        del job
        return {"source.batch_size": "1000", "producer.linger.ms": "0"}


def _connector() -> list[Path]:
    """Return the jars of Flink's Kafka connector; the rest is part of PyFlink."""
    wanted = ("flink-connector-kafka", "kafka-clients")
    return [folder("flink") / jar.name for jar in lock("flink") if jar.name.startswith(wanted)]
