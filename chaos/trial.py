"""A trial: one run of one shape from a fresh checkpoint, with some faults, verified at its end."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS, numbered

from .brokers import LOGIN, Brokers
from .faults import ACCESS, FAULTS, LINKS, SLOW_DISK, SMALL_DISK, THREE, NoEffectError
from .late_writes import write_late
from .load import Load
from .run import Run
from .verify import (
    Verdict,
    compare,
    compare_latest,
    input_rows,
    newest,
    records,
    require_acknowledged,
)

if TYPE_CHECKING:
    from .faults import Fault
    from .proxy import Link
    from .shapes import Shape

HERE = Path(__file__).parent
RESUME_SECONDS = 300
QUIET_SECONDS = 8
"""After so long without a new result, the output is complete."""
PHASES = {"spark": "starting Spark", "fence": "fencing", "running": "running in real-time"}
SLOW = {
    "spark.hadoop.fs.file.impl": "dev.eagre.testing.SlowFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "dev.eagre.testing.SlowFileSystem$Context",
    "spark.hadoop.eagre.slow.ms": "50",
}


@dataclass(frozen=True)
class Plan:
    """What a trial does; the same plan gives the same faults at the same moments.

    Attributes:
        shape: The pipeline.
        faults: The names of its faults, in order.
        needs: What the trial has for them.
        seed: Of the records and of all that the faults choose.
        rate: Records per second.
        every: The commit interval.
        pause: At most so many seconds pass before each fault.
        control: How exactly once is broken, for a control that must fail.
        conf: More Spark settings.
        standby: Whether a second process waits to take over; each fault waits until it is ready.
    """

    shape: Shape
    faults: tuple[str, ...]
    needs: frozenset[str]
    seed: int
    rate: float = 300
    every: str = "10 seconds"
    pause: float = 8
    control: str = "none"
    conf: tuple[str, ...] = ()
    standby: bool = False


@dataclass
class Outcome:
    """What came of a trial; ``failure`` says why it could not be brought to its end."""

    verdict: Verdict = field(default_factory=Verdict)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""


class Trial:
    """A trial while it runs; the faults act on its parts."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.shape, self.folder = plan, plan.shape, folder
        self.pick = random.Random(plan.seed)
        self.topic = f"chaos-{plan.shape.name}"
        self.note = ""
        self.injected_at = 0.0
        self._ends = contextlib.ExitStack()

    def run_through(self) -> Outcome:
        """Start everything, inject the faults, verify, and end everything."""
        outcome = Outcome()
        try:
            with self._ends:
                self._start()
                for number, name in enumerate(self.plan.faults, 1):
                    outcome.rounds.append(self._round(number, FAULTS[name]))
                outcome.verdict = self._verdict()
        except Exception as error:  # noqa: BLE001  (the next trial still runs)
            outcome.failure = f"{type(error).__name__}: {error}"
        return outcome

    def _start(self) -> None:
        needs, shape = self.plan.needs, self.shape
        self.brokers = Brokers(
            self.folder / "brokers",
            3 if THREE in needs else 1,
            linked=LINKS in needs,
            access=ACCESS in needs,
        )
        self._ends.callback(self.brokers.stop)
        self.brokers.start()
        self.database = self._database()
        for name in ("app.py", "heap.py"):
            shutil.copy(HERE / name, self.folder / name)
        self.checkpoint = self._disk() / shape.pipeline
        self.run = Run(
            self.folder, self._environment(), f"app.py:{shape.pipeline}",
            *("--every", self.plan.every, "--brokers", self.brokers.app_address),
            *("--from", "earliest", "--checkpoint", str(self.checkpoint.parent)),
            *(word for setting in self._conf() for word in ("--conf", setting)),
            *(("--standby",) if self.plan.standby else ()),
        )  # fmt: skip
        self._ends.callback(self.run.close)
        self.run.wait_for("running in real-time", 0, RESUME_SECONDS)
        rate = self.plan.rate * shape.rate
        self.load = Load(self.brokers.address, shape, rate, self.plan.seed)
        self.load.start()
        self.injected()
        self.await_results()

    def _database(self) -> Any:  # noqa: ANN401  (a server of the tests)
        if self.shape.output == "kafka":
            return None
        from .databases import SERVERS

        server = SERVERS[self.shape.output]()
        self._ends.callback(server.remove)
        return server

    def _disk(self) -> Path:
        """Return the folder of checkpoints: a small file system if the disk is to be full."""
        folder = self.folder / "checkpoints"
        folder.mkdir()
        if SMALL_DISK in self.plan.needs:
            mount_small(folder)
            self._ends.callback(
                subprocess.run, [shutil.which("umount") or "umount", "--lazy", str(folder)]
            )
        return folder

    def _environment(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name != "EAGRE_BROKERS"}
        if ACCESS in self.plan.needs:
            config = self.folder / "client.properties"
            config.write_text("".join(f"{key}={value}\n" for key, value in LOGIN.items()))
            env["EAGRE_KAFKA_CONFIG"] = str(config)
        if self.database:
            env |= self.database.settings()
        if self.plan.control in ("off", "maximum"):
            env["EAGRE_DELIVERY_CONTROL"] = self.plan.control
        return env

    def _conf(self) -> list[str]:
        slow = SLOW if SLOW_DISK in self.plan.needs else {}
        pairs = {"spark.sql.shuffle.partitions": "2", **slow}
        return [*(f"{key}={value}" for key, value in pairs.items()), *self.plan.conf]

    def _round(self, number: int, fault: Fault) -> dict[str, Any]:
        """Inject a fault and wait until results appear again."""
        if self.plan.standby:
            self._await_standby()
        time.sleep(self.pick.uniform(1, self.plan.pause))
        self.note = ""
        fault.inject(self)
        self.await_results()
        seconds = round(time.monotonic() - self.injected_at, 2)
        print(
            f"  {number}/{len(self.plan.faults)} {fault.name}: results after {seconds:.1f} s"
            + (f" ({self.note})" if self.note else ""),
            flush=True,
        )
        noted = {"note": self.note} if self.note else {}
        return {"fault": fault.name, "seconds": seconds, **self._phases(), **noted}

    def _await_standby(self) -> None:
        """Wait until a standby is ready that no fault has used."""
        lines = list(self.run.output)
        since = max((at for at, line in lines if "running in real-time" in line), default=0.0)
        self.run.wait_for("a standby is ready", since)

    def _phases(self) -> dict[str, float]:
        """Return when the new run started Spark, fenced and ran, in seconds after the fault."""
        lines = [(at - self.injected_at, line) for at, line in list(self.run.output)]
        times = {
            name: [at for at, line in lines if at >= 0 and word in line]
            for name, word in PHASES.items()
        }
        return {name: round(at[-1], 2) for name, at in times.items() if at}

    def written(self) -> int:
        """Return how many results the output has."""
        return self.database.written() if self.database else self.brokers.written(self.topic)

    def written_or_none(self) -> int | None:
        """Return the same, or None while the brokers or the database do not answer."""
        try:
            return self.written()
        except Exception:  # noqa: BLE001  (each client has its own)
            return None

    def await_results(self) -> None:
        """Wait until a live JVM writes results; a fence record in each partition does not count.

        Raises:
            EndedError: The run has ended by itself.
        """
        deadline = time.monotonic() + RESUME_SECONDS
        known, moves = None, 0
        while time.monotonic() < deadline:
            self.run.require_alive()
            now = self.written_or_none()
            if now is not None:
                moves += known is not None and now > known + 3
                known = now
            if moves >= 2 and self.run.parts().get("jvm"):
                return
            time.sleep(0.1)
        tail = "\n".join(line for _, line in self.run.output[-15:])
        raise TimeoutError(f"no results within {RESUME_SECONDS} s:\n{tail}")

    def require_silence(self) -> None:
        """Check that a fault stops the results while it lasts: the control of its effect.

        Raises:
            NoEffectError: Results still appear.
        """
        time.sleep(1)  # what is on its way arrives
        known = self.written_or_none()
        time.sleep(2)
        now = self.written_or_none()
        if known is not None and now is not None and now > known:
            raise NoEffectError("results appear in spite of the fault")

    def injected(self) -> None:
        """Note the moment from which the run recovers."""
        self.injected_at = time.monotonic()

    def kill(self, *names: str) -> None:
        """Kill parts of the run, and note the moment."""
        self.injected()
        self.run.kill(*names)

    def interrupt(self, word: str) -> None:
        """Kill the JVM, and again when the next one prints a text."""
        begin = time.monotonic()
        self.run.kill("jvm")
        self.run.wait_for(word, begin)
        self.kill("jvm")

    def change(self, links: list[Link], **state: float) -> None:
        """Change the state of links; the trial must have some."""
        if self.brokers.proxies is None:
            raise ValueError(links)
        self.brokers.proxies.change(links, **state)

    def await_commit(self) -> None:
        """Wait for the next epoch boundary, or the next mid-epoch commit."""
        log = MID_EPOCH_COMMITS if self.newest(MID_EPOCH_COMMITS) >= 0 else "commits"
        self.await_newer(log, self.newest(log))

    def newest(self, log: str) -> int:
        """Return the newest number of a log in the checkpoint; -1 if it is empty."""
        return max((int(p.name) for p in numbered(self.checkpoint / log)), default=-1)

    def await_newer(self, log: str, known: int, timeout: float = 60) -> None:
        """Wait until a log has a newer entry, or a minute."""
        deadline = time.monotonic() + timeout
        while self.newest(log) <= known and time.monotonic() < deadline:
            time.sleep(0.0005)

    def _verdict(self) -> Verdict:
        if self.plan.control == "late":
            write_late(self.brokers.address, self.shape, self.pick)
        acknowledged = self.load.finish()
        self._settle()
        self.run.drain()
        rows = input_rows(self.brokers.address, self.shape)
        require_acknowledged(rows, acknowledged)
        if self.database:
            expected = newest(self.shape, (result for _, result in self.shape.expected(rows)))
            return compare_latest(expected, self.database.newest(), Verdict())
        ordered = all(FAULTS[name].keeps_order for name in self.plan.faults)
        output = records(self.brokers.address, self.topic)
        return compare(self.shape, rows, output, ordered=ordered)

    def _settle(self) -> None:
        """Wait until no more results arrive."""
        since, known = time.monotonic(), -1
        while time.monotonic() - since < QUIET_SECONDS:
            self.run.require_alive()
            if (now := self.written()) != known:
                since, known = time.monotonic(), now
            time.sleep(0.5)

    def outcome_line(self, outcome: Outcome) -> dict[str, Any]:
        """Return what the results file stores of a trial; no path of this machine."""
        plan = self.plan
        return {
            "shape": plan.shape.name,
            "needs": sorted(plan.needs),
            "seed": plan.seed,
            "control": plan.control,
            "rate": plan.rate,
            "every": plan.every,
            "standby": plan.standby,
            "faults": list(plan.faults),
            "rounds": outcome.rounds,
            "failure": outcome.failure.replace(str(self.folder), "FOLDER"),
            **asdict(outcome.verdict),
        }


def mount_small(folder: Path) -> None:
    """Mount a file system of 48 MB.

    Raises:
        NoEffectError: This user may not.
    """
    mount = shutil.which("mount")
    options = ("-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder))
    if not mount or subprocess.run([mount, *options], check=False, capture_output=True).returncode:
        raise NoEffectError("only root can mount a small file system")
