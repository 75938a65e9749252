"""``eagre bench``: every system, one run, one report."""

from __future__ import annotations

import contextlib
import functools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagre.cli.commands import Group
from eagre.cli.console import json_option, result, say, table, write_json
from eagre.config import interval_ms, project_dir
from eagre_bench.campaign import Campaign, Options, Testbed, prepare, require_any
from eagre_bench.compare import compare
from eagre_bench.errors import BenchError
from eagre_bench.progress import RunProgress
from eagre_bench.publish import number, publish
from eagre_bench.rates import find_rate
from eagre_bench.results import document, load_document, reason
from eagre_bench.sweep import TITLES, Sweep
from eagre_bench.systems import SYSTEMS, system
from eagre_bench.workload import names, workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre_bench.systems import System

DEFAULT_SYSTEMS = "floor,eagre,spark-micro-batch,flink,quix"
FIND_RATE_WARMUP, FIND_RATE_SECONDS = 45.0, 15.0
PUBLISHED = ("README.md", "docs/explanation/bench.md", "docs/reference/python.md")

Document = dict[str, Any]


@click.group(cls=Group)
def bench() -> None:
    """Measure systems side by side: one load, one machine, one report."""


def load_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that a run and a sweep have in common."""
    options = (
        click.option("--rate", type=float, help="Records per second. [default: the workload's]"),
        click.option(
            "--warmup", type=float, help="Seconds before the measurement. [default: the workload's]"
        ),
        click.option("--seconds", type=float, help="Seconds measured. [default: the workload's]"),
        click.option(
            "--slow-checkpoint",
            type=click.IntRange(0, 60_000),
            default=0,
            metavar="MS",
            help="Delay each access to the checkpoint store by this long.",
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Where the report goes. [default: .eagre/bench/TIME]",
        ),
        json_option,
    )
    return functools.reduce(lambda inner, option: option(inner), reversed(options), command)


@bench.command(
    examples=(
        "eagre bench run field",
        "eagre bench run count --systems eagre,flink --rounds 3",
        "eagre bench run stateless --systems eagre --find-rate --json -",
    )
)
@click.argument("workloads", nargs=-1, required=True, metavar="WORKLOAD...")
@click.option(
    "--systems",
    default=DEFAULT_SYSTEMS,
    show_default=True,
    metavar="S,...",
    help="The systems, or `all`; see `eagre bench list`.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=2,
    show_default=True,
    metavar="N",
    help="How often each system is measured; medians are reported.",
)
@click.option(
    "--epoch",
    metavar="INTERVAL",
    help="Each system's checkpoint interval. [default: the workload's]",
)
@click.option(
    "--trigger", metavar="INTERVAL", help="The micro-batch trigger. [default: the workload's]"
)
@click.option("--recovery", is_flag=True, help="Kill each system during the run and restart it.")
@click.option(
    "--find-rate", "finding", is_flag=True, help="Find the highest rate with p99 below 100 ms."
)
@load_options
def run(
    workloads: tuple[str, ...],
    systems: str,
    rounds: int,
    epoch: str | None,
    trigger: str | None,
    recovery: bool,
    finding: bool,
    rate: float | None,
    warmup: float | None,
    seconds: float | None,
    slow_checkpoint: int,
    out: Path | None,
    target: str | None,
) -> None:
    """Measure WORKLOADs on every system in turn, and write one report.

    Each system runs in its own processes, under the same open-loop load and on a new broker; its
    output is compared with the expected output. One system is measured at least twice (the A/A
    control): differences within the spread of its own runs are reported as no difference.

    With --find-rate the rate is doubled until the system cannot keep up, and the step is then
    halved twice; a rate counts as too high when a second trial fails, too. Each trial restarts the
    system and warms up for 45 s unless --warmup is given; --rounds is ignored.
    """
    if finding:
        warmup, seconds = warmup or FIND_RATE_WARMUP, seconds or FIND_RATE_SECONDS
        rounds = 1
    options = Options(rounds, rate, warmup, seconds, epoch, trigger, recovery, slow_checkpoint)
    _require_positive(rate=rate, seconds=seconds)
    chosen = [options.applied(name) for name in dict.fromkeys(workloads)]
    for one in chosen:
        interval_ms(one.epoch)
        interval_ms(one.trigger)
    drivers = _drivers(systems)
    require_any(chosen, drivers)
    folder = _folder(out)
    progress = RunProgress()
    missing = prepare(drivers, progress)
    able = [driver for driver in drivers if driver.name not in missing]
    campaign = Campaign(chosen, able, rounds, progress)
    with contextlib.closing(progress), Testbed(folder, options, progress) as place:
        measure = place.measure
        if finding:
            trials = campaign.run(
                lambda w, s: find_rate(w, lambda at: measure(at, s)), control=False
            )
        else:
            trials = campaign.run(measure)
    measured = document(options, chosen, drivers, trials, missing)
    click.echo(_tables(measured), err=target == "-")
    _write(measured, folder, target)


@bench.command(examples=("eagre bench sweep epoch", "eagre bench sweep operators --rounds 2"))
@click.argument("kind", type=click.Choice(list(TITLES)))
@click.option(
    "--workload",
    "name",
    help="Which workload. [default: field; boundary: stateless, count; operators have their own]",
)
@click.option(
    "--points",
    metavar="POINT,...",
    help="The intervals or operators to measure. [default: a usual set]",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="How often each point is measured.",
)
@load_options
def sweep(
    kind: str,
    name: str | None,
    points: str | None,
    rounds: int,
    rate: float | None,
    warmup: float | None,
    seconds: float | None,
    slow_checkpoint: int,
    out: Path | None,
    target: str | None,
) -> None:
    """Measure one setting over its range, or operators or systems one after the other.

    trigger: micro-batches from 2 s down to 0, with real time as the line below.

    epoch: real time with epochs from 5 s to 5 min: the latency tail of epoch boundaries, and the
    time and the repeated rows that a kill costs.

    operators: each operator on its own workload, against eagre on count in the same run. The
    warm-up takes 90 s unless --warmup is given.

    boundary: eagre and flink with epochs of 10 s: how long a row waits at an epoch boundary. The
    warm-up takes at least 30 s, the measurement at least 21 epochs.
    """
    _require_positive(rate=rate, seconds=seconds)
    options = Options(rounds, rate, warmup, seconds, slow_checkpoint_ms=slow_checkpoint)
    if kind == "operators" and name:
        raise click.UsageError("each operator has its own workload.")
    plan = Sweep(kind, options, name, points.split(",") if points else [])
    folder = _folder(out)
    progress = RunProgress()
    with contextlib.closing(progress):
        measured = plan.run(folder, progress)
    tables = {"operators": _operators_table, "boundary": _boundary_table}
    click.echo(tables.get(kind, _sweep_table)(measured), err=target == "-")
    _write(measured, folder, target)


@bench.command("list", examples=("eagre bench list", "eagre bench list --json -"))
@json_option
def list_(target: str | None) -> None:
    """List workloads and systems, and which system runs which workload."""
    refusals = {name: {s.name: s.refusal(name) for s in SYSTEMS.values()} for name in names()}
    lines = []
    for name in names():
        one = workload(name)
        statement = one.statement.strip().replace("\n", "\n  ")
        lines.append(f"{name}: {one.title}\n  {statement}")
    rows = [[n, *("no" if refusals[n][s] else "yes" for s in SYSTEMS)] for n in names()]
    result(target, refusals, "\n".join([*lines, "", table(["workload", *SYSTEMS], rows)]))


@bench.command("compare", examples=("eagre bench compare before/bench.json after/bench.json",))
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="B", type=click.Path(path_type=Path))
@json_option
def compare_(before: Path, after: Path, target: str | None) -> None:
    """Compare run B with run A, beyond the spread of their A/A controls."""
    differences = compare(load_document(before), load_document(after))
    if target:
        write_json(target, differences)
    rows = [
        [f"{w}: {s}", m, number(f["before"]), number(f["after"]), f"{f['ratio']:.2f}", f["verdict"]]
        for w, systems in differences.items()
        for s, figures in systems.items()
        for m, f in figures.items()
    ]
    if not rows:
        raise BenchError("NOTHING_IN_COMMON", "the two runs share no valid result.")
    click.echo(table(["", "figure", "A", "B", "B ÷ A", ""], rows), err=target == "-")


@bench.command("publish", examples=("eagre bench publish", "eagre bench publish results/"))
@click.argument("source", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
def publish_(source: Path | None) -> None:
    """Write the tables of a run into README.md and the docs, between their markers.

    RUN is a bench.json or its folder. [default: the newest under .eagre/bench]
    """
    measured = load_document(source or _newest())
    for path in publish(measured, [Path(name) for name in PUBLISHED]):
        say(f"wrote {path}")


def _drivers(text: str) -> list[System]:
    wanted = list(SYSTEMS) if text == "all" else [s.strip() for s in text.split(",") if s.strip()]
    return list(dict.fromkeys(system(name) for name in wanted))


def _require_positive(**figures: float | None) -> None:
    for name, value in figures.items():
        if value is not None and value <= 0:
            raise click.UsageError(f"--{name} must be above zero.")


def _folder(out: Path | None) -> Path:
    folder = out or project_dir() / "bench" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    if any((folder / part).exists() for part in ("bench.json", "logs", "state")):
        raise BenchError(
            "OUT_TAKEN",
            f"{folder} already contains a run, or part of one that was stopped.",
            hint="choose another folder with --out.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def _newest() -> Path:
    runs = sorted((project_dir() / "bench").glob("*/bench.json"))
    if not runs:
        raise BenchError(
            "NO_RUN",
            "there is no run under .eagre/bench.",
            hint="start one: `eagre bench run field`.",
        )
    return runs[-1]


def _write(measured: Document, folder: Path, target: str | None) -> None:
    from eagre_bench.report import write_report

    (folder / "bench.json").write_text(json.dumps(measured, indent=1) + "\n")
    if target:
        write_json(target, measured)
    write_report(measured, folder / "report.html")
    say(f"the report is {folder / 'report.html'}")


def _tables(measured: Document) -> str:
    return "\n\n".join(_table(measured, name) for name in measured["results"]) + "\n"


def _table(measured: Document, name: str) -> str:
    columns = ["p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms", "cpu_s_per_million", "rss_mb"]
    headings = [name, "p50", "p95", "p99", "p99.9", "max", "CPU s/M", "MB", "lost", "vs batch p99"]
    rows = []
    notes = []
    for key, figures in measured["results"][name].items():
        if not figures["valid"]:
            notes.append(f"{key}: {reason(figures)}")
        if "p50_ms" not in figures:
            continue
        ratio = measured["ratios"][name].get(key, {}).get("spark-micro-batch", {}).get("p99_ms")
        times = (
            "" if not ratio else f"{ratio['ratio']:,.1f}x" if ratio["differs"] else "no difference"
        )
        note = "" if figures["valid"] else " (invalid)"
        rows.append(
            [key + note, *(number(figures[c]) for c in columns), f"{figures['lost']:,}", times]
        )
    return "\n".join(["", table(headings, rows), *notes])


def _sweep_table(measured: Document) -> str:
    headings = [measured["sweep"], "p50", "p99", "p99.9", "max", "recovery ms", "repeated"]
    points = [*measured["points"], *([measured["baseline"]] if measured["baseline"] else [])]
    rows = [
        [
            p["label"],
            *(number(p[c]) for c in ("p50_ms", "p99_ms", "p999_ms", "max_ms")),
            number(p.get("recovery_ms") or 0),
            f"{p.get('repeated') or 0:,}",
        ]
        for p in points
        if "p50_ms" in p
    ]
    return "\n" + table(headings, rows)


def _operators_table(measured: Document) -> str:
    columns = {
        "p50": "p50_ms",
        "p95": "p95_ms",
        "p99": "p99_ms",
        "p99.9": "p999_ms",
        "max": "max_ms",
        "p50 ÷ count": "p50_ratio",
        "p99 ÷ count": "p99_ratio",
    }
    points = [{**measured["baseline"], "workload": measured["workload"]}, *measured["points"]]
    return _compared_table(points, {"operator": "label", "workload": "workload"}, columns)


def _boundary_table(measured: Document) -> str:
    names = {"system": "system", "workload": "workload", "epoch": "label"}
    columns = {
        "p50": "p50_ms",
        "p99": "p99_ms",
        "p99.9": "p999_ms",
        "gap": "gap_ms",
        "boundaries": "boundaries",
        "p50 ÷ flink": "p50_ratio",
        "p99 ÷ flink": "p99_ratio",
        "gap ÷ flink": "gap_ratio",
    }
    return _compared_table(measured["points"], names, columns)


def _compared_table(points: list[Document], names: dict[str, str], columns: dict[str, str]) -> str:
    """Points by their names, with their figures; below, why some do not count."""
    rows, notes = [], []
    for point in points:
        first, *others = (point[name] for name in names.values())
        if not point["valid"]:
            notes.append(f"{', '.join([first, *others])}: {reason(point)}")
            first += " (invalid)"
        if "p50_ms" in point:
            rows.append([first, *others, *(_cell(point, name) for name in columns.values())])
    return "\n".join(["", table([*names, *columns], rows), *notes])


def _cell(point: Document, name: str) -> str:
    value = point.get(name)
    if value is None:
        return ""
    if name.endswith("_ratio"):
        return f"{value:.2f}x"
    return f"{value:,}" if name == "boundaries" else number(value)
