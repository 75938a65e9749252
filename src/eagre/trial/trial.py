"""One trial: a system under load, measured from outside."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from eagre.broker import Topics
from eagre.errors import TrialError
from eagre.files import TemporaryFolder
from eagre.trial import app, load, meter
from eagre.trial.process import ProcessUnderTest
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from eagre.trial.process import Command

START_SECONDS = 120
PROBE_SECONDS = 0.5
SAMPLE_SECONDS = 5
LEAD_US = 1_500_000
PREPARE_US = 25
"""How far ahead the first record is due: the generator must start and create all records."""
GRACE_SECONDS = 15.0
LONGEST_WARMUP, RAMP_SHARE, WARMUP_SEED, LEAD_IN_SECONDS = 2.5, 1.0, 2, 1.0
"""A warm-up that settles: its longest duration and its ramp, as multiples of its shortest duration;
the seed of its events; and the seconds at the start of the measured load that do not count."""
STEADY_SECONDS, STEADY_RATIO, STEADY_MS, BACKLOG_MS = 4, 1.5, 30.0, 1_000.0
"""The latency is steady if the medians of so many seconds differ by at most this ratio, or are all
below so many milliseconds. A median above the last number means a backlog."""

Figures = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """How to load and measure a system that reads one topic and writes another.

    Attributes:
        events: A Python file with ``events(random)``, or an object by ``package.module:NAME``.
        source: The topic it reads.
        results: The topic it writes.
        rate: Records per second.
        warmup: Seconds before the measurement.
        seconds: Seconds measured.
        forwards: Whether the system only forwards.
        kill: Whether to kill and start it again in the middle of the measurement.
        poison: After how many records a bad one is sent; 0 for never.
        settling: Whether the warm-up has a separate load with a growing rate, until the
            system has caught up and its latency is steady, up to two and a half times as long.
    """

    events: str
    source: str
    results: str
    rate: float
    warmup: float
    seconds: float
    forwards: bool = False
    kill: bool = False
    poison: int = 0
    settling: bool = False

    def run(
        self,
        brokers: str,
        start: Callable[[], ProcessUnderTest],
        on_second: Callable[[Figures], None],
    ) -> Figures:
        """Start the system, load it, measure it, end it.

        Raises:
            TrialError: The system did not answer, or ended under load.
        """
        began = time.monotonic()
        with RestartableSystem(start) as system:
            self._await_first_result(brokers, system)
            started = time.monotonic() - began
            warmed = self._warm_up(brokers, system, on_second) if self.settling else {}
            what = self.measurement(brokers)
            with _measured(what) as (measuring, loading):
                with self._killing(system, what):
                    total = _follow(measuring, system, what, on_second)
                sent = _last_line(loading)
        return {
            **total,
            **sent,
            **system.costs(total["records"]),
            **warmed,
            "start_s": round(started, 1),
            "from_us": what.from_us,
        }

    def _warm_up(
        self, brokers: str, system: RestartableSystem, on_second: Callable[[Figures], None]
    ) -> Figures:
        """Load the system until it keeps up; return how long that took, and whether it does."""
        longest = self.warmup * LONGEST_WARMUP
        warming = replace(self, seconds=longest, warmup=0.0)
        what = warming.measurement(brokers, seed=WARMUP_SEED, ramp=self.warmup * RAMP_SHARE)
        seconds: list[Figures] = []
        with _measured(what) as (measuring, _):
            for line in measuring.stdout or ():
                second = json.loads(line).get("second")
                if second is None:
                    break
                system.require_alive()
                seconds.append(second)
                on_second({**second, "warming": True})
                if len(seconds) >= self.warmup * RAMP_SHARE and settled(seconds):
                    break
        return {"warmup_s": len(seconds), "settled": settled(seconds)}

    def _await_first_result(self, brokers: str, system: RestartableSystem) -> None:
        """Send single events until a result arrives: then the warm-up starts."""
        topics = Topics(brokers)
        before = topics.ends([self.results])
        probe = load.Probe(self._load(brokers))

        def answered() -> bool:
            system.require_alive()
            probe.send()
            return topics.ends([self.results]) != before

        began = time.monotonic()
        try:
            wait_until(answered, START_SECONDS, "", interval=PROBE_SECONDS)
        except TimeoutError:
            raise TrialError(
                "NO_RESULT",
                f"no result came within {time.monotonic() - began:.0f} s.",
                hint=f"its log is {system.process.log}.",
                data={"log": str(system.process.log)},
            ) from None

    def _load(self, brokers: str, **options: Any) -> load.Load:  # noqa: ANN401  (of Load)
        return due_soon(
            load.Load(
                brokers=brokers,
                topic=self.source,
                events=self.events,
                rate=self.rate,
                seconds=self._uncounted + self.seconds,
                begin_us=0,
                poison=self.poison,
                **options,
            )
        )

    @property
    def _uncounted(self) -> float:
        """The seconds at the start of the measured load that do not count."""
        return min(LEAD_IN_SECONDS, self.warmup) if self.settling else self.warmup

    def measurement(self, brokers: str, **options: Any) -> meter.Measurement:  # noqa: ANN401
        """Return the next measurement, with options for its load."""
        topics = Topics(brokers)
        ends = topics.ends([self.source, self.results])
        what = self._load(brokers, **options)
        from_us = what.begin_us + round(self._uncounted * 1_000_000)
        until_us = from_us + round(self.seconds * 1_000_000)
        return meter.Measurement(
            load=what,
            topic=self.results,
            begin=ends[self.results],
            from_us=from_us,
            until_us=until_us,
            grace=GRACE_SECONDS if not self.kill else 4 * GRACE_SECONDS,
            source_begin=ends[self.source][0] if len(ends[self.source]) == 1 else None,
            forwards=self.forwards,
            kill_us=(from_us + until_us) // 2 if self.kill else 0,
        )

    @contextlib.contextmanager
    def _killing(self, system: RestartableSystem, what: meter.Measurement) -> Iterator[None]:
        """Kill the system at its time, and restart it immediately."""
        timer = threading.Timer((what.kill_us - what.load.now_us()) / 1_000_000, system.restart)
        if self.kill:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()


class RestartableSystem:
    """The system from start to end, with its cost; it can be restarted in between."""

    def __init__(self, start: Callable[[], ProcessUnderTest]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self.process = start()
        self._cpu: list[float] = []
        self._rss = 0.0
        self._past_cpu = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.process.kill()

    def require_alive(self) -> None:
        """Raise if the system has ended unexpectedly."""
        with self._lock:
            self.process.require_alive()

    def restart(self) -> None:
        """Kill and restart it."""
        with self._lock:
            self._past_cpu += self.process.cost().cpu_s
            self.process.kill()
            self.process = self._start()

    def sample(self) -> None:
        """Store its current cost."""
        with self._lock:
            cost = self.process.cost()
        self._cpu.append(self._past_cpu + cost.cpu_s)
        self._rss = max(self._rss, cost.rss_mb)

    def costs(self, records: int) -> Figures:
        """Return CPU seconds per million records between the samples, and peak memory."""
        used = self._cpu[-1] - self._cpu[0] if self._cpu else 0.0
        per_million = used * 1_000_000 / records if records else 0.0
        return {"cpu_s_per_million": round(per_million, 2), "rss_mb": round(self._rss)}


def scratch_folder(base: Path) -> TemporaryFolder:
    """Create a folder for a trial's apps; remove it and their other files at the end."""
    return TemporaryFolder(base, "tmp", before_removal=app.forget)


