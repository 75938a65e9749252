"""The report of a run or a sweep: one page that needs nothing beside itself."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.bench import plots
from eagre.bench.canvas import COLOURS
from eagre.bench.publish import number
from eagre.bench.rates import HELD_BELOW_MS
from eagre.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jinja2 import Template

    from eagre.bench.results import Document, Figures

Told = dict[str, Any]

TEMPLATE = "report.html.j2"
SAME = "no difference"
NOTHING = "\N{EN DASH}"
COMPARED = {
    "p50_ms": "p50",
    "p95_ms": "p95",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "max_ms": "max",
    "cpu_s_per_million": "CPU",
}
"""What the ratios and the control are told of."""


@dataclass(frozen=True)
class Column:
    """A column of figures.

    Attributes:
        group: What stands over several columns.
        head: What stands over this one.
        name: Of the figure.
        write: How it is written.
        spread: Whether its range over the rounds, or the boundaries, stands below it.
        fault: Whether anything but zero is a fault.
    """

    group: str
    head: str
    name: str
    write: Callable[[float], str] = number
    spread: bool = False
    fault: bool = False


COUNT = "{:,.0f}".format
LATENCY = (
    Column("latency, ms", "p50", "p50_ms", spread=True),
    Column("latency, ms", "p95", "p95_ms"),
    Column("latency, ms", "p99", "p99_ms", spread=True),
    Column("latency, ms", "p99.9", "p999_ms"),
    Column("latency, ms", "p99.99", "p9999_ms"),
    Column("latency, ms", "max", "max_ms"),
)
RESULTS = (
    Column("results", "counted", "records", COUNT),
    Column("results", "lost", "lost", COUNT, fault=True),
    Column("results", "repeated", "repeated", COUNT, fault=True),
    Column("results", "wrong", "wrong", COUNT, fault=True),
    Column("results", "negative", "negative", COUNT, fault=True),
)
COSTS = (
    Column("cost", "CPU s/M", "cpu_s_per_million"),
    Column("cost", "MB", "rss_mb", COUNT),
    Column("cost", "start s", "start_s"),
)
REPLAYED = Column("results", "repeated", "repeated", COUNT)
RECOVERY = Column("kill", "recovery ms", "recovery_ms", COUNT)
RATE = Column("rate", "held / s", "max_rate", COUNT)
COMPARED_WITH_COUNT = {"p50_ratio": "its p50", "p99_ratio": "its p99"}
TIMES = "{:.2f}x".format
AGAINST_COUNT = (
    Column("times count's", "p50", "p50_ratio", TIMES),
    Column("times count's", "p99", "p99_ratio", TIMES),
)
AT_BOUNDARIES = (
    Column("boundaries", "gap, ms", "gap_ms", spread=True),
    Column("boundaries", "counted", "boundaries", COUNT),
    Column("times flink's", "p50", "p50_ratio", TIMES),
    Column("times flink's", "p99", "p99_ratio", TIMES),
    Column("times flink's", "gap", "gap_ratio", TIMES),
)
FIRST = {"operators": AGAINST_COUNT, "boundary": AT_BOUNDARIES}
"""What stands before a sweep's other columns."""
LATE = Column("load", "late p99 ms", "late_p99_ms")


def write_report(document: Document, path: Path) -> None:
    """Write a run or a sweep as one HTML page.

    Raises:
        BenchError: Jinja2 or matplotlib is missing.
    """
    template = _template()
    told = _sweep(document) if document["kind"] == "sweep" else _run(document)
    page = template.render(document=document, facts=_facts(document), colours=COLOURS, **told)
    path.write_text(page, encoding="utf-8")


def _template() -> Template:
    _require("jinja2", "matplotlib")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(TEMPLATE)


def _require(*modules: str) -> None:
    try:
        for module in modules:
            import_module(module)
    except ImportError as error:
        raise BenchError(
            "REPORT_NEEDS_BENCH_EXTRA",
            f"the report is made with Jinja2 and matplotlib, and {error.name} is missing.",
            hint="pip install 'eagre[bench]'",
        ) from None


def _facts(document: Document) -> dict[str, str]:
    machine = document["machine"]
    hardware = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB"
    software = f"{machine['system']}, Java {machine['java']}, Python {machine['python']}"
    stated = {name: value for name, value in document["options"].items() if value}
    return {
        "Date": document["date"],
        "Version": f"eagre {document['eagre']}, commit {document['commit']}",
        "Machine": f"{hardware}; {software}",
        "Options": ", ".join(_option(name, value) for name, value in stated.items()),
    }


def _option(name: str, value: object) -> str:
    words = name.replace("_", " ")
    if value is True:
        return words
    return f"{words} {value:g}" if isinstance(value, float) else f"{words} {value}"


def _run(document: Document) -> Told:
    return {
        "title": "Latency of streaming systems",
        "sections": [_section(document, name) for name in document["results"]],
        "systems": document["systems"],
        "compared": list(COMPARED.values()),
        "link_names": plots.LINKS,
        "held_below_ms": HELD_BELOW_MS,
    }


