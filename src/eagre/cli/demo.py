"""``eagre demo``: one pipeline in micro-batch and in real time, side by side."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagre.bench.trial import Trial, warm_broker
from eagre.broker import EmbeddedBroker
from eagre.cli.console import say, table, write_json
from eagre.config import cache_dir, interval_ms
from eagre.templates import DEFAULT, folder, use_cases

if TYPE_CHECKING:
    from eagre.sources import Mode

BROKER_WARMUP_SECONDS = 8
MICRO_BATCH_EVERY = "500 ms"
REAL_TIME_EVERY = "5 minutes"
RESULTS = "scores"
LATE_MS = 20.0
"""A generator later than this at p99 makes a run doubtful."""

Figures = dict[str, float]


@click.command(epilog=f"Use cases: {', '.join(use_cases())}.")
@click.argument("use_case", default=DEFAULT)
@click.option("--seconds", default=30.0, show_default=True, help="Measured, for each mode.")
@click.option("--rate", default=2000.0, show_default=True, help="Records per second.")
@click.option("--every", default=REAL_TIME_EVERY, show_default=True, help="The real-time epoch.")
@click.option("--warmup", default=15.0, show_default=True, help="Seconds before the measurement.")
@click.option("--json", "target", metavar="FILE", help="Write the result as JSON (- for stdout).")
@click.option("--no-dashboard", is_flag=True, help="Without the page (there is none yet).")
def demo(
    use_case: str,
    seconds: float,
    rate: float,
    every: str,
    warmup: float,
    target: str | None,
    no_dashboard: bool,
) -> None:
    """Run a use case in micro-batch, then in real time, and compare their latencies.

    An embedded broker, and generated events at a steady rate; latency counts from the moment a
    record was meant to be sent to the moment a consumer has the result.
    """
    del no_dashboard
    interval_ms(every)
    if seconds <= 0 or rate <= 0:
        raise click.UsageError("--seconds and --rate must be above zero.")
    pace: dict[Mode, str] = {"micro-batch": MICRO_BATCH_EVERY, "real-time": every}
    place = folder(use_case)
    modes: dict[str, Figures] = {}
    with _scratch() as scratch, EmbeddedBroker(say=say) as broker:
        _warm(broker, place, rate)
        for mode, interval in pace.items():
            trial = Trial(
                app=place / "app.py",
                events=place / "generate.py",
                results=RESULTS,
                mode=mode,
                every=interval,
                rate=rate,
                warmup=warmup,
                seconds=seconds,
            )
            modes[mode] = _measure(trial, broker.address, Path(scratch))
    result = {"use_case": use_case, "rate": rate, "modes": modes, "ratio": _ratio(modes)}
    click.echo(_text(result), err=target == "-")
    if target:
        write_json(target, result)


def _scratch() -> tempfile.TemporaryDirectory[str]:
    base = cache_dir() / "demo"
    base.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=base, ignore_cleanup_errors=True)


def _warm(broker: EmbeddedBroker, place: Path, rate: float) -> None:
    say(f"warming up the fresh broker for {BROKER_WARMUP_SECONDS} s")
    warm_broker(broker.address, place / "generate.py", rate, BROKER_WARMUP_SECONDS)


def _measure(trial: Trial, brokers: str, scratch: Path) -> Figures:
    say(f"{trial.mode}: starting Spark, then {trial.warmup:g} s of warm-up")
    progress = Progress(trial)
    figures = trial.run(brokers, scratch, progress.second)
    progress.close()
    return figures


class Progress:
    """The seconds of a trial as they pass: a line that moves in a terminal, else one in five."""

    def __init__(self, trial: Trial) -> None:
        self._mode = trial.mode
        self._warmup = trial.warmup
        self._seconds = trial.warmup + trial.seconds
        self._passed = 0
        self._moving = sys.stderr.isatty()

    def second(self, figures: Figures) -> None:
        """Show one second."""
        if not figures["records"]:
            return
        self._passed += 1
        stage = "warm-up" if self._passed <= self._warmup else "measuring"
        text = (
            f"{self._mode}: {stage} {min(self._passed, self._seconds):.0f} of {self._seconds:.0f} s"
            f"   {figures['records']:,.0f} records   p50 {figures['p50_ms']:,.1f} ms"
            f"   p99 {figures['p99_ms']:,.1f} ms"
        )
        if self._moving:
            click.echo(f"\r\x1b[2Keagre: {text}", nl=False, err=True)
        elif self._passed % 5 == 0:
            say(text)

    def close(self) -> None:
        """Leave the line."""
        if self._moving:
            click.echo(err=True)


def _ratio(modes: dict[str, Figures]) -> dict[str, float]:
    slow, fast = modes["micro-batch"], modes["real-time"]
    return {
        p: round(slow[f"{p}_ms"] / fast[f"{p}_ms"], 1) if fast[f"{p}_ms"] else 0.0
        for p in ("p50", "p95", "p99")
    }


def _text(result: dict[str, Any]) -> str:
    columns = ["p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms"]
    headings = ["latency in ms", "p50", "p95", "p99", "p99.9", "max", "records"]
    rows = [
        [mode, *(f"{figures[c]:,.1f}" for c in columns), f"{figures['records']:,}"]
        for mode, figures in result["modes"].items()
    ]
    slow, fast = result["modes"]["micro-batch"], result["modes"]["real-time"]
    ratios = [f"{slow[c] / fast[c]:,.0f}x" if fast[c] else "-" for c in columns]
    lines = ["", table(headings, [*rows, ["micro-batch ÷ real-time", *ratios, ""]])]
    lines += _warnings(result["modes"])
    return "\n".join([*lines, ""])


def _warnings(modes: dict[str, Figures]) -> list[str]:
    told = []
    for mode, figures in modes.items():
        lost = figures["expected"] - figures["records"]
        if lost:
            told.append(f"{mode}: {lost:,} of {figures['expected']:,} results did not arrive.")
        if figures["late_p99_ms"] > LATE_MS:
            told.append(
                f"{mode}: the load generator itself was {figures['late_p99_ms']:.0f} ms late at "
                "p99; the machine is too busy for these figures to mean much."
            )
    return told
