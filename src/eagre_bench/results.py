"""From trials to the document of a run: medians, spread, the A/A control, ratios.

``docs/explanation/bench.md`` describes the document, ``schema.json`` is its schema.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre import __version__
from eagre_bench.campaign import control_of
from eagre_bench.errors import BenchError

if TYPE_CHECKING:
    from eagre_bench.campaign import Options, ScheduledTrial
    from eagre_bench.systems import Job, System
    from eagre_bench.workload import Workload

Figures = dict[str, Any]
Document = dict[str, Any]

SCHEMA = 1
LATENCIES = ("p50_ms", "p95_ms", "p99_ms", "p999_ms", "p9999_ms", "max_ms")
MEDIANS = (
    *LATENCIES,
    "mean_ms",
    "cpu_s_per_million",
    "rss_mb",
    "start_s",
    "late_p99_ms",
    "recovery_ms",
)
SUMS = ("lost", "repeated", "wrong", "negative")
RATIOS = ("p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms", "cpu_s_per_million")
FOUND = ("max_rate", "rates", "generator_bound")
AGAINST = ("spark-micro-batch", "flink", "floor")
"""The systems that every other system is compared with."""


def document(
    options: Options,
    workloads: list[Workload],
    systems: list[System],
    trials: list[tuple[ScheduledTrial, Figures]],
    missing: dict[str, str],
) -> Document:
    """Build the document of a run."""
    results = {
        chosen.name: {system.name: _result(chosen, system, trials, missing) for system in systems}
        for chosen in workloads
    }
    control = {chosen.name: _control(chosen.name, systems, trials) for chosen in workloads}
    return {
        "schema": SCHEMA,
        "kind": "run",
        "eagre": __version__,
        **about_here(),
        "options": vars(options),
        **described(workloads, systems),
        "results": results,
        "control": control,
        "ratios": {name: ratios(results[name], control[name]) for name in results},
    }


def summary(trials: list[Figures]) -> Figures:
    """Return the medians of the valid trials, and the problems of the others."""
    sound = [figures for figures in trials if not figures["problems"]]
    measured = [figures for figures in trials if "failed" not in figures]
    used = sound or measured
    problems = list(dict.fromkeys(p for figures in trials for p in figures["problems"]))
    extras = {name: trials[-1][name] for name in FOUND if trials and name in trials[-1]}
    gaps = [gap for figures in used for gap in figures["gaps_ms"]]
    if not used:
        return {**extras, "valid": False, "problems": problems, "trials": trials}
    return {
        **extras,
        **{name: _median(_all(used, name)) for name in MEDIANS},
        "gap_ms": _median(gaps),
        "boundaries": len(gaps),
        "records": sum(figures["records"] for figures in used),
        **{name: sum(figures[name] for figures in measured) for name in SUMS},
        "spread": {
            **{name: _spread(_all(used, name)) for name in RATIOS},
            **({"gap_ms": _spread(gaps)} if gaps else {}),
        },
        "curve": [round(statistics.median(c), 3) for c in zip(*_all(used, "curve"), strict=True)],
        "links": links(used),
        "valid": bool(sound) and not any(_broken(figures) for figures in measured),
        "problems": problems,
        "trials": trials,
    }


def reason(figures: Figures) -> str:
    """Return why a result is invalid: an unsupported workload, or problems of its trials."""
    return figures.get("refused") or "; ".join(figures["problems"])


def links(trials: list[Figures]) -> dict[str, float]:
    """Return the latency of a typical event by part, in milliseconds.

    The append of the result cannot be measured from outside; it is estimated as the
    append of the event to the source, and the engine is the rest.
    """
    measured = [figures for figures in trials if figures.get("links")]
    if not measured:
        return {}
    late = statistics.median(figures["late_p50_ms"] for figures in measured)
    into, through, out = (
        statistics.median(figures["links"][name] for figures in measured)
        for name in ("topic", "engine", "reader")
    )
    hop = max(0.0, min(into - late, through))
    spans = {"producer": late, "topic": hop, "engine": through - hop, "sink": hop, "reader": out}
    return {name: round(ms, 3) for name, ms in spans.items()}


def ratios(results: dict[str, Figures], control: Figures) -> dict[str, dict[str, Figures]]:
    """Return the ratios of each system to those it is compared with.

    A ratio above one means that ``against`` is slower. ``differs`` is false if the difference
    is within the difference of two runs of the control. Without a control there are no
    ratios.
    """
    if not control.get("noise"):
        return {}
    sound = {name: f for name, f in results.items() if f.get("valid")}
    return {
        name: {
            against: {m: ratio(sound[against], figures, m, control) for m in RATIOS}
            for against in AGAINST
            if against in sound and against != name
        }
        for name, figures in sound.items()
    }


def ratio(against: Figures, figures: Figures, metric: str, control: Figures) -> Figures:
    """Return the ratio of a figure of two systems."""
    value = against[metric] / figures[metric] if figures[metric] else 0.0
    noise = control["noise"][metric]
    apart = bool(value) and max(value, 1 / value) > noise
    return {"ratio": float(f"{value:.4g}"), "differs": apart}


def load_document(path: Path) -> Document:
    """Read a run from its file or its folder.

    Raises:
        BenchError: It does not exist or has another schema.
    """
    file = path / "bench.json" if path.is_dir() else path
    try:
        document = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise BenchError(
            "REPORT_UNREADABLE",
            f"{file} cannot be read as a run of the benchmark: {error}",
            hint="name the bench.json of a run, or the folder given with --out.",
        ) from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BenchError("REPORT_SCHEMA", f"{file} is not a run of this benchmark's schema.")
    return document


def about_here() -> dict[str, Any]:
    """Return date, machine and commit."""
    import psutil

    from eagre.jvm import find_java

    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": _commit(),
        "machine": {
            "cpu": _cpu(),
            "cores": psutil.cpu_count() or 0,
            "memory_gb": round(psutil.virtual_memory().total / (1 << 30)),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "java": find_java().version,
        },
    }


def described(workloads: list[Workload], systems: list[System]) -> dict[str, Any]:
    """Return the workloads and all settings of the systems; jars without their folders."""
    typical = _typical(workloads[0])
    return {
        "workloads": {chosen.name: vars(chosen) for chosen in workloads},
        "systems": {
            system.name: {
                "title": system.title,
                "settings": {k: _names_only(v) for k, v in system.settings(typical).items()},
            }
            for system in systems
        },
    }


def _typical(first: Workload) -> Job:
    from eagre.config import interval_ms
    from eagre_bench.systems import Job

    epoch, trigger = interval_ms(first.epoch), interval_ms(first.trigger)
    return Job(first.name, "…", "events", "results", "group", epoch, trigger, "…", "…")


def _names_only(value: str) -> str:
    if ".jar" not in value:
        return value
    return ", ".join(Path(part).name for part in value.replace(";", ",").split(","))


def _result(
    chosen: Workload,
    system: System,
    trials: list[tuple[ScheduledTrial, Figures]],
    missing: dict[str, str],
) -> Figures:
    refusal = system.refusal(chosen.name) or missing.get(system.name)
    if refusal:
        return {"valid": False, "refused": refusal}
    return summary(_of(trials, chosen.name, system.name))


def _of(
    trials: list[tuple[ScheduledTrial, Figures]],
    workload: str,
    system: str,
    *,
    control: bool = False,
) -> list[Figures]:
    return [
        {"round": turn.round, **figures}
        for turn, figures in trials
        if turn.workload.name == workload
        and turn.system.name == system
        and (control or not turn.control)
    ]


def _control(
    workload: str, systems: list[System], trials: list[tuple[ScheduledTrial, Figures]]
) -> Figures:
    """Return the largest ratio between two trials of the same system."""
    able = [system for system in systems if not system.refusal(workload)]
    if not able:
        return {}
    name = control_of(able).name
    controls = _of(trials, workload, name, control=True)
    sound = [figures for figures in controls if not figures["problems"]]
    measured = sound if len(sound) > 1 else [f for f in controls if "failed" not in f]
    extra = [f for turn, f in trials if turn.workload.name == workload and turn.control]
    noise = {m: _noise([f[m] for f in measured]) for m in RATIOS} if len(measured) > 1 else {}
    return {"system": name, "noise": noise, "trials": extra}


def _noise(values: list[float]) -> float:
    return round(max(values) / min(values), 3) if min(values) > 0 else 0.0


def _broken(figures: Figures) -> bool:
    """Return whether a trial had wrong results."""
    return any(figures[name] for name in ("lost", "wrong", "negative"))


def _all(trials: list[Figures], name: str) -> list[Any]:
    return [figures[name] for figures in trials if figures.get(name) is not None]


def _median(values: list[float]) -> float | None:
    return round(statistics.median(values), 3) if values else None


def _spread(values: list[float]) -> list[float]:
    return [round(min(values), 3), round(max(values), 3)]


def _commit() -> str:
    done = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()
