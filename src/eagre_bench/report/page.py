"""The report of a run or a sweep: one self-contained HTML page."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from eagre_bench.errors import BenchError
from eagre_bench.publish import number
from eagre_bench.rates import HELD_BELOW_MS
from eagre_bench.report import plots
from eagre_bench.report.canvas import COLOURS
from eagre_bench.report.sweep_texts import SWEEPS
from eagre_bench.report.tables import FIRST, NOTHING, RATE, columns, row, table

if TYPE_CHECKING:
    from jinja2 import Template

    from eagre_bench.report.tables import Cells, Column
    from eagre_bench.results import Document, Figures

TEMPLATE = "report.html.j2"
SAME = "no difference"
COMPARED = {
    "p50_ms": "p50",
    "p95_ms": "p95",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "max_ms": "max",
    "cpu_s_per_million": "CPU",
}
"""The figures that ratios and the control are reported for."""


def write_report(document: Document, path: Path) -> None:
    """Write a run or a sweep as one HTML page.

    Raises:
        BenchError: Jinja2 or matplotlib is missing.
    """
    template = _template()
    context = _sweep(document) if document["kind"] == "sweep" else _run(document)
    page = template.render(document=document, facts=_facts(document), colours=COLOURS, **context)
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


def _run(document: Document) -> Cells:
    return {
        "title": "Latency of streaming systems",
        "sections": [_section(document, name) for name in document["results"]],
        "systems": document["systems"],
        "compared": list(COMPARED.values()),
        "link_names": plots.LINKS,
        "held_below_ms": HELD_BELOW_MS,
    }


def _section(document: Document, name: str) -> Cells:
    """Return the section of a workload."""
    results, ratios = document["results"][name], document["ratios"][name]
    chosen, recovery = document["workloads"][name], document["options"].get("recovery")
    shown = columns(results, recovery=recovery)
    valid = {system: figures for system, figures in results.items() if figures.get("valid")}
    titles = {system: about["title"] for system, about in document["systems"].items()}
    return {
        "workload": chosen,
        "table": table(shown, [row(s, f, shown, s, titles[s]) for s, f in results.items()]),
        "rated": RATE in shown,
        "control": _control(document["control"][name], results),
        "ratios": _ratios(ratios),
        "links": {system: _links(f["links"]) for system, f in valid.items() if f["links"]},
        **_plots(valid, ratios, chosen["seconds"] / 2 if recovery else None),
    }


def _control(control: Figures, results: dict[str, Figures]) -> str:
    """Describe how much a system differs from itself."""
    noise = control.get("noise")
    if not noise:
        return (
            "No system was measured twice, so the noise of this run is unknown: small differences "
            "mean nothing."
        )
    trials = [*results[control["system"]].get("trials", []), *control["trials"]]
    times = sum("failed" not in trial for trial in trials)
    factors = ", ".join(
        f"{head} {plots.factor(noise[m])}" for m, head in COMPARED.items() if noise.get(m)
    )
    return (
        f"{control['system']} measured {times} times differs from itself by a factor of up to "
        f"{factors}: smaller differences are no differences."
    )


def _ratios(ratios: dict[str, dict[str, Figures]]) -> Cells:
    """Return the ratios of each system as text, by the system it is compared with."""
    return {
        against: {
            name: [_times(metric, compared[against][metric]) for metric in COMPARED]
            for name, compared in ratios.items()
            if against in compared
        }
        for against in _compared(ratios)
    }


def _compared(ratios: dict[str, dict[str, Figures]]) -> list[str]:
    return list(dict.fromkeys(against for compared in ratios.values() for against in compared))


def _times(metric: str, compared: Figures) -> Cells:
    """Format a ratio.

    >>> _times("p50_ms", {"ratio": 0.25, "differs": True})["text"]
    '4.0x slower'
    """
    ratio = compared["ratio"]
    if not ratio or not compared["differs"]:
        return {"text": SAME if ratio else NOTHING, "same": True}
    words = ("less", "more") if metric == "cpu_s_per_million" else ("faster", "slower")
    return {"text": f"{plots.factor(ratio)} {words[ratio < 1]}", "same": False}


def _links(links: dict[str, float]) -> list[str]:
    return [number(links[link]) for link in plots.LINKS] + [number(sum(links.values()))]


def _plots(
    valid: dict[str, Figures], ratios: dict[str, dict[str, Figures]], kill: float | None
) -> Cells:
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
    """Mark a plot as safe markup: its texts are escaped already."""
    from markupsafe import Markup

    return Markup(svg)  # noqa: S704


def _sweep(document: Document) -> Cells:
    kind = document["sweep"]
    shown = [*FIRST.get(kind, ()), *columns({}, recovery=kind == "epoch")]
    words, drawn = SWEEPS[kind]
    measured = [*document["points"], *([document["baseline"]] if document["baseline"] else [])]
    rows = [_point(kind, point, shown) for point in measured]
    return {
        "systems": document.get("systems", {}),
        "title": document["title"],
        "table": table(shown, rows),
        "words": words(document),
        "drawn": [_safe(svg) for svg in drawn(document)],
    }


def _point(kind: str, point: Figures, columns: list[Column]) -> Cells:
    system = point["system"]
    name, under = point["label"], system
    if kind == "boundary":
        name, under = system, f"{point['workload']}, epochs of {point['label']}"
    elif kind == "operators":
        under = point.get("workload", system)
    return row(name, point, columns, system, under)
