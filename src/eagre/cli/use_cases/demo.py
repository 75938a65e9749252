"""``eagre demo``: one pipeline in micro-batch and in real time, side by side."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

import click

from eagre.broker import EmbeddedBroker, Topics
from eagre.cli.commands import Command
from eagre.cli.console import json_option, say, table, write_json
from eagre.cli.pipelines.dashboard import dashboard_options, served_dashboard
from eagre.cli.progress import Progress
from eagre.cli.signals import Terminated
from eagre.config import cache_dir, counted, interval_ms
from eagre.errors import SettingsError
from eagre.jvm.archive import archive
from eagre.runtime import runs
from eagre.runtime.app import App
from eagre.startup_training import stop_background_training, train_in_background
from eagre.templates import DEFAULT, folder, use_cases
from eagre.trial.app import COMMITS, run_app, written_us
from eagre.trial.events import EventsFile
from eagre.trial.load import LATE_MS
from eagre.trial.trial import Trial, scratch_folder, starter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from eagre.pipeline import Pipeline
    from eagre.runtime.runs import RunStatus
    from eagre.trial.process import ProcessUnderTest

MICRO_BATCH_EVERY = "500 ms"
REAL_TIME_EVERY = "5 minutes"
CLEARLY_FASTER = 1.5

Figures = dict[str, Any]


@click.command(
    cls=Command,
    examples=("eagre demo", "eagre demo fraud --seconds 30 --rate 500", "eagre demo --json -"),
    epilog=f"Use cases: {', '.join(use_cases())}.",
)
@click.argument("use_case", default=DEFAULT)
@click.option("--seconds", default=20.0, show_default=True, help="Seconds measured in each mode.")
@click.option("--rate", type=float, help="Records per second. [default: the use case's own]")
@click.option(
    "--every",
    default=REAL_TIME_EVERY,
    show_default=True,
    help="The commit interval in real time.",
)
@click.option(
    "--warmup",
    default=8.0,
    show_default=True,
    help="Seconds under load before the measurement; up to two and a half times as long while "
    "the latency is not steady.",
)
@json_option
@click.option(
    "--archive/--no-archive",
    "archiving",
    default=True,
    help="Afterwards, write the start-up archive in the background if there is none, so that "
    "Spark starts faster.",
)
@dashboard_options
def demo(
    use_case: str,
    seconds: float,
    rate: float | None,
    every: str,
    warmup: float,
    target: str | None,
    archiving: bool,
    no_dashboard: bool,
    dashboard_port: int,
    no_payloads: bool,
) -> None:
    """Run a use case in micro-batch, then in real time, and compare their latencies.

    The demo starts an embedded broker and sends generated events at a steady rate. Latency is the
    time from the intended send of a record until a consumer has its result.
    """
    interval_ms(every)
    if seconds <= 0 or (rate is not None and rate <= 0):
        raise click.UsageError("--seconds and --rate must be above zero.")
    app = folder(use_case) / "app.py"
    events = EventsFile(str(app.with_name("generate.py")))
    rate = rate or events.rate
    name, results = measured_pipeline(app)
    trial = Trial(events.path, events.topic, results, rate, warmup, seconds, settling=True)
    stop_background_training()
    with (
        _exit_on_signals(),
        scratch_folder(cache_dir() / "demo") as scratch,
        served_dashboard(not no_dashboard, dashboard_port, _demo_runs, payloads=not no_payloads),
        EmbeddedBroker(say=say) as broker,
    ):
        for topic in (trial.source, trial.results):
            Topics(broker.address).create(topic, 1)
        events.fill_tables(broker.address)
        modes = _measure_modes(trial, f"{app}:{name}", every, broker.address, scratch)
    epochs = modes["real-time"]["epochs"]
    settings = {"use_case": use_case, "rate": rate, "epochs": epochs}
    result = {**settings, "modes": modes, "ratio": _ratio(modes)}
    click.echo(_text(result), err=target == "-")
    if target:
        write_json(target, result)
    if archiving and not archive().exists():
        log = train_in_background()
        say(
            "writing an archive of Spark's classes in the background, once, while the machine is "
            f"idle; later starts are some seconds faster (log: {log})"
        )


@contextlib.contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Clean up on SIGTERM and SIGHUP as on Ctrl-C.

    A signal that is ignored, as under ``nohup``, stays ignored. A repeated signal is ignored.
    """
    handlers = {sign: signal.getsignal(sign) for sign in (signal.SIGTERM, signal.SIGHUP)}
    handled = [sign for sign, handler in handlers.items() if handler is not signal.SIG_IGN]

    def exit_once(_: int, __: object) -> None:
        for sign in handled:
            signal.signal(sign, signal.SIG_IGN)
        raise Terminated

    for sign in handled:
        signal.signal(sign, exit_once)
    try:
        yield
    finally:
        for sign in handled:
            signal.signal(sign, handlers[sign])


