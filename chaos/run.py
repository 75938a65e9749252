"""One ``eagre run`` of a trial, that can be killed in parts and restarted."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

EAGRE = Path(sys.executable).parent / "eagre"
CODE = re.compile(r"^eagre: (?:.*?: )?([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+): ")


class EndedError(Exception):
    """The run has ended by itself; ``code`` says why."""

    def __init__(self, code: str, tail: str) -> None:
        super().__init__(f"the run ended with {code}:\n{tail}")
        self.code = code


class Run:
    """The run; stores its output with times."""

    def __init__(self, folder: Path, env: dict[str, str], *args: str) -> None:
        self._folder, self._env, self._args = folder, env, args
        self.output: list[tuple[float, str]] = []
        self._log = (folder / "run.log").open("a")
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [EAGRE, "run", *self._args],
            cwd=self._folder,
            env=self._env,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C ends the campaign, which then ends the run
        )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        for line in process.stderr or ():
            self.output.append((time.monotonic(), line.rstrip()))
            self._log.write(f"{time.monotonic():.2f} {line}")
            self._log.flush()

    def restart(self) -> None:
        """Restart it, as a service manager would."""
        self.process.wait(60)
        self.process = self._start()

    def require_alive(self) -> None:
        """Raise ``EndedError`` if it has ended."""
        if self.process.poll() is not None:
            time.sleep(0.2)  # the last line is on its way
            lines = [line for _, line in self.output[-15:]]
            codes = [found[1] for line in lines if (found := CODE.search(line))]
            raise EndedError(codes[-1] if codes else "no code", "\n".join(lines))

    def printed(self, word: str, since: float) -> float | None:
        """Return when it printed a text after a time, if it did."""
        return next((at for at, line in list(self.output) if at >= since and word in line), None)

    def wait_for(self, word: str, since: float, timeout: float = 120) -> float:
        """Wait until it prints a text after a time; return when it did."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if at := self.printed(word, since):
                return at
            self.require_alive()
            time.sleep(0.005)
        tail = "\n".join(line for _, line in self.output[-15:])
        raise TimeoutError(f"the run never printed {word!r}:\n{tail}")

    def parts(self) -> dict[str, list[psutil.Process]]:
        """Return the parent, the Python child, the JVM and the workers, as far as they live.

        Those of a standby, which is younger than the child that runs the query, are left alone.
        """
        parts: dict[str, list[psutil.Process]] = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.process.pid)
            parts["parent"] = [parent]
            children = [child for child in parent.children() if _part(child) == "python"]
            active = min(children, key=psutil.Process.create_time, default=None)
            for process in [active, *active.children(recursive=True)] if active else ():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if name := _part(process):
                        parts.setdefault(name, []).append(process)
        return parts

    def signal(self, sign: signal.Signals, *names: str) -> list[psutil.Process]:
        """Send a signal to some of its processes at once; return them."""
        parts = self.parts()
        reached = [process for name in names for process in parts.get(name, ())]
        for process in reached:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, sign)
        return reached

    def kill(self, *names: str) -> None:
        """Kill some of its processes at once."""
        self.signal(signal.SIGKILL, *names)

    def kill_all(self) -> None:
        """Kill all of its processes at once."""
        self.kill("parent", "python", "jvm")

    def drain(self, timeout: float = 180) -> int:
        """Drain it; return its exit code."""
        self.process.terminate()
        return self.process.wait(timeout)

    def close(self) -> None:
        """End what is left of it."""
        parts = self.parts()
        for processes in parts.values():
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.wait(60)
        self._log.close()


def _part(process: psutil.Process) -> str:
    """Return which part of a run a process is; "" for a dead or another one."""
    if process.status() == psutil.STATUS_ZOMBIE:
        return ""
    words = " ".join(process.cmdline())
    if "eagre.runtime.child" in words:
        return "python"
    if "java" in words and "SparkSubmit" in words:
        return "jvm"
    return "workers" if "eagre_worker" in words else ""
