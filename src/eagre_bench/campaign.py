"""One run: every system under the same load on one machine, in several rounds."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from eagre.broker import EmbeddedBroker, Topics
from eagre.config import interval_ms
from eagre.errors import EagreError
from eagre.trial.load import LATE_MS
from eagre.trial.trial import Trial, starter
from eagre_bench.errors import BenchError
from eagre_bench.systems import Job
from eagre_bench.warmup import WARM_SECONDS, warm_broker
from eagre_bench.workload import send_merchants, workload, write_merchants

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from eagre_bench.systems import System
    from eagre_bench.workload import Workload

BEHIND = "the load generator"
AGAIN = 2
"""The number of trials of a workload that are repeated if the generator was late."""
TOPIC_SETTINGS = {"message.timestamp.type": "LogAppendTime"}
TABLE = "merchants"
"""The topic with the merchants, shared by all trials."""

Figures = dict[str, Any]
Measure = Callable[["Workload", "System"], Figures]


@dataclass(frozen=True)
class Options:
    """The options of the command line for every workload.

    Attributes:
        rounds: How often each system is measured.
        rate: Events per second.
        warmup: Seconds before the measurement.
        seconds: Seconds measured.
        epoch: Each system's checkpoint interval.
        trigger: The trigger of micro-batches.
        recovery: Whether each system is killed and restarted during the measurement.
        slow_checkpoint_ms: The additional latency of each access to the checkpoint store.
    """

    rounds: int = 2
    rate: float | None = None
    warmup: float | None = None
    seconds: float | None = None
    epoch: str | None = None
    trigger: str | None = None
    recovery: bool = False
    slow_checkpoint_ms: int = 0

    def applied(self, name: str) -> Workload:
        """Return a workload with these options applied."""
        fields = ("rate", "warmup", "seconds", "epoch", "trigger")
        stated = {field: getattr(self, field) for field in fields}
        return replace(
            workload(name), **{k: value for k, value in stated.items() if value is not None}
        )


@dataclass(frozen=True)
class ScheduledTrial:
    """One trial of a run."""

    workload: Workload
    system: System
    round: int
    control: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        """The name in the progress display."""
        again = " again (A/A control)" if self.control else ""
        return f"{self.workload.name}, round {self.round}: {self.system.name}{again}{self.note}"


class ProgressListener(Protocol):
    """Receives the progress of a run."""

    def say(self, text: str) -> None:
        """Report a step."""

    def begin(self, turn: ScheduledTrial, number: int, of: int) -> None:
        """Report the start of a trial."""

    def second(self, figures: Figures) -> None:
        """Report a second of a trial."""

    def end(self, figures: Figures) -> None:
        """Report the figures of a trial."""


class Testbed:
    """A broker and a folder to measure systems in, one after the other.

    Args:
        folder: For logs and state.
        options: The options of the run.
        observer: Receives the progress.
    """

    def __init__(self, folder: Path, options: Options, observer: ProgressListener) -> None:
        self._folder, self._options, self._observer = folder, options, observer
        self._broker = EmbeddedBroker(say=observer.say)
        self._merchants = folder / "merchants.csv"
        self._trials = 0

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._broker.start()
        self._observer.say(f"warming up the fresh broker for {WARM_SECONDS:g} s")
        warm_broker(self._broker.address, self._folder)
        write_merchants(self._merchants)
        Topics(self._broker.address).create(TABLE, 1, TOPIC_SETTINGS)
        send_merchants(self._broker.address, TABLE)
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the state of the trials; keep the logs."""
        self._broker.stop()
        shutil.rmtree(self._folder / "state", ignore_errors=True)
        self._merchants.unlink(missing_ok=True)

    def measure(self, chosen: Workload, system: System, *, kill: bool = False) -> Figures:
        """Run one trial with separate topics and a separate state folder.

        If a system cannot be measured, the figures contain ``failed``, and the run continues.
        """
        self._trials += 1
        kill = kill or self._options.recovery
        job = self._job(chosen, system)
        topics = Topics(self._broker.address)
        for topic in (job.source, job.sink):
            topics.create(topic, chosen.partitions, TOPIC_SETTINGS)
        try:
            figures = self._trial(chosen, system, job, kill=kill)
        except EagreError as error:
            figures = {"failed": str(error)}
        finally:
            topics.delete([job.source, job.sink])
            shutil.rmtree(self._state(), ignore_errors=True)
        result = {**figures, "problems": problems(figures, recovery=kill)}
        self._observer.end(result)
        return result

    def _trial(self, chosen: Workload, system: System, job: Job, *, kill: bool) -> Figures:
        logs = self._folder / "logs" / job.group
        logs.mkdir(parents=True)
        trial = Trial(
            events=chosen.reference,
            source=job.source,
            results=job.sink,
            rate=chosen.rate,
            warmup=chosen.warmup,
            seconds=chosen.seconds,
            forwards=system.forwards,
            poison=system.poison,
            kill=kill,
        )
        start = starter(system.command(job), logs, logs / "output.log")
        figures = trial.run(self._broker.address, start, self._observer.second)
        from_us = figures.pop("from_us")
        times = system.checkpoint_times(self._state())
        checkpoints = [round((at - from_us) / 1e6, 3) for at in times]
        gaps = gaps_ms(figures["series"], checkpoints, chosen.seconds)
        return {**figures, "checkpoints": checkpoints, "gaps_ms": gaps}

    def _state(self) -> Path:
        return self._folder / "state" / str(self._trials)

    def _job(self, chosen: Workload, system: System) -> Job:
        state = self._state()
        state.mkdir(parents=True)
        name = f"{chosen.name}-{system.name}-{self._trials}"
        return Job(
            workload=chosen.name,
            brokers=self._broker.address,
            source=f"{name}-events",
            sink=f"{name}-results",
            group=name,
            epoch_ms=interval_ms(chosen.epoch),
            trigger_ms=interval_ms(chosen.trigger),
            state=str(state),
            merchants=str(self._merchants),
            slow_checkpoint_ms=self._options.slow_checkpoint_ms,
            table=TABLE,
        )


