"""What the page shows, for Prometheus; and the two questions of a probe."""

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
    "eagre_pipeline_restarts_total": ("counter", "How often it was started again."),
    "eagre_pipeline_commits_total": ("counter", "Epochs or batches committed."),
    "eagre_latency_seconds": ("histogram", "From the source's timestamp to a reader."),
    "eagre_latency_unmeasured_total": ("counter", "Results that do not say their origin."),
    "eagre_latency_negative_total": ("counter", "Results that came before their source, by clock."),
    "eagre_latency_skipped_total": ("counter", "Results that the sampling tap passed over."),
    "eagre_source_records_total": ("counter", "Records that tasks took."),
    "eagre_source_wait_seconds_total": ("counter", "How long they had waited in their topic."),
    "eagre_source_lag_records": ("gauge", "Records not yet fetched."),
    "eagre_sink_records_total": ("counter", "Where the output ends, over all partitions."),
    "eagre_gc_pauses_total": ("counter", "Collections that stopped the JVM."),
    "eagre_gc_pause_seconds_total": ("counter", "How long they did."),
    "eagre_heap_used_bytes": ("gauge", "The JVM's heap in use."),
    "eagre_epoch_duration_seconds": ("gauge", "The last epoch or batch, by phase."),
    "eagre_state_keys": ("gauge", "Keys in the state, at the last commit."),
    "eagre_state_memory_bytes": ("gauge", "Memory that the state stores use."),
    "eagre_state_disk_bytes": ("gauge", "Their files."),
    "eagre_topic_records": ("gauge", "Records that a topic holds; dead letters by their topic."),
    "eagre_slo_target_seconds": ("gauge", "The time of the SLO."),
    "eagre_slo_objective_ratio": ("gauge", "The share of records that must be within it."),
    "eagre_slo_records_total": ("counter", "Records measured against the SLO."),
    "eagre_slo_slow_records_total": ("counter", "Those that took longer."),
    "eagre_slo_burn_rate": ("gauge", "How fast the error budget goes; above 1 it is not kept."),
}

Sample = tuple[str, dict[str, str], float]


def exposition(recorder: Recorder) -> str:
    """Write the metrics as Prometheus reads them."""
    samples: dict[str, list[Sample]] = {name: [] for name in FAMILIES}
    samples["eagre_build_info"].append(("", {"version": __version__}, 1))
    for view in list(recorder.views.values()):
        for name, suffix, labels, value in _of(view):
            samples[name].append((suffix, labels, value))
    for topic in recorder.clusters.told():
        kind = "dead_letters" if topic["letters"] else "data"
        named = {"topic": topic["topic"], "kind": kind}
        samples["eagre_topic_records"].append(("", named, topic["records"]))
    lines = []
    for name, (kind, text) in FAMILIES.items():
        if samples[name]:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [_line(name, *sample) for sample in samples[name]]
    return "\n".join(lines) + "\n"