def _section(document: Document, name: str) -> Told:
    """Everything of one workload."""
    results, ratios = document["results"][name], document["ratios"][name]
    chosen, recovery = document["workloads"][name], document["options"].get("recovery")
    columns = _columns(results, recovery=recovery)
    valid = {system: figures for system, figures in results.items() if figures.get("valid")}
    titles = {system: about["title"] for system, about in document["systems"].items()}
    return {
        "workload": chosen,
        "table": _table(columns, [_row(s, f, columns, s, titles[s]) for s, f in results.items()]),
        "rated": RATE in columns,
        "control": _control(document["control"][name], results),
        "ratios": _ratios(ratios),
        "links": {system: _links(f["links"]) for system, f in valid.items() if f["links"]},
        **_plots(valid, ratios, chosen["seconds"] / 2 if recovery else None),
    }


def _columns(results: dict[str, Figures], *, recovery: bool) -> list[Column]:
    counts = [REPLAYED if recovery and c.name == "repeated" else c for c in RESULTS]
    rate = [RATE] if any("max_rate" in figures for figures in results.values()) else []
    return [*rate, *LATENCY, *counts, *COSTS, *([RECOVERY] if recovery else []), LATE]


def _table(columns: list[Column], rows: list[Told]) -> Told:
    groups = [(name, len(list(of))) for name, of in groupby(columns, lambda c: c.group)]
    begins = [sum(width for _, width in groups[:place]) for place in range(len(groups))]
    return {"groups": groups, "begins": begins, "columns": columns, "rows": rows}


def _row(name: str, figures: Figures, columns: list[Column], system: str, under: str) -> Told:
    measured = figures.get("p50_ms") is not None
    return {
        "name": name,
        "under": under,
        "system": system,
        "badge": _badge(figures, measured=measured),
        "note": _note(figures),
        "cells": [_cell(column, figures) for column in columns] if measured else [],
    }


def _badge(figures: Figures, *, measured: bool) -> str:
    if figures.get("valid"):
        return ""
    return "not run" if "refused" in figures else "invalid" if measured else "failed"


def _note(figures: Figures) -> str:
    """Why a system was not measured, or which of its rounds do not count."""
    if "refused" in figures:
        return str(figures["refused"])
    told = "; ".join(figures["problems"])
    if not told or not figures["valid"]:
        return told
    trials = figures["trials"]
    return f"{len(trials) - len(plots.sound(figures))} of {len(trials)} rounds do not count: {told}"


def _cell(column: Column, figures: Figures) -> Told:
    value = figures.get(column.name)
    if value is None:
        return {"text": NOTHING, "spread": "", "fault": False}
    least = "\N{GREATER-THAN OR EQUAL TO} " if _bound(column, figures) else ""
    spread = figures["spread"].get(column.name) if column.spread else None
    return {
        "text": least + column.write(value),
        "spread": NOTHING.join(column.write(end) for end in spread) if spread else "",
        "fault": column.fault and bool(value),
    }


def _bound(column: Column, figures: Figures) -> bool:
    """Whether the generator, not the system, was what set the highest rate."""
    return column is RATE and bool(figures.get("generator_bound"))


def _control(control: Figures, results: dict[str, Figures]) -> str:
    """How far a system differs from itself, in words."""
    noise = control.get("noise")
    if not noise:
        return (
            "No system was measured a second time, so that nothing is known of how far two "
            "measurements of one system lie apart: small differences mean nothing."
        )
    trials = [*results[control["system"]].get("trials", []), *control["trials"]]
    times = sum("failed" not in trial for trial in trials)
    factors = ", ".join(
        f"{head} {plots.factor(noise[m])}" for m, head in COMPARED.items() if noise.get(m)
    )
    return (
        f"{control['system']} measured {times} times differs by itself by a factor of up to "
        f"{factors}: smaller differences are no differences."
    )


def _ratios(ratios: dict[str, dict[str, Figures]]) -> Told:
    """Each system's ratios in words, by whom it is compared with."""
    return {
        against: {
            name: [_times(metric, told[against][metric]) for metric in COMPARED]
            for name, told in ratios.items()
            if against in told
        }
        for against in _compared(ratios)
    }


def _compared(ratios: dict[str, dict[str, Figures]]) -> list[str]:
    return list(dict.fromkeys(against for told in ratios.values() for against in told))


def _times(metric: str, told: Figures) -> Told:
    """Write a ratio.

    >>> _times("p50_ms", {"ratio": 0.25, "differs": True})["text"]
    '4.0x slower'
    """
    ratio = told["ratio"]
    if not ratio or not told["differs"]:
        return {"text": SAME if ratio else NOTHING, "same": True}
    words = ("less", "more") if metric == "cpu_s_per_million" else ("faster", "slower")
    return {"text": f"{plots.factor(ratio)} {words[ratio < 1]}", "same": False}


def _links(links: dict[str, float]) -> list[str]:
    return [number(links[link]) for link in plots.LINKS] + [number(sum(links.values()))]


