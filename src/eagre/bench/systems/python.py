"""The Python systems, each in an environment of its own that is made on demand."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from eagre.bench.systems.base import JOBS, Command, System
from eagre.config import cache_dir
from eagre.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from eagre.bench.systems.base import Job


class _Environment(System):
    """A job in Python with pinned requirements."""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Make the environment, whole or not at all."""
        target = self._environment()
        if (target / "ready").exists():
            return
        say(f"{self.name}: making its environment (once per user)")
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
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise BenchError(
                "ENVIRONMENT_NOT_MADE",
                f"{self.name}: its environment could not be made: {said[-1] if said else ''}",
                hint="check the network, or leave the system out with --systems.",
            )


class Quix(_Environment):
    """Quix Streams."""

    name = "quix"
    title = "Quix Streams"

    def settings(self, job: Job) -> dict[str, str]:
        """As its documentation advises for latency."""
        return {"commit_interval": str(job.epoch_ms / 1000), "producer.linger.ms": "0"}


class PyFlink(_Environment):
    """Flink with Python functions."""

    name = "pyflink"
    title = "PyFlink"

    def settings(self, job: Job) -> dict[str, str]:
        """As its documentation advises for latency."""
        return {"execution.checkpointing.interval": f"{job.epoch_ms} ms"}


class Bytewax(_Environment):
    """Bytewax."""

    name = "bytewax"
    title = "Bytewax"

    def settings(self, job: Job) -> dict[str, str]:
        """As its documentation advises for latency."""
        return {"epoch_interval_ms": str(job.epoch_ms)}
