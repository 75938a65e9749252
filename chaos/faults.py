"""What a fault is, and the faults of processes: signals to the parts of a run.

A fault is a small class: what it needs, which shapes it suits, how it is applied and healed. The
campaign then waits until results appear again. Under every fault the promise of the shape holds.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, ClassVar

from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS

from . import heap

if TYPE_CHECKING:
    from .shapes import Shape
    from .trial import Trial

LINKS, THREE, ACCESS, SMALL_DISK, SLOW_DISK = "links", "three", "access", "small disk", "slow disk"
"""What a fault can need: proxies, three brokers, a login, a small or a slow disk."""

FAULTS: dict[str, Fault] = {}


class NoEffectError(Exception):
    """A fault did nothing: the round would show nothing."""


class Fault:
    """A fault.

    Attributes:
        needs: What the trial must have.
        weight: How often it is drawn, compared with others; less if it takes minutes.
        keeps_order: Whether the rows of a card stay in one partition.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[frozenset[str]] = frozenset()
    weight: ClassVar[float] = 1.0
    keeps_order: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        """Register it, under the name of the class in lower case with underscores."""
        if not cls.__name__.startswith("_"):
            letters = (f"_{c.lower()}" if c.isupper() else c for c in cls.__name__)
            cls.name = "".join(letters).strip("_")
            FAULTS[cls.name] = cls()

    def suits(self, shape: Shape) -> bool:
        """Return whether it makes sense for a shape."""
        return shape.output == "kafka" or not self.needs

    def inject(self, trial: Trial) -> None:
        """Apply it and heal it; ``trial.injected()`` notes the time from which it recovers."""
        trial.injected()
        self.apply(trial)
        self.heal(trial)

    def apply(self, trial: Trial) -> None:
        """Let it happen."""
        raise NotImplementedError

    def heal(self, trial: Trial) -> None:
        """End it; a run recovers from a kill by itself."""


class Jvm(Fault):
    """kill -9 of the JVM at any time."""

    def apply(self, trial: Trial) -> None:
        trial.run.kill("jvm")


class MidEpoch(Fault):
    """Kill with results after the last commit, whose rows the next run reads again."""

    def apply(self, trial: Trial) -> None:
        trial.await_commit()
        time.sleep(2)
        trial.kill("jvm")


class Python(Fault):
    """kill -9 of the driver's Python."""

    def apply(self, trial: Trial) -> None:
        trial.run.kill("python")


class Group(Fault):
    """kill -9 of all processes at once; a service manager starts the run again."""

    def apply(self, trial: Trial) -> None:
        trial.run.kill_all()
        trial.run.restart()


class OffsetsWritten(Fault):
    """Kill when the next offsets are written; with mid-epoch commits the next start does it."""

    def apply(self, trial: Trial) -> None:
        committed = trial.newest("commits")
        if trial.newest(MID_EPOCH_COMMITS) >= 0:
            trial.run.kill("jvm")
        trial.await_newer("offsets", committed)
        trial.kill("jvm", "python")


class CommitWritten(Fault):
    """Kill when a commit has just been written."""

    def apply(self, trial: Trial) -> None:
        trial.await_commit()
        trial.kill("jvm")


class WhileFencing(Fault):
    """Kill again while the previous run is fenced."""

    def suits(self, shape: Shape) -> bool:
        return shape.exactly_once

    def apply(self, trial: Trial) -> None:
        trial.interrupt("fencing the previous run")


class WhileScanning(Fault):
    """Kill again while the output is read for delivered results."""

    def suits(self, shape: Shape) -> bool:
        return shape.exactly_once

    def apply(self, trial: Trial) -> None:
        trial.interrupt("of the output for delivered results")


class CatchingUp(Fault):
    """Kill with full batches in flight, of which some partitions have more than others."""

    def apply(self, trial: Trial) -> None:
        begin = time.monotonic()
        trial.run.kill("jvm")
        trial.run.wait_for("running in real-time", begin)
        time.sleep(trial.pick.uniform(0, 2))
        trial.kill("jvm")


class WhileRecovering(Fault):
    """Kill again at any moment of the start."""

    def apply(self, trial: Trial) -> None:
        begin = time.monotonic()
        trial.run.kill("jvm")
        trial.run.wait_for("starting Spark", begin)
        time.sleep(trial.pick.uniform(0, 10))
        trial.kill("jvm", "python")


class StopAndStart(Fault):
    """Drain, and start again."""

    def apply(self, trial: Trial) -> None:
        trial.run.drain()
        trial.injected()
        trial.run.restart()


class _Paused(Fault):
    """SIGSTOP of a part for some seconds."""

    part: ClassVar[str] = "jvm"
    seconds: ClassVar[tuple[float, float]] = (5, 20)

    def apply(self, trial: Trial) -> None:
        self._stopped = trial.run.signal(signal.SIGSTOP, self.part)
        if not self._stopped:
            raise NoEffectError(f"there is no process {self.part!r} to pause")
        trial.require_silence()
        time.sleep(trial.pick.uniform(*self.seconds))

    def heal(self, trial: Trial) -> None:
        trial.injected()
        for process in self._stopped:
            if process.is_running():
                process.send_signal(signal.SIGCONT)


class JvmPaused(_Paused):
    """SIGSTOP of the JVM."""


class JvmPaused150(_Paused):
    """SIGSTOP of the JVM for longer than Kafka's timeouts."""

    weight = 0.2
    seconds = (150, 150)


class WorkerPaused(_Paused):
    """SIGSTOP of the Python workers for longer than the timeout of a function."""

    part = "workers"
    seconds = (35, 45)

    def suits(self, shape: Shape) -> bool:
        return shape.python


class WorkerKilled(Fault):
    """kill -9 of the Python workers."""

    def suits(self, shape: Shape) -> bool:
        return shape.python

    def apply(self, trial: Trial) -> None:
        if not trial.run.signal(signal.SIGKILL, "workers"):
            raise NoEffectError("there is no Python worker to kill")


class HeapExhausted(Fault):
    """No heap is left for some seconds."""

    def apply(self, trial: Trial) -> None:
        order = trial.folder / heap.ORDER
        order.touch()
        deadline = time.monotonic() + 30
        while order.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        if order.exists():
            raise NoEffectError("nobody obeyed the order to exhaust the heap")
        trial.injected()
        time.sleep(heap.HOLD_SECONDS)
