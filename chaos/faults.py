"""The faults: signals to the processes of a run and to the broker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS, numbered

from .late_writes import leave_a_gap

if TYPE_CHECKING:
    import random

EAGRE = Path(sys.executable).parent / "eagre"


class Broker:
    """The embedded broker in the background; can be killed, paused and restarted."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder, self._env = folder, env
        self._port = 0
        self.address = ""

    def start(self) -> None:
        """Start it, on the same port as before."""
        command = [EAGRE, "broker", "start", "--port", str(self._port), "--data", "broker"]
        done = subprocess.run(
            command, cwd=self._folder, env=self._env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"the broker does not start: {done.stderr}")
        self.address = done.stdout.strip()
        self._port = int(self.address.rsplit(":", 1)[1])

    def signal(self, sign: signal.Signals) -> None:
        """Send it a signal."""
        self._process().send_signal(sign)

    def stop(self) -> None:
        """End it."""
        process = self._process()
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(60)

    def _process(self) -> psutil.Process:
        for process in psutil.process_iter(["cmdline"]):
            words = " ".join(process.info["cmdline"] or [])
            if "java" in words and str(self._folder / "broker") in words:
                return process
        raise SystemExit("the broker is not running")


class Run:
    """One ``eagre run`` that can be restarted; stores its output with times."""

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

    def wait_for(self, word: str, since: float, timeout: float = 120) -> float:
        """Wait until it prints a text after a time; return when it did."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for at, line in list(self.output):
                if at >= since and word in line:
                    return at
            time.sleep(0.005)
        tail = "\n".join(line for _, line in self.output[-15:])
        raise SystemExit(f"the run never printed {word!r}:\n{tail}")

    def parts(self) -> dict[str, psutil.Process]:
        """Return the parent, the Python child and the JVM, as far as they are alive."""
        processes = {}
        try:
            parent = psutil.Process(self.process.pid)
            processes["parent"] = parent
            for process in parent.children(recursive=True):
                words = " ".join(process.cmdline())
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if "eagre.runtime.child" in words:
                    processes["python"] = process
                elif "java" in words and "SparkSubmit" in words:
                    processes["jvm"] = process
        except psutil.NoSuchProcess:
            pass
        return processes

    def kill(self, *names: str) -> None:
        """Kill some of its processes at once."""
        parts = self.parts()
        for name in names:
            if name in parts:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(parts[name].pid, signal.SIGKILL)

    def end(self, timeout: float = 120) -> int:
        """Drain it."""
        self.process.terminate()
        return self.process.wait(timeout)


class Faults:
    """The kinds of faults; the run recovers from each."""

    def __init__(self, run: Run, broker: Broker, checkpoint: Path, pick: random.Random) -> None:
        self._run, self._broker, self._checkpoint, self._pick = run, broker, checkpoint, pick
        self.injected_at = 0.0

    KINDS = (
        ("jvm",),
        ("python",),
        ("group",),
        ("broker_killed",),
        ("broker_paused",),
        ("paused_and_group",),
        ("offsets_written", "commit_written", "mid_epoch"),
        ("while_recovering", "while_fencing", "while_scanning", "catching_up"),
        ("hole",),
        ("stop_and_start",),
    )
    """A campaign injects these in turn, one of each line at a time."""

    def inject(self, kind: str) -> None:
        """Inject a fault; ``injected_at`` is then the time of the last kill."""
        self.injected_at = time.monotonic()
        getattr(self, f"_{kind}")()

    def _jvm(self) -> None:
        self._run.kill("jvm")

    def _mid_epoch(self) -> None:
        """Kill with results after the last commit, whose rows the next run reads again."""
        self._await_commit()
        time.sleep(2)
        self._kill("jvm")

    def _python(self) -> None:
        self._run.kill("python")

    def _group(self) -> None:
        self._run.kill("parent", "python", "jvm")
        self._run.restart()

    def _broker_killed(self) -> None:
        self._broker.signal(signal.SIGKILL)
        time.sleep(self._pick.uniform(0.5, 3))
        self._broker.start()

    def _broker_paused(self) -> None:
        self._broker.signal(signal.SIGSTOP)
        time.sleep(self._pick.uniform(1, 6))
        self._broker.signal(signal.SIGCONT)

    def _paused_and_group(self) -> None:
        """Records that the dead process had sent are appended when the broker continues."""
        self._broker.signal(signal.SIGSTOP)
        time.sleep(self._pick.uniform(0.2, 1))
        self._run.kill("parent", "python", "jvm")
        self._run.restart()
        time.sleep(self._pick.uniform(0, 4))
        self._broker.signal(signal.SIGCONT)

    def _hole(self) -> None:
        """One partition of the output has results that the others lack."""
        self._run.kill("parent", "python", "jvm")
        time.sleep(1)
        leave_a_gap(self._broker.address, self._checkpoint.name)
        self.injected_at = time.monotonic()
        self._run.restart()

    def _offsets_written(self) -> None:
        """With mid-epoch commits, the next start writes one into Spark's logs."""
        committed = self._newest("commits")
        if self._newest(MID_EPOCH_COMMITS) >= 0:
            self._run.kill("jvm")
        self._await_newer("offsets", committed)
        self._kill("jvm", "python")

    def _commit_written(self) -> None:
        self._await_commit()
        self._kill("jvm")

    def _while_fencing(self) -> None:
        self._interrupted("fencing the previous run")

    def _while_scanning(self) -> None:
        self._interrupted("of the output for delivered results")

    def _catching_up(self) -> None:
        """Kill with full batches in flight, of which some partitions have more than others."""
        begin = time.monotonic()
        self._run.kill("jvm")
        self._run.wait_for("catching up", begin)
        time.sleep(self._pick.uniform(0.5, 2))
        self._kill("jvm")

    def _while_recovering(self) -> None:
        begin = time.monotonic()
        self._run.kill("jvm")
        self._run.wait_for("starting Spark", begin)
        time.sleep(self._pick.uniform(0, 10))
        self._kill("jvm", "python")

    def _stop_and_start(self) -> None:
        self._run.end()
        self.injected_at = time.monotonic()
        self._run.restart()

    def _interrupted(self, word: str) -> None:
        begin = time.monotonic()
        self._run.kill("jvm")
        self._run.wait_for(word, begin)
        self._kill("jvm")

    def _kill(self, *names: str) -> None:
        self.injected_at = time.monotonic()
        self._run.kill(*names)

    def _await_commit(self) -> None:
        """Wait for the next epoch boundary, or the next mid-epoch commit."""
        log = MID_EPOCH_COMMITS if self._newest(MID_EPOCH_COMMITS) >= 0 else "commits"
        self._await_newer(log, self._newest(log))

    def _newest(self, log: str) -> int:
        return max((int(p.name) for p in numbered(self._checkpoint / log)), default=-1)

    def _await_newer(self, log: str, known: int, timeout: float = 60) -> None:
        deadline = time.monotonic() + timeout
        while self._newest(log) <= known and time.monotonic() < deadline:
            time.sleep(0.0005)
