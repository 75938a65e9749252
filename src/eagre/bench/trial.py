"""One trial: a pipeline under load in one mode, measured from outside."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagre.bench import load, meter
from eagre.broker import Topics
from eagre.errors import PipelineFailed
from eagre.runtime.spec import RunSpec
from eagre.runtime.supervisor import Event, SparkChild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from eagre.sources import Mode

START_SECONDS = 120
PROBE_SECONDS = 0.5
LEAD_US = 1_500_000
"""How far ahead the first record is due: the generator process must be up by then."""


@dataclass(frozen=True)
class Trial:
    """What to run and how to load it.

    Attributes:
        app: The app file.
        events: The file that generates its events.
        results: The topic its results go to.
        mode: The mode.
        every: The epoch or trigger.
        rate: Records per second.
        warmup: Seconds before the measurement.
        seconds: Seconds measured.
        settings: More Spark settings.
    """

    app: Path
    events: Path
    results: str
    mode: Mode
    every: str
    rate: float
    warmup: float
    seconds: float
    settings: dict[str, str] = field(default_factory=dict)

    def run(
        self, brokers: str, scratch: Path, on_second: Callable[[dict[str, float]], None]
    ) -> dict[str, float]:
        """Start the pipeline, load it, measure it, end it.

        Raises:
            PipelineFailed: The pipeline did not start, or ended under load.
        """
        with self._running(brokers, scratch) as pipeline:
            self._await_first_result(brokers, pipeline)
            begin = load.now_us() + LEAD_US
            measuring = _start(meter, meter.to_json(self._measurement(brokers, begin)))
            loading = _start(load, load.to_json(self._load(brokers, begin)))
            try:
                total = _follow(measuring, pipeline, on_second)
                sent = _last_word(loading)
            finally:
                _end(measuring)
                _end(loading)
            return {**total, **sent, "epochs": pipeline.epochs}

    def _await_first_result(self, brokers: str, pipeline: _Pipeline) -> None:
        """Send an event now and then until a result comes: only then has the warm-up begun."""
        topics = Topics(brokers)
        before = topics.ends([self.results])
        deadline = time.monotonic() + START_SECONDS
        while topics.ends([self.results]) == before:
            pipeline.require_alive()
            if time.monotonic() > deadline:
                raise PipelineFailed("NO_RESULT", f"no result came within {START_SECONDS} s.")
            probe = load.Load(brokers, str(self.events), 1, 1, load.now_us())
            load.Generator(probe).run()
            time.sleep(PROBE_SECONDS)

    def _load(self, brokers: str, begin_us: int) -> load.Load:
        length = self.warmup + self.seconds
        return load.Load(brokers, str(self.events), self.rate, length, begin_us)

    def _measurement(self, brokers: str, begin_us: int) -> meter.Measurement:
        from_us = begin_us + round(self.warmup * 1_000_000)
        until_us = from_us + round(self.seconds * 1_000_000)
        due = self._load(brokers, begin_us)
        expected = sum(from_us <= due.due_us(n) < until_us for n in range(due.records))
        ends = Topics(brokers).ends([self.results])[self.results]
        return meter.Measurement(brokers, self.results, ends, from_us, until_us, expected)

    @contextlib.contextmanager
    def _running(self, brokers: str, scratch: Path) -> Iterator[_Pipeline]:
        spec = RunSpec(
            app=str(self.app),
            mode=self.mode,
            every=self.every,
            checkpoint=tempfile.mkdtemp(dir=scratch),
            settings=self.settings,
        )
        pipeline = _Pipeline(spec, brokers, scratch / "logs")
        try:
            pipeline.await_start()
            yield pipeline
        finally:
            pipeline.end()


def warm_broker(brokers: str, events: Path, rate: float, seconds: float) -> None:
    """Put a fresh broker under the load alone: its first seconds are many times slower."""
    topics = Topics(brokers)
    topic = load.topic_of(events)
    if topic not in topics.names():
        topics.create(topic, 1)
    begin = load.now_us() + LEAD_US
    loading = _start(load, load.to_json(load.Load(brokers, str(events), rate, seconds, begin)))
    try:
        _last_word(loading)
    finally:
        _end(loading)


class _Pipeline:
    """The Spark child under test."""

    def __init__(self, spec: RunSpec, brokers: str, logs: Path) -> None:
        self.epochs = 0
        self.failure: PipelineFailed | None = None
        self._started = threading.Event()
        self._child = SparkChild(spec, spec.mode, lambda _, event: self._hear(event), logs)
        self._child.tell(brokers)

    def await_start(self) -> None:
        """Wait until the query runs, or failed."""
        if not self._started.wait(START_SECONDS):
            raise PipelineFailed(
                "NOT_STARTED",
                f"the pipeline did not start within {START_SECONDS} s.",
                hint=f"its log is {self._child.log}.",
            )
        self.require_alive()

    def require_alive(self) -> None:
        """Raise what ended the pipeline, if something did."""
        if self.failure:
            raise self.failure

    def end(self) -> None:
        """End the Spark process; nothing of a trial is kept."""
        self._child.kill()
        self._child.wait()

    def _hear(self, event: Event) -> None:
        if event["event"] == "status":
            self.epochs = event["epochs"]
        if event["event"] == "running":
            self._started.set()
        if event["event"] == "failed":
            self._fail(event["code"], event["problem"], event["hint"])
        if event["event"] == "gone":
            self._fail("SPARK_ENDED", "the Spark process ended.", f"its log is {self._child.log}.")

    def _fail(self, code: str, problem: str, hint: str) -> None:
        self.failure = self.failure or PipelineFailed(code, problem, hint)
        self._started.set()


def _start(module: Any, request: str) -> subprocess.Popen[str]:  # noqa: ANN401  (a module)
    process = subprocess.Popen(
        [sys.executable, "-m", module.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    if process.stdin:
        process.stdin.write(request + "\n")
        process.stdin.flush()
    return process


def _follow(
    measuring: subprocess.Popen[str],
    pipeline: _Pipeline,
    on_second: Callable[[dict[str, float]], None],
) -> dict[str, float]:
    for line in measuring.stdout or ():
        report = json.loads(line)
        if "total" in report:
            total: dict[str, float] = report["total"]
            return total
        pipeline.require_alive()
        on_second(report["second"])
    raise PipelineFailed("METER_ENDED", "the meter ended without a result.")


def _last_word(process: subprocess.Popen[str]) -> dict[str, float]:
    """Wait for what a process prints at its end; its standard input stays open until then."""
    text = process.stdout.read() if process.stdout else ""
    if not text:
        raise PipelineFailed("GENERATOR_ENDED", "the load generator ended without a result.")
    return dict(json.loads(text))


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
