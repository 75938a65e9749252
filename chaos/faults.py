"""What is done to the processes of a run and to the broker, by their ids."""

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

from .ghost import leave_a_hole

if TYPE_CHECKING:
    import random

EAGRE = Path(sys.executable).parent / "eagre"


class Broker:
    """The embedded broker in the background, which can be killed, paused and started again."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder, self._env = folder, env
        self._port = 0
        self.address = ""

    def start(self) -> None:
        """Start it, on the port it had."""
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
    """One ``eagre run``, started again when it ends; what it says is kept with the time."""

    def __init__(self, folder: Path, env: dict[str, str], *args: str) -> None:
        self._folder, self._env, self._args = folder, env, args
        self.said: list[tuple[float, str]] = []
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
            self.said.append((time.monotonic(), line.rstrip()))
            self._log.write(f"{time.monotonic():.2f} {line}")
            self._log.flush()

    def again(self) -> None:
        """Start it anew, as a service manager would."""
        self.process.wait(60)
        self.process = self._start()

    def wait_for(self, word: str, since: float, timeout: float = 120) -> float:
        """Wait until it says something after a moment; give when it did."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for at, line in list(self.said):
                if at >= since and word in line:
                    return at
            time.sleep(0.005)
        tail = "\n".join(line for _, line in self.said[-15:])
        raise SystemExit(f"the run never said {word!r}:\n{tail}")

    def parts(self) -> dict[str, psutil.Process]:
        """The parent, the Python child, and the JVM, as far as they live: a zombie does not."""
        found = {}
        try:
            parent = psutil.Process(self.process.pid)
            found["parent"] = parent
            for process in parent.children(recursive=True):
                words = " ".join(process.cmdline())
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if "eagre.runtime.child" in words:
                    found["python"] = process
                elif "java" in words and "SparkSubmit" in words:
                    found["jvm"] = process
        except psutil.NoSuchProcess:
            pass
        return found

    def kill(self, *names: str) -> None:
        """Kill parts of it, all in one moment."""
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
    """The kinds of faults; each leaves the run on its way back."""

    def __init__(self, run: Run, broker: Broker, checkpoint: Path, pick: random.Random) -> None:
        self._run, self._broker, self._checkpoint, self._pick = run, broker, checkpoint, pick
        self.struck = 0.0

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
    """What a campaign goes through in turn; of several points in one line, one each time."""

    def strike(self, kind: str) -> None:
        """Do it; ``struck`` is then the moment of the last blow."""
        self.struck = time.monotonic()
        getattr(self, f"_{kind}")()

    def _jvm(self) -> None:
        self._run.kill("jvm")

    def _mid_epoch(self) -> None:
        """With results behind the last commit, which the next run reads the rows of again."""
        self._await_commit()
        time.sleep(2)
        self._blow("jvm")

    def _python(self) -> None:
        self._run.kill("python")

    def _group(self) -> None:
        self._run.kill("parent", "python", "jvm")
        self._run.again()

    def _broker_killed(self) -> None:
        self._broker.signal(signal.SIGKILL)
        time.sleep(self._pick.uniform(0.5, 3))
        self._broker.start()

    def _broker_paused(self) -> None:
        self._broker.signal(signal.SIGSTOP)
        time.sleep(self._pick.uniform(1, 6))
        self._broker.signal(signal.SIGCONT)

    def _paused_and_group(self) -> None:
        """What the dead process had sent is appended when the broker wakes."""
        self._broker.signal(signal.SIGSTOP)
        time.sleep(self._pick.uniform(0.2, 1))
        self._run.kill("parent", "python", "jvm")
        self._run.again()
        time.sleep(self._pick.uniform(0, 4))
        self._broker.signal(signal.SIGCONT)

    def _hole(self) -> None:
        """One partition of the output has what the others lack."""
        self._run.kill("parent", "python", "jvm")
        time.sleep(1)
        leave_a_hole(self._broker.address, self._checkpoint.name)
        self.struck = time.monotonic()
        self._run.again()

    def _offsets_written(self) -> None:
        """Where there are mid-epoch commits, the next start puts one into Spark's logs."""
        committed = self._newest("commits")
        if self._newest(MID_EPOCH_COMMITS) >= 0:
            self._run.kill("jvm")
        self._await_newer("offsets", committed)
        self._blow("jvm", "python")

    def _commit_written(self) -> None:
        self._await_commit()
        self._blow("jvm")

    def _while_fencing(self) -> None:
        self._interrupted("fencing the previous run")

    def _while_scanning(self) -> None:
        self._interrupted("of the output for delivered results")

    def _catching_up(self) -> None:
        """With full batches on their way, of which some partitions have more than others."""
        begin = time.monotonic()
        self._run.kill("jvm")
        self._run.wait_for("catching up", begin)
        time.sleep(self._pick.uniform(0.5, 2))
        self._blow("jvm")

    def _while_recovering(self) -> None:
        begin = time.monotonic()
        self._run.kill("jvm")
        self._run.wait_for("starting Spark", begin)
        time.sleep(self._pick.uniform(0, 10))
        self._blow("jvm", "python")

    def _stop_and_start(self) -> None:
        self._run.end()
        self.struck = time.monotonic()
        self._run.again()

    def _interrupted(self, word: str) -> None:
        begin = time.monotonic()
        self._run.kill("jvm")
        self._run.wait_for(word, begin)
        self._blow("jvm")

    def _blow(self, *names: str) -> None:
        self.struck = time.monotonic()
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