def _plots(
    valid: dict[str, Figures], ratios: dict[str, dict[str, Figures]], kill: float | None
) -> Told:
    last = {name: plots.sound(figures)[-1] for name, figures in valid.items()}
    seen = {name: trial for name, trial in last.items() if trial.get("series")}
    linked = any(figures["links"] for figures in valid.values())
    return {
        "percentiles": _safe(plots.percentiles(valid)) if valid else "",
        "link_bars": _safe(plots.link_bars(valid)) if linked else "",
        "seconds": [_safe(plots.seconds(n, trial, seen, kill)) for n, trial in seen.items()],
        "ratio_bars": [_safe(plots.ratio_bars(ratios, against)) for against in _compared(ratios)],
    }


def _safe(svg: str) -> str:
    """Mark a plot as markup of our own, whose texts are escaped already."""
    from markupsafe import Markup

    return Markup(svg)  # noqa: S704


def _sweep(document: Document) -> Told:
    kind = document["sweep"]
    columns = [*FIRST.get(kind, ()), *_columns({}, recovery=kind == "epoch")]
    words, drawn = SWEEPS[kind]
    measured = [*document["points"], *([document["baseline"]] if document["baseline"] else [])]
    rows = [_point(kind, point, columns) for point in measured]
    return {
        "systems": document.get("systems", {}),
        "title": document["title"],
        "table": _table(columns, rows),
        "words": words(document),
        "drawn": [_safe(svg) for svg in drawn(document)],
    }


def _point(kind: str, point: Figures, columns: list[Column]) -> Told:
    system = point["system"]
    name, under = point["label"], system
    if kind == "boundary":
        name, under = system, f"{point['workload']}, epochs of {point['label']}"
    elif kind == "operators":
        under = point.get("workload", system)
    return _row(name, point, columns, system, under)


def _trigger_plots(document: Document) -> list[str]:
    return [plots.trigger_sweep(document["points"], document["baseline"])]


def _epoch_plots(document: Document) -> Iterable[str]:
    points = document["points"]
    yield plots.epoch_sweep(points, tuple(plots.SWEPT), "Latency")
    for name, title in (("recovery_ms", "Recovery after a kill"), ("repeated", "Rows replayed")):
        if any(point.get(name) is not None for point in points):
            yield plots.epoch_sweep(points, (name,), title)


def _trigger_words(document: Document) -> str:
    valid = [point for point in document["points"] if point["valid"]]
    baseline = document["baseline"]
    if not valid or not baseline or not baseline["valid"]:
        return ""
    best = min(valid, key=lambda point: point["p50_ms"])
    p50, p99 = (plots.factor(best[name] / baseline[name]) for name in ("p50_ms", "p99_ms"))
    return (
        f"The fastest micro-batches, with a trigger of {best['label']}, reach a p50 of "
        f"{number(best['p50_ms'])} ms and a p99 of {number(best['p99_ms'])} ms; "
        f"{baseline['label']} has {number(baseline['p50_ms'])} ms and "
        f"{number(baseline['p99_ms'])} ms: {p50} and {p99} less."
    )


def _epoch_words(document: Document) -> str:
    valid = sorted((p for p in document["points"] if p["valid"]), key=lambda p: p["value_ms"])
    if len(valid) < 2:  # noqa: PLR2004
        return ""
    short, long = valid[0], valid[-1]
    told = {"p50_ms": "ms at p50", "p99_ms": "ms at p99", "recovery_ms": "ms to recover"}
    parts = [
        f"{number(short[name])} against {number(long[name])} {words}"
        for name, words in {**told, "repeated": "rows replayed"}.items()
        if None not in (short.get(name), long.get(name))
    ]
    return f"Epochs of {short['label']} against epochs of {long['label']}: {', '.join(parts)}."


def _operator_words(document: Document) -> str:
    baseline = document["baseline"]
    compared = [point for point in document["points"] if "p50_ratio" in point]
    if not compared:
        return ""
    most = {name: max(compared, key=lambda point: point[name]) for name in COMPARED_WITH_COUNT}
    told = " and ".join(
        f"{most[name]['label']} with {most[name][name]:.2f} times {head}"
        for name, head in COMPARED_WITH_COUNT.items()
    )
    return (
        f"A plain count and sum has a p50 of {number(baseline['p50_ms'])} ms and a p99 of "
        f"{number(baseline['p99_ms'])} ms in this run. The slowest operators: {told}."
    )


def _boundary_words(document: Document) -> str:
    return " ".join(
        f"On {point['workload']} with epochs of {point['label']}, the median gap at "
        f"{point['boundaries']} boundaries is {number(point['gap_ms'])} ms: "
        f"{point['gap_ratio']:.2f} times Flink's in this run."
        for point in document["points"]
        if "gap_ratio" in point
    )


SWEEPS: dict[str, tuple[Callable[[Document], str], Callable[[Document], Iterable[str]]]] = {
    "trigger": (_trigger_words, _trigger_plots),
    "epoch": (_epoch_words, _epoch_plots),
    "operators": (_operator_words, lambda _: ()),
    "boundary": (_boundary_words, lambda _: ()),
}
"""What is said and drawn of each kind."""
