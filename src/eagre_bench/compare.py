"""Compares two runs of the benchmark, figure by figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagre_bench.results import Document

METRICS = ("p50_ms", "p95_ms", "p99_ms", "p999_ms", "cpu_s_per_million", "rss_mb")

Comparison = dict[str, dict[str, dict[str, Any]]]


def compare(before: Document, after: Document) -> Comparison:
    """Return each figure before and after, for the workloads and systems of both runs.

    ``verdict`` is *better* or *worse* only beyond what either run's A/A control shows between two
    measurements of one system; else *no difference*.
    """
    return {
        workload: {
            system: {m: _figure(before, after, workload, system, m) for m in METRICS}
            for system, figures in systems.items()
            if figures.get("valid") and _valid(after, workload, system)
        }
        for workload, systems in before["results"].items()
        if workload in after["results"]
    }


def _valid(document: Document, workload: str, system: str) -> bool:
    return bool(document["results"][workload].get(system, {}).get("valid"))


def _figure(
    before: Document, after: Document, workload: str, system: str, metric: str
) -> dict[str, Any]:
    old = before["results"][workload][system][metric]
    new = after["results"][workload][system][metric]
    noise = max(_noise(before, workload, metric), _noise(after, workload, metric))
    ratio = new / old if old else 0.0
    return {
        "before": old,
        "after": new,
        "ratio": round(ratio, 3),
        "verdict": _verdict(ratio, noise),
    }


def _noise(document: Document, workload: str, metric: str) -> float:
    noise = document["control"].get(workload, {}).get("noise", {})
    return float(noise.get(metric) or 1.0)


def _verdict(ratio: float, noise: float) -> str:
    """Judge a ratio of new to old.

    >>> _verdict(0.5, 1.3), _verdict(1.2, 1.3), _verdict(2.0, 1.3)
    ('better', 'no difference', 'worse')
    """
    if not ratio or max(ratio, 1 / ratio) <= noise:
        return "no difference"
    return "better" if ratio < 1 else "worse"