class Campaign:
    """All trials of a run, interleaved, with an A/A control for each workload."""

    def __init__(
        self,
        workloads: list[Workload],
        systems: list[System],
        rounds: int,
        observer: ProgressListener,
    ) -> None:
        self._workloads, self._systems = workloads, systems
        self._rounds, self._observer = rounds, observer
        self._again: dict[str, int] = {}

    def turns(self, *, control: bool = True) -> Iterator[ScheduledTrial]:
        """Yield every trial in order; every second round is reversed.

        The A/A control is one system measured at least twice: in its rounds, or in an extra trial.
        """
        for chosen in self._workloads:
            able = [system for system in self._systems if not system.refusal(chosen.name)]
            for number in range(1, self._rounds + 1):
                order = able if number % 2 else able[::-1]
                yield from (ScheduledTrial(chosen, system, number) for system in order)
            if self._rounds == 1 and able and control:
                yield ScheduledTrial(chosen, control_of(able), 1, control=True)

    def run(
        self, measure: Measure, *, control: bool = True
    ) -> list[tuple[ScheduledTrial, Figures]]:
        """Measure every turn."""
        turns = list(self.turns(control=control))
        done = []
        for number, turn in enumerate(turns, 1):
            self._observer.begin(turn, number, len(turns))
            figures = measure(turn.workload, turn.system)
            if self._may_repeat(turn, figures):
                self._observer.say("the generator was late; repeating the trial")
                figures = measure(turn.workload, turn.system)
            done.append((turn, figures))
        return done

    def _may_repeat(self, turn: ScheduledTrial, figures: Figures) -> bool:
        if not any(problem.startswith(BEHIND) for problem in figures["problems"]):
            return False
        self._again[turn.workload.name] = self._again.get(turn.workload.name, 0) + 1
        return self._again[turn.workload.name] <= AGAIN


def control_of(systems: list[System]) -> System:
    """Return the system of the A/A control: Eagre, or the first that is not the floor."""
    named = {system.name: system for system in systems}
    others = [system for system in systems if not system.forwards]
    return named.get("eagre") or (others or systems)[0]


def problems(figures: Figures, *, recovery: bool = False) -> list[str]:
    """Return why the figures of a trial are invalid; empty if they are valid.

    >>> problems({"lost": 3, "repeated": 0, "wrong": 0, "negative": 0, "late_p99_ms": 1.0})
    ['3 events were not answered']
    """
    if "failed" in figures:
        return [figures["failed"]]
    counted = {"lost": "events were not answered", "wrong": "results were wrong"}
    if not recovery:
        counted["repeated"] = "results came again"
    counted["negative"] = "results came before their event"
    texts = [f"{figures[name]:,} {text}" for name, text in counted.items() if figures[name]]
    if figures["late_p99_ms"] > LATE_MS and not recovery:
        texts.append(f"{BEHIND} was {figures['late_p99_ms']:.0f} ms late at p99")
    return texts


def gaps_ms(series: list[Figures], checkpoints: list[float], seconds: float) -> list[float]:
    """Return the longest wait of a row around each checkpoint of the measured time.

    Rows that wait for a checkpoint are due in the second of its end, or in a neighbouring one.

    >>> series = [{"second": at, "max_ms": ms} for at, ms in enumerate([4.0, 90.0, 5.0, 6.0])]
    >>> gaps_ms(series, [-0.5, 2.2], seconds=4)
    [90.0]
    """
    longest = {second["second"]: second["max_ms"] for second in series}
    seen = [math.floor(checkpoint) for checkpoint in checkpoints if 0 <= checkpoint < seconds]
    around = [[longest[s] for s in (at - 1, at, at + 1) if s in longest] for at in seen]
    return [max(waits) for waits in around if waits]


def require_any(workloads: list[Workload], systems: list[System]) -> None:
    """Refuse a run without anything to measure.

    Raises:
        BenchError: No system can run any workload.
    """
    if all(s.refusal(w.name) for w in workloads for s in systems):
        reasons = {s.refusal(w.name) for w in workloads for s in systems}
        raise BenchError(
            "NOTHING_TO_MEASURE",
            f"none of the systems can run these workloads: {'; '.join(sorted(reasons))}.",
            hint="`eagre bench list` shows what runs where.",
        )


def prepare(systems: list[System], observer: ProgressListener) -> dict[str, str]:
    """Prepare each system; return the reason for each that could not be prepared."""
    missing = {}
    for system in systems:
        began = time.monotonic()
        try:
            system.prepare(observer.say)
        except EagreError as error:
            missing[system.name] = str(error)
            observer.say(f"{system.name} is skipped: {error}")
        if (took := time.monotonic() - began) > 1:
            observer.say(f"{system.name}: ready after {took:.0f} s")
    return missing