def _line(name: str, suffix: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return (
        f"{name}{suffix}{{{inside}}} {value:g}"
        if isinstance(value, float)
        else (f"{name}{suffix}{{{inside}}} {value}")
    )


def _escaped(text: str) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _of(view: View) -> Iterable[tuple[str, str, dict[str, str], float]]:
    status = view.status
    own = {"pipeline": status.name, "mode": status.mode or "unknown", "pid": str(view.run.pid)}
    for phase in PHASES:
        yield "eagre_pipeline_phase", "", {**own, "phase": phase}, int(status.phase == phase)
    yield "eagre_pipeline_restarts_total", "", own, status.restarts
    yield "eagre_pipeline_commits_total", "", own, status.commits
    if status.written is not None:
        yield "eagre_sink_records_total", "", own, status.written
    yield from _latency(view, own)
    yield from _vitals(status.vitals, own)
    yield from _epoch(status.epochs[-1] if status.epochs else None, own)
    yield from _slo(view.burn(), own)


def _latency(view: View, own: dict[str, str]) -> Iterable[tuple[str, str, dict[str, str], float]]:
    count = 0
    buckets = list(view.meter.buckets)
    for bound, records in zip((*BUCKETS_MS, None), buckets, strict=True):
        count += records
        le = "+Inf" if bound is None else f"{bound / 1000:g}"
        yield "eagre_latency_seconds", "_bucket", {**own, "le": le}, count
    yield "eagre_latency_seconds", "_sum", own, round(view.meter.sum_ms / 1000, 6)
    yield "eagre_latency_seconds", "_count", own, count
    total = view.meter.total()
    yield "eagre_latency_unmeasured_total", "", own, total["unmeasured"]
    yield "eagre_latency_negative_total", "", own, total.get("negative", 0)
    yield "eagre_latency_skipped_total", "", own, total["skipped"]


def _vitals(
    vitals: dict[str, Any], own: dict[str, str]
) -> Iterable[tuple[str, str, dict[str, str], float]]:
    if not vitals:
        return
    for at, lag in vitals["lag"].items():
        yield "eagre_source_lag_records", "", {**own, **_partition(at)}, lag
    for at, (records, waited, _) in vitals["waits"].items():
        labels = {**own, **_partition(at)}
        yield "eagre_source_records_total", "", labels, records
        yield "eagre_source_wait_seconds_total", "", labels, waited / 1000
    yield "eagre_gc_pauses_total", "", own, vitals["pauses"]
    yield "eagre_gc_pause_seconds_total", "", own, vitals["paused_ms"] / 1000
    yield "eagre_heap_used_bytes", "", own, vitals["heap_mb"] << 20


def _partition(at: str) -> dict[str, str]:
    topic, partition = parse_partition(at)
    return {"topic": topic, "partition": str(partition)}


def _epoch(
    epoch: dict[str, Any] | None, own: dict[str, str]
) -> Iterable[tuple[str, str, dict[str, str], float]]:
    if epoch is None:
        return
    for phase, ms in epoch["phases"].items():
        yield "eagre_epoch_duration_seconds", "", {**own, "phase": phase}, ms / 1000
    state = epoch["state"]
    if state["operators"]:
        yield "eagre_state_keys", "", own, state["keys"]
        yield "eagre_state_memory_bytes", "", own, state["memory_bytes"]
        yield "eagre_state_disk_bytes", "", own, state["disk_bytes"]


def _slo(
    burn: dict[str, Any] | None, own: dict[str, str]
) -> Iterable[tuple[str, str, dict[str, str], float]]:
    if burn is None:
        return
    yield "eagre_slo_target_seconds", "", own, burn["within_ms"] / 1000
    yield "eagre_slo_objective_ratio", "", own, burn["percentile"] / 100
    yield "eagre_slo_records_total", "", own, burn["records"]
    yield "eagre_slo_slow_records_total", "", own, burn["slow"]
    for window, rate in {**burn["windows"], "all": burn["burn"]}.items():
        yield "eagre_slo_burn_rate", "", {**own, "window": window}, float(rate)


def healthy(recorder: Recorder) -> tuple[bool, list[str]]:
    """Tell whether a new start of the process could help: a pipeline was given up, or we stand."""
    reasons = [
        f"{view.status.name}: failed: {view.status.failure}"
        for view in list(recorder.views.values())
        if view.status.phase == "failed"
    ]
    if not recorder.well():
        reasons.append("the page itself stands still")
    return not reasons, reasons


def ready(recorder: Recorder) -> tuple[bool, list[str]]:
    """Tell whether every pipeline runs; else which do not, and why."""
    views = list(recorder.views.values())
    reasons = [
        f"{view.status.name}: {view.status.phase}"
        + (f": {view.status.reason}" if view.status.reason else "")
        for view in views
        if view.status.phase != "running"
    ]
    if not views:
        reasons.append("no pipeline is running")
    return not reasons, reasons