def due_soon(what: load.Load) -> load.Load:
    """Set the start of a load and the trial's clock."""
    offset = load.clock_offset_us()
    lead = LEAD_US + PREPARE_US * what.records
    return replace(what, offset_us=offset, begin_us=load.steady_us() + offset + lead)


def starter(command: Command, folder: Path, log: Path) -> Callable[[], ProcessUnderTest]:
    """Return a function that starts a command."""
    return lambda: ProcessUnderTest(command.arguments, command.environment, folder, log)


def settled(seconds: list[Figures]) -> bool:
    """Return whether a system has caught up with its load and its latency is steady.

    >>> rising = [{"p50_ms": ms} for ms in (90, 200, 400, 700, 900)]
    >>> steady = [{"p50_ms": ms} for ms in (5, 7, 6, 12, 5)]
    >>> settled(rising), settled(steady), settled(steady[:3])
    (False, True, False)
    """
    last = [second.get("p50_ms", math.inf) for second in seconds[-STEADY_SECONDS:]]
    return (
        len(last) == STEADY_SECONDS
        and max(last) < BACKLOG_MS
        and max(last) <= max(STEADY_RATIO * min(last), STEADY_MS)
    )


@contextlib.contextmanager
def _measured(
    what: meter.Measurement,
) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """Run the meter and the load generator, and end both."""
    measuring = _start(meter, meter.to_json(what))
    loading = _start(load, load.to_json(what.load))
    try:
        yield measuring, loading
    finally:
        _end(measuring)
        _end(loading)


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
    system: RestartableSystem,
    what: meter.Measurement,
    on_second: Callable[[Figures], None],
) -> Figures:
    """Forward the meter's seconds, sample the cost of the measured time, return the total."""
    sampled = 0
    for line in measuring.stdout or ():
        report = json.loads(line)
        if "total" in report:
            return dict(report["total"])
        system.require_alive()
        on_second(report["second"])
        passed = (what.load.now_us() - what.from_us) // 1_000_000
        last = what.load.now_us() >= what.until_us
        if passed >= 0 and (passed % SAMPLE_SECONDS == 0 or last or not sampled):
            system.sample()
            sampled += 1
    raise TrialError("METER_ENDED", "the meter ended without a result.")


def _last_line(process: subprocess.Popen[str]) -> Figures:
    """Return the last line of a process; its standard input stays open until then."""
    text = process.stdout.read() if process.stdout else ""
    if not text:
        raise TrialError("GENERATOR_ENDED", "the load generator ended without a result.")
    return dict(json.loads(text))


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
