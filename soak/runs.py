"""The process under soak: ``eagre run`` of one use case, and what it consists of."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil

from eagre.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from .use_cases import UseCase

DRAIN_SECONDS = 180
END_SECONDS = 30
GONE = (psutil.NoSuchProcess, psutil.AccessDenied)
SIGNS = {"driver": "eagre.runtime.child", "jvm": "org.apache.spark.deploy.SparkSubmit"}
"""What is in the command line of a process, by its role; the others are Python workers."""


class Run:
    """One pipeline under ``eagre run``.

    Args:
        case: The use case.
        folder: Where its app, checkpoint, logs and temporary files are.
        brokers: The cluster.
        every: The interval of its commits.
    """

    def __init__(self, case: UseCase, folder: Path, brokers: str, every: str) -> None:
        self.case, self.folder = case, folder
        self.temporary = folder / "tmp"
        self._brokers, self._every = brokers, every
        if not folder.exists():
            shutil.copytree(case.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
        self.temporary.mkdir(exist_ok=True)
        self.output = folder / "output.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it ends with this process, however that ends."""
        app = [sys.executable, "-m", "eagre", "run", "app.py"]
        app += ["--every", self._every, "--brokers", self._brokers, "--from", "earliest"]
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "eagre.trial.process", *app],
                cwd=self.folder,
                env={**os.environ, "TMPDIR": str(self.temporary)},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Return its processes by role: supervisor, driver, jvm, workers."""
        roles: dict[str, list[psutil.Process]] = {}
        supervisor = self._supervisor()
        if supervisor:
            roles["supervisor"] = [supervisor]
            with contextlib.suppress(*GONE):
                for process in supervisor.children(recursive=True):
                    with contextlib.suppress(*GONE):
                        if process.status() != psutil.STATUS_ZOMBIE:
                            roles.setdefault(_role(process), []).append(process)
        return roles

    def kill(self, *roles: str) -> int:
        """Kill the newest process of each role; return how many there were."""
        targets = [
            max(ones, key=_began) for role, ones in self.processes().items() if role in roles
        ]
        for process in targets:
            with contextlib.suppress(*GONE):
                process.kill()
        return len(targets)

    def kill_all(self) -> None:
        """Kill all of it, and reap what is ours."""
        tree = [process for ones in self.processes().values() for process in ones]
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
        for process in tree:
            with contextlib.suppress(*GONE):
                process.kill()
        psutil.wait_procs(tree, timeout=END_SECONDS)

    def drain(self) -> int:
        """End it as a service manager does; return its exit code."""
        supervisor, process = self._supervisor(), self._process
        if supervisor is None or process is None:
            return -1
        supervisor.terminate()
        wait_until(lambda: process.poll() is not None, DRAIN_SECONDS, f"{self.case.name} drains")
        if process.stdin:
            process.stdin.close()
        return int(process.returncode)

    def _supervisor(self) -> psutil.Process | None:
        if not self.alive or self._process is None:
            return None
        with contextlib.suppress(*GONE):
            for child in psutil.Process(self._process.pid).children():
                if child.status() != psutil.STATUS_ZOMBIE:
                    return child
        return None


def _role(process: psutil.Process) -> str:
    words = " ".join(process.cmdline())
    return next((role for role, sign in SIGNS.items() if sign in words), "workers")


def _began(process: psutil.Process) -> float:
    try:
        return float(process.create_time())
    except GONE:
        return 0.0