def _measure_modes(
    trial: Trial, app: str, every: str, brokers: str, scratch: Path
) -> dict[str, Figures]:
    """Measure the app in micro-batch, then in real time."""
    modes: dict[str, Figures] = {}
    with contextlib.closing(Progress()) as progress:
        for mode, interval in {"micro-batch": MICRO_BATCH_EVERY, "real-time": every}.items():
            progress.start(mode, trial.warmup, trial.seconds)
            say(
                f"{mode}: starting Spark, then {trial.rate:,.0f} records/s: a warm-up of at least "
                f"{trial.warmup:g} s, {trial.seconds:g} s measured"
            )
            start = _pipeline(app, mode, interval, brokers, scratch / mode)
            modes[mode] = trial.run(brokers, start, progress.second)
    real_time = modes["real-time"]
    real_time["epochs"] = _epochs(scratch / "real-time", real_time["from_us"], trial.seconds)
    return modes


def _demo_runs() -> list[RunStatus]:
    """Return the runs that this process started."""
    import psutil

    children = {child.pid for child in psutil.Process().children(recursive=True)}
    return [run for run in runs.running() if run.pid in children]


def measured_pipeline(app: Path) -> tuple[str, str]:
    """Return the name and the output topic of an app's first pipeline, which the demo measures.

    Raises:
        SettingsError: The pipeline does not write to a topic.
    """
    first: Pipeline = App(app).pipelines()[0]
    if not first.sink.capabilities.measurable_latency:
        raise SettingsError(
            "DEMO_SINK", f"the first pipeline of {app} must write to a topic to be measured."
        )
    return first.name, first.sink.topics[0]


def _pipeline(
    app: str, mode: str, every: str, brokers: str, scratch: Path
) -> Callable[[], ProcessUnderTest]:
    scratch.mkdir()
    command = run_app(
        *(app, "--mode", mode, "--every", every, "--brokers", brokers),
        *("--checkpoint", str(scratch / "checkpoint"), "--no-check"),
        environment=_temporary_files(scratch),
    )
    return starter(command, scratch, scratch / "spark.log")


def _temporary_files(scratch: Path) -> dict[str, str]:
    """Keep temporary files in the demo's folder, because a killed JVM does not remove them."""
    existing = os.environ.get("JAVA_TOOL_OPTIONS", "")
    options = f"{existing} -XX:-UsePerfData -Djava.io.tmpdir={scratch}".strip()
    return {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch), "JAVA_TOOL_OPTIONS": options}


def _epochs(scratch: Path, since_us: int, seconds: float) -> int:
    """Return how many epochs ended during the measurement."""
    ends = written_us(scratch, COMMITS)
    return sum(since_us <= at < since_us + seconds * 1_000_000 for at in ends)


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
    lines += ["", _conclusion(slow, fast)]
    lines.append(
        f"Not included: the start of Spark ({slow['start_s']:.0f} and {fast['start_s']:.0f} s) "
        f"and the warm-up under load ({slow['warmup_s']} and {fast['warmup_s']} s), while the JVM "
        f"compiles. {_commits(result['epochs'])}"
    )
    lines += _warnings(result["modes"])
    return "\n".join([*lines, ""])


def _commits(count: int) -> str:
    """Say whether the measurement in real time includes commits, which can add latency.

    >>> _commits(3)
    'The real-time figures include 3 commits.'
    """
    if count:
        return f"The real-time figures include {counted(count, 'commit')}."
    return (
        "No commit was due during the real-time measurement; a shorter --every, such as "
        "--every 5s, includes some."
    )


def _conclusion(slow: Figures, fast: Figures) -> str:
    """Summarise the result in one sentence.

    >>> _conclusion({"p50_ms": 460.3, "p99_ms": 711.7}, {"p50_ms": 3.2, "p99_ms": 25.6})
    'In real time the median latency is 3.2 ms instead of 460.3 ms (144 times lower), and p99 is \
25.6 ms instead of 711.7 ms (28 times lower).'
    """
    if not fast["p50_ms"] or not fast["p99_ms"] or slow["p50_ms"] < CLEARLY_FASTER * fast["p50_ms"]:
        return "Real time was not clearly faster in this run: the machine may be too busy."
    median, tail = slow["p50_ms"] / fast["p50_ms"], slow["p99_ms"] / fast["p99_ms"]
    lower = f" ({tail:,.0f} times lower)" if tail >= CLEARLY_FASTER else ""
    return (
        f"In real time the median latency is {fast['p50_ms']:,.1f} ms instead of "
        f"{slow['p50_ms']:,.1f} ms ({median:,.0f} times lower), and p99 is "
        f"{fast['p99_ms']:,.1f} ms instead of {slow['p99_ms']:,.1f} ms{lower}."
    )


def _warnings(modes: dict[str, Figures]) -> list[str]:
    warnings = []
    for mode, figures in modes.items():
        if figures["lost"]:
            of = f"{figures['lost']:,} of {figures['expected']:,}"
            warnings.append(f"{mode}: {of} results did not arrive.")
        if not figures["settled"]:
            warnings.append(
                f"{mode}: the latency was not steady yet when the measurement began; on a slow "
                "machine use a longer --warmup or a lower --rate."
            )
        if figures["late_p99_ms"] > LATE_MS:
            warnings.append(
                f"{mode}: the load generator itself was {figures['late_p99_ms']:.0f} ms late at "
                "p99; the machine is too busy for these figures to be meaningful."
            )
    return warnings
