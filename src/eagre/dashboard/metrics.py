"""Prometheus metrics, and the health and readiness probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagre import __version__
from eagre.jvm.gateway import parse_partition
from eagre.latency.meter import BUCKETS_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eagre.dashboard.recorder import Recorder
    from eagre.dashboard.view import View

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PHASES = ("starting", "running", "stalled", "draining", "waiting", "ended", "failed")

FAMILIES = {
    "eagre_build_info": ("gauge", "The release, as a label."),
    "eagre_pipeline_phase": ("gauge", "1 for the phase that a pipeline is in."),
    "eagre_pipeline_restarts_total": ("counter", "How often the pipeline was restarted."),
    "eagre_pipeline_commits_total": ("counter", "Epochs or batches committed."),
    "eagre_commit_overdue_seconds": (
        "gauge",
        "How long the next commit has been overdue; 0 if it is not.",
    ),
    "eagre_latency_seconds": (
        "histogram",
        "From the source's timestamp to a consumer of the output.",
    ),
    "eagre_latency_unmeasured_total": ("counter", "Results without provenance."),
    "eagre_latency_negative_total": (
        "counter",
        "Results older than their source record, by clock.",
    ),
    "eagre_latency_skipped_total": ("counter", "Results that the sampler skipped."),
    "eagre_source_records_total": ("counter", "Records that tasks have read."),
    "eagre_source_wait_seconds_total": (
        "counter",
        "How long these records had waited in their topic.",
    ),
    "eagre_source_lag_records": ("gauge", "Lag: records not yet fetched."),
    "eagre_sink_records_total": ("counter", "The sum of the end offsets of the output."),
    "eagre_gc_pauses_total": ("counter", "GC pauses of the JVM; on a cluster of each executor."),
    "eagre_gc_pause_seconds_total": ("counter", "Total duration of GC pauses."),
    "eagre_heap_used_bytes": ("gauge", "Heap in use by the JVM; on a cluster by each executor."),
    "eagre_epoch_duration_seconds": ("gauge", "Duration of the last epoch or batch, by phase."),
    "eagre_state_keys": ("gauge", "Keys in the state, at the last commit."),
    "eagre_state_memory_bytes": ("gauge", "Memory in use by the state stores."),
    "eagre_state_disk_bytes": ("gauge", "Size of the state stores' files."),
    "eagre_topic_records": ("gauge", "Records in a topic, including dead-letter topics."),
    "eagre_slo_target_seconds": ("gauge", "The latency target of the SLO."),
    "eagre_slo_objective_ratio": ("gauge", "The share of records that must meet the target."),
    "eagre_slo_records_total": ("counter", "Records measured against the SLO."),
    "eagre_slo_slow_records_total": ("counter", "Records that missed the SLO's target."),
    "eagre_slo_burn_rate": ("gauge", "Burn rate of the error budget; above 1 the SLO is missed."),
}

Sample = tuple[str, dict[str, str], float]


def exposition(recorder: Recorder) -> str:
    """Format the metrics for Prometheus."""
    samples: dict[str, list[Sample]] = {name: [] for name in FAMILIES}
    samples["eagre_build_info"].append(("", {"version": __version__}, 1))
    for view in list(recorder.views.values()):
        for name, suffix, labels, value in _of(view):
            samples[name].append((suffix, labels, value))
    samples["eagre_topic_records"] = list(_topics(recorder))
    lines = []
    for name, (kind, text) in FAMILIES.items():
        if samples[name]:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [_line(name, *sample) for sample in samples[name]]
    return "\n".join(lines) + "\n"


def _topics(recorder: Recorder) -> Iterable[Sample]:
    """Yield the records of each topic, once if two clients look at the same cluster."""
    topics = {(topic["brokers"], topic["topic"]): topic for topic in recorder.clusters.describe()}
    for (brokers, name), topic in topics.items():
        kind = "dead_letters" if topic["dead_letters"] else "data"
        yield "", {"topic": name, "kind": kind, "brokers": brokers}, topic["records"]


def _line(name: str, suffix: str, labels: dict[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{suffix}{{{pairs}}} {value!r}"


def _escaped(text: str) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _of(view: View) -> Iterable[tuple[str, str, dict[str, str], float]]:
    status = view.status
    labels = {"pipeline": status.name, "mode": status.mode or "unknown", "pid": str(view.run.pid)}
    for phase in PHASES:
        yield "eagre_pipeline_phase", "", {**labels, "phase": phase}, int(status.phase == phase)
    yield "eagre_pipeline_restarts_total", "", labels, status.restarts
    yield "eagre_pipeline_commits_total", "", labels, status.commits
    yield "eagre_commit_overdue_seconds", "", labels, float(status.overdue_seconds)
    if status.written is not None:
        yield "eagre_sink_records_total", "", labels, status.written
    yield from _latency(view, labels)
    yield from _jvm(status.metrics, labels)
    yield from _epoch(status.epochs[-1] if status.epochs else None, labels)
    yield from _slo(view.burn(), labels)


def _latency(
    view: View, labels: dict[str, str]
) -> Iterable[tuple[str, str, dict[str, str], float]]:
    count = 0
    buckets = list(view.meter.buckets)
    for bound, records in zip((*BUCKETS_MS, None), buckets, strict=True):
        count += records
        le = "+Inf" if bound is None else f"{bound / 1000:g}"
        yield "eagre_latency_seconds", "_bucket", {**labels, "le": le}, count
    yield "eagre_latency_seconds", "_sum", labels, round(view.meter.sum_ms / 1000, 6)
    yield "eagre_latency_seconds", "_count", labels, count
    total = view.meter.total()
    yield "eagre_latency_unmeasured_total", "", labels, total["unmeasured"]
    yield "eagre_latency_negative_total", "", labels, total.get("negative", 0)
    yield "eagre_latency_skipped_total", "", labels, total["skipped"]


def _jvm(
    metrics: dict[str, Any], labels: dict[str, str]
) -> Iterable[tuple[str, str, dict[str, str], float]]:
    if not metrics:
        return
    for at, lag in metrics["lag"].items():
        yield "eagre_source_lag_records", "", {**labels, **_partition(at)}, lag
    for at, (records, waited, _) in metrics["waits"].items():
        partition = {**labels, **_partition(at)}
        yield "eagre_source_records_total", "", partition, records
        yield "eagre_source_wait_seconds_total", "", partition, waited / 1000
    executors = metrics.get("executors")
    for name, jvm in executors.items() if executors else [("", metrics)]:
        at = {**labels, "executor": name} if name else labels
        yield "eagre_gc_pauses_total", "", at, jvm["pauses"]
        yield "eagre_gc_pause_seconds_total", "", at, jvm["paused_ms"] / 1000
        yield "eagre_heap_used_bytes", "", at, jvm["heap_mb"] << 20


def _partition(at: str) -> dict[str, str]:
    topic, partition = parse_partition(at)
    return {"topic": topic, "partition": str(partition)}


def _epoch(
    epoch: dict[str, Any] | None, labels: dict[str, str]
) -> Iterable[tuple[str, str, dict[str, str], float]]:
    if epoch is None:
        return
    for phase, ms in epoch["phases"].items():
        yield "eagre_epoch_duration_seconds", "", {**labels, "phase": phase}, ms / 1000
    state = epoch["state"]
    if state["operators"]:
        yield "eagre_state_keys", "", labels, state["keys"]
        yield "eagre_state_memory_bytes", "", labels, state["memory_bytes"]
        yield "eagre_state_disk_bytes", "", labels, state["disk_bytes"]


def _slo(
    burn: dict[str, Any] | None, labels: dict[str, str]
) -> Iterable[tuple[str, str, dict[str, str], float]]:
    if burn is None:
        return
    yield "eagre_slo_target_seconds", "", labels, burn["within_ms"] / 1000
    yield "eagre_slo_objective_ratio", "", labels, burn["percentile"] / 100
    yield "eagre_slo_records_total", "", labels, burn["records"]
    yield "eagre_slo_slow_records_total", "", labels, burn["slow"]
    for window, rate in {**burn["windows"], "all": burn["burn"]}.items():
        yield "eagre_slo_burn_rate", "", {**labels, "window": window}, float(rate)


def healthy(recorder: Recorder, *, details: bool) -> tuple[bool, list[str]]:
    """Return whether no pipeline has failed and the dashboard is updating, and if not, why.

    Args:
        recorder: The pipelines.
        details: Whether to include texts of failures, which may contain data.
    """
    reasons = [
        f"{view.status.name}: failed" + (f": {view.status.failure}" if details else "")
        for view in list(recorder.views.values())
        if view.status.phase == "failed"
    ]
    if not recorder.healthy():
        reasons.append("the dashboard is not updating")
    return not reasons, reasons


def ready(recorder: Recorder, *, details: bool) -> tuple[bool, list[str]]:
    """Return whether every pipeline is running and commits in time, and if not, the reasons.

    Args:
        recorder: The pipelines.
        details: Whether to include texts, which may contain addresses.
    """
    views = list(recorder.views.values())
    reasons = [
        f"{view.status.name}: {view.status.phase}"
        + (f": {view.status.reason}" if view.status.reason and details else "")
        for view in views
        if view.status.phase != "running"
    ]
    reasons += [f"{v.status.name}: {v.status.overdue}" for v in views if v.status.overdue]
    if not views:
        reasons.append("no pipeline is running")
    return not reasons, reasons
