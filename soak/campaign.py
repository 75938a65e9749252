"""A soak from start to end: pipelines, load, faults, samples, and the counts at the end."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from eagre.broker import Topics
from eagre.broker.server import EmbeddedBroker
from eagre.waiting import wait_until

from .disturbance import Disturbance, Report
from .faults import plan
from .load import Generator, Reader, Stream, Worker, now_us
from .pipelines import Pipeline
from .runs import Run
from .samples import MB, Machine, disk_usage
from .samples import of as used_by
from .use_cases import USE_CASES

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from .record import Record

START_SECONDS = 240
ANSWER_SECONDS = 240
FLUSH_SECONDS = 120
TICK_SECONDS = 1.0


@dataclass(frozen=True)
class Options:
    """What to soak, and how.

    Attributes:
        folder: Where everything is written.
        hours: How long, from the first event.
        pipelines: The use cases.
        rate: Events per second of each.
        every: The interval of the commits.
        seed: The seed of the events and the faults.
        faults_minutes: The time between two faults; 0 for none.
        sample_seconds: The time between two samples.
        inspect_minutes: The time between two looks into each JVM, which collect its garbage, and
            between two windows of latency.
    """

    folder: str
    hours: float
    pipelines: tuple[str, ...]
    rate: float = 20.0
    every: str = "10 seconds"
    seed: int = 1
    faults_minutes: float = 10.0
    sample_seconds: float = 60.0
    inspect_minutes: float = 5.0


class Campaign:
    """Runs a soak until its time is over or ``stop`` is set."""

    def __init__(self, options: Options, record: Record, stop: threading.Event) -> None:
        self._options, self._record, self._stop = options, record, stop
        self._folder = Path(options.folder).resolve()
        self._began = time.monotonic()
        self._inspected = 0.0
        self._machine = Machine()
        self._pipelines: dict[str, Pipeline] = {}

    @property
    def hours(self) -> float:
        """The hours since the load began."""
        return (time.monotonic() - self._began) / 3600

    def run(self) -> None:
        """Run it. Ends everything that it started, also after an error."""
        os.environ["EAGRE_STATE"] = str(self._folder / "state")
        os.environ.pop("EAGRE_BROKERS", None)
        with (
            EmbeddedBroker(0, self._folder / "broker") as broker,
            contextlib.ExitStack() as ends,
        ):
            self._prepare(broker.address)
            disturbance = self._disturbance(broker.pid)
            for pipeline in self._pipelines.values():
                ends.callback(pipeline.run.kill_all)
                self._start(pipeline)
                disturbance.started(pipeline)
            streams = [self._stream(pipeline) for pipeline in self._pipelines.values()]
            reader, generator = Reader(broker.address, streams), Generator(broker.address, streams)
            reader.start()
            ends.callback(reader.close)
            self._began = time.monotonic()
            generator.start()
            self._soak(disturbance, broker.pid, [generator, reader])
            self._finish(generator, broker.address)

    def _prepare(self, brokers: str) -> None:
        for name in self._options.pipelines:
            case = USE_CASES[name]
            for topic in (case.events.topic, case.results, case.dead_letters):
                Topics(brokers).create(topic, 1)
            case.events.fill_tables(brokers)
            run = Run(case, self._folder / name, brokers, self._options.every)
            self._pipelines[name] = Pipeline(case, run)

    def _disturbance(self, broker: int) -> Disturbance:
        options = self._options
        faults = plan(
            options.pipelines,
            [name for name in options.pipelines if USE_CASES[name].python],
            seconds=options.hours * 3600,
            every=options.faults_minutes * 60,
            seed=options.seed,
        )
        return Disturbance(faults, self._pipelines, broker, self._note)

    def _start(self, pipeline: Pipeline) -> None:
        """Start a pipeline and wait until it runs: six that start at once starve each other."""
        if self._stop.is_set():
            return
        print(f"soak: starting {pipeline.case.name}", flush=True)
        pipeline.run.start()
        wait_until(
            lambda: self._stop.is_set() or pipeline.phase == "running",
            START_SECONDS,
            f"{pipeline.case.name} does not start: see {pipeline.run.output}",
            interval=1,
            patient=lambda: pipeline.run.alive,
        )

    def _stream(self, pipeline: Pipeline) -> Stream:
        options = self._options
        return Stream.of(pipeline.case, pipeline.tracker, options.rate, options.seed)

    def _soak(self, disturbance: Disturbance, broker: int, workers: list[Worker]) -> None:
        """Inject and sample until the time is over."""
        seconds, due = self._options.hours * 3600, self._options.sample_seconds
        while not self._stop.is_set() and self.hours * 3600 < seconds:
            disturbance.step(self.hours * 3600)
            for worker in workers:
                worker.check()
            if self.hours * 3600 >= due:
                self._sample(disturbance, broker)
                due = max(due + self._options.sample_seconds, self.hours * 3600)
            self._stop.wait(TICK_SECONDS)
        disturbance.finish()

    def _sample(self, disturbance: Disturbance, broker: int) -> None:
        """Write a line for each pipeline, and one for what they share; print one."""
        machine = self._machine.sample()
        inspects = self.hours * 60 >= self._inspected + self._options.inspect_minutes
        if inspects:
            self._inspected = self.hours * 60
        for name, pipeline in self._pipelines.items():
            entries = pipeline.sample()
            inside = pipeline.inspect() if inspects else {}
            for part in ("values", "lives"):
                entries[part] |= inside.pop(part, {})
            self._add_sample(name, machine, **entries, **inside)
            wrong = pipeline.overdue() if pipeline.run.alive else ["it has ended"]
            if wrong and disturbance.is_calm(pipeline):
                self._note(("problem", {"text": f"{name}: {wrong[0]}"}))
        self._add_sample("", machine, values=self._shared(broker), lives={})
        self._print(machine)

    def _shared(self, broker: int) -> dict[str, float]:
        """Return what the broker and the register of runs use."""
        values = used_by("broker", [psutil.Process(broker)])
        for name, folder in (("topics", "broker"), ("registry", "state")):
            files, size = disk_usage(self._folder / folder)
            values |= {f"{name}.files": files, f"{name}.mb": size / MB}
        return values

    def _add_sample(
        self,
        pipeline: str,
        machine: dict[str, float],
        *,
        values: Mapping[str, float | None],
        **entries: Any,  # noqa: ANN401  (JSON)
    ) -> None:
        rounded = {name: value and round(value, 3) for name, value in values.items()}
        line = {"pipeline": pipeline, "values": rounded, "machine": machine, **entries}
        self._record.add("sample", self.hours, **line)

    def _note(self, report: Report) -> None:
        """Record a fault, a recovery or a problem, and print it."""
        kind, entries = report
        print(f"soak: {self._clock()} {kind}: {' '.join(map(str, entries.values()))}", flush=True)
        self._record.add(kind, self.hours, **entries)

    def _print(self, machine: dict[str, float]) -> None:
        trackers = [pipeline.tracker for pipeline in self._pipelines.values()]
        waiting = sum(tracker.waiting(now_us()) for tracker in trackers)
        print(
            f"soak: {self._clock()} {sum(tracker.answered for tracker in trackers):,} answered, "
            f"{waiting:,} waiting, {sum(tracker.repeated for tracker in trackers):,} repeated; CPU "
            f"{machine['cpu_percent']:.0f} % (steal {machine['steal_percent']:.0f} %), "
            f"{machine['available_mb']:,.0f} MB free",
            flush=True,
        )

    def _clock(self) -> str:
        minutes, seconds = divmod(int(self.hours * 3600), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"

    def _finish(self, generator: Generator, brokers: str) -> None:
        """Stop the load, wait for the last results, drain, and count."""
        print(f"soak: {self._clock()} the load ends; waiting for the last results", flush=True)
        if unsent := generator.finish(FLUSH_SECONDS):
            self._note(("problem", {"text": f"the broker never acknowledged {unsent} events"}))
        pipelines = self._pipelines.values()
        with contextlib.suppress(TimeoutError):
            wait_until(
                lambda: not any(pipeline.tracker.missing(1) for pipeline in pipelines),
                ANSWER_SECONDS,
                "results are missing",
                interval=1,
            )
        for pipeline in pipelines:
            pipeline.overdue()
            if code := pipeline.run.drain():
                text = f"{pipeline.case.name}: the drain ended with exit code {code}"
                self._note(("problem", {"text": text}))
        for name, pipeline in self._pipelines.items():
            self._record.add("counts", self.hours, pipeline=name, **pipeline.counts(brokers))
