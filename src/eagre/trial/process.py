"""The process under test with its children: output, cost, end.

This module runs as a process in between: it kills the process group when the parent has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from eagre.errors import TrialError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import psutil

_LOG_LINES = 5
_MEGABYTE = 1 << 20


class Cost(NamedTuple):
    """The cost of a process tree: CPU seconds so far, current memory."""

    cpu_s: float
    rss_mb: float


@dataclass(frozen=True)
class Command:
    """How to start a process."""

    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)


class ProcessUnderTest:
    """A process and its children, in a separate process group.

    Args:
        command: Its arguments.
        environment: Additional variables.
        folder: The working directory.
        log: The file for its output.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *command],
                env={**os.environ, **environment},
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._gone_cpu: dict[int, float] = {}

    def require_alive(self) -> None:
        """Raise if the process has ended.

        Raises:
            TrialError: It has ended, with the last lines of its log.
        """
        code = self._process.poll()
        if code is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines()[-_LOG_LINES:]
            output = " | ".join(line.strip()[:200] for line in lines)
            raise TrialError(
                "SYSTEM_ENDED",
                f"it ended with exit code {code}: {output}",
                hint=f"its log is {self.log}.",
                data={"log": str(self.log)},
            )

    def cost(self) -> Cost:
        """Return the cost of the process and its children, including ended ones."""
        memory = 0.0
        for process in self._tree():
            with contextlib.suppress(*_gone()):
                times = process.cpu_times()
                self._gone_cpu[process.pid] = times.user + times.system
                memory += process.memory_info().rss / _MEGABYTE
        return Cost(sum(self._gone_cpu.values()), memory)

    def kill(self) -> None:
        """Kill all of it, as a machine failure would."""
        import psutil

        tree = self._tree()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for process in tree:
            with contextlib.suppress(*_gone()):
                process.kill()
        self._process.communicate()
        psutil.wait_procs(tree, timeout=10)

    def _tree(self) -> list[psutil.Process]:
        import psutil

        try:
            root = psutil.Process(self._process.pid)
            return list(root.children(recursive=True))
        except psutil.NoSuchProcess:
            return []


def _gone() -> tuple[type[Exception], ...]:
    import psutil

    return (psutil.NoSuchProcess, psutil.AccessDenied)


def main() -> None:
    """Run the command in the arguments; kill it when standard input closes."""
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)

    def tether() -> None:
        sys.stdin.read()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=tether, daemon=True).start()
    os._exit(process.wait() & 0xFF)


if __name__ == "__main__":
    main()
