"""One pipeline on the dashboard: its seconds and its totals."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from eagre.dashboard.causes import CauseContext, causes
from eagre.dashboard.result_sampler import MOST_PER_SECOND, ResultSampler
from eagre.errors import EagreError
from eagre.jvm.gateway import parse_partition
from eagre.latency import Meter
from eagre.latency.meter import RESOLUTION_MS
from eagre.slo import Slo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.dashboard.cluster import Clusters
    from eagre.runtime.runs import PipelineStatus, RunStatus

SECONDS = 900
"""How many seconds are retained: a quarter of an hour."""
BURN_WINDOWS = {"1m": 60, "5m": 300, "15m": 900}
OVER = ("ended", "failed")
STARVED_SECONDS = 10.0

Json = dict[str, Any]


class View:
    """Tracks a pipeline by its status and its output.

    Args:
        run: The run of the pipeline.
        status: The status of the pipeline.
    """

    def __init__(self, run: RunStatus, status: PipelineStatus) -> None:
        self.key = f"{run.pid}-{status.name}"
        self.run = run
        self.status = status
        self.seconds: deque[Json] = deque(maxlen=SECONDS)
        self.marks: deque[Json] = deque(maxlen=SECONDS)
        self.meter = Meter()
        self.slo: Slo | None = None
        self.first_seen = time.time()
        self._sampler: ResultSampler | None = None
        self._sampler_problem = ""
        self._uncounted = False
        self._last_metrics: Json = {}
        self._written: int | None = None
        self._at = 0.0
        self._last_waits: Json = {}
        self._unread: dict[str, float] = {}
        self._recorded_marks: set[tuple[str, float]] = set()

    @property
    def over(self) -> bool:
        """Whether the pipeline has ended."""
        return self.status.phase in OVER

    @property
    def settled(self) -> bool:
        """Whether the pipeline has ended and all of its results are counted."""
        return self.over and self._sampler is None and not self._uncounted

    def close(self) -> None:
        """Stop measuring."""
        if self._sampler:
            self._sampler.close()
            self._sampler = None
            self._uncounted = True

    def gone(self) -> None:
        """Handle the end of the run."""
        if not self.over:
            self.status.enter("ended")
        self.close()

    def follow(self, run: RunStatus, status: PipelineStatus, clusters: Clusters) -> None:
        """Update the view with the status of this second."""
        self.run, self.status = run, status
        if status.about and self.slo is None and status.about.get("slo"):
            self.slo = Slo.parse(status.about["slo"])
            self.meter = Meter(self.slo.within_ms)
        if status.about and not self._sampler and not self.over:
            self._start_sampler(clusters)
        self._update_unread(clusters)
        self._update_marks()

    def _start_sampler(self, clusters: Clusters) -> None:
        about = self.status.about
        sources = [entry["topic"] for entry in about["sources"]]
        source = clusters.of(about["clusters"]["source"])
        if source:
            source.watch([*sources, *about["dead_letters"]])
        if not about["sink"]["topics"]:
            return
        sink = clusters.of(about["clusters"]["sink"])
        if sink is None:
            return
        sink.watch(about["sink"]["topics"])
        topics = sink.partitions(about["sink"]["topics"])
        if not topics:
            return
        try:
            self._sampler = ResultSampler(sink.settings, topics, sources, self.meter)
        except EagreError as error:
            self._sampler_problem = str(error)

    def _update_marks(self) -> None:
        """Add chart marks for new epochs, starts and stalls.

        The status names each for a while, and never again: only what it names is remembered.
        """
        named = {(kind, at): text for kind, at, text in self._marks_of_status()}
        for (kind, at), text in named.items():
            if (kind, at) not in self._recorded_marks:
                self.marks.append({"t": round(at, 3), "kind": kind, "text": text})
        self._recorded_marks = set(named)

    def _marks_of_status(self) -> Iterator[tuple[str, float, str]]:
        """Yield the kind, time and text of each mark."""
        for epoch in self._boundaries() if self.status.mode == "real-time" else ():
            yield "epoch", epoch["ended"], f"epoch {epoch['batch']} ended"
        for number, began in enumerate(self.status.runs):
            yield "restart" if number else "start", began, "restarted" if number else "started"
        for began, ended, reason in self.status.stalls:
            yield "stalled", began, f"stalled: {reason}"
            if ended:
                yield "flows", ended, "running again"

    def _boundaries(self) -> list[Json]:
        """Return the epoch boundaries at which rows waited, without commits that do not pause."""
        return [
            epoch
            for epoch in self.status.epochs
            if "commit" not in epoch["phases"] or "pause" in epoch["phases"]
        ]

    def second(self, now: float) -> None:
        """Record a second from the meter and the status."""
        if self.over:
            self.close()
            if not self._uncounted:
                return
            self._uncounted = False
        second = {"t": round(now, 3), **self.meter.second(), **self._flow()}
        if "until_sent_ms" in second and second.get("wait_ms") is not None:
            second["pipeline_ms"] = round(max(0.0, second["until_sent_ms"] - second["wait_ms"]), 3)
        self.seconds.append(second)

    def _flow(self) -> Json:
        """Return rates, lag, pauses and waits since the last status; empty without a new status.

        A status arrives about once a second and carries its time.
        """
        status, at = self.status, float(self.status.metrics.get("at", 0))
        passed = at - self._at
        if passed <= 0:
            return {}
        figures: Json = {"lag": status.lag, "lags": status.metrics["lag"]}
        if status.written is not None and self._written is not None and self._at:
            figures["out"] = round(max(0, status.written - self._written) / passed, 1)
        figures |= self._pauses() | self._waited(passed)
        self._written, self._at, self._last_metrics = status.written, at, status.metrics
        return figures

    def _pauses(self) -> Json:
        now, before = self.status.metrics, self._last_metrics
        if not now or not before or now["pauses"] < before["pauses"]:
            return {}
        longest = now["longest_pause_ms"] if now["pauses"] > before["pauses"] else 0
        return {"pause_ms": longest, "heap_mb": now["heap_mb"]}

    def _waited(self, passed: float) -> Json:
        """Return how many records the tasks read, and how long those had waited."""
        waits, before = self.status.metrics.get("waits", {}), self._last_waits
        self._last_waits = waits
        if not waits or not before:
            return {}
        taken = {at: wait[0] - before.get(at, [0, 0])[0] for at, wait in waits.items()}
        if min(taken.values()) < 0:
            return {}
        records = sum(taken.values())
        figures: Json = {
            "in": round(records / passed, 1),
            "in_by": {at: round(n / passed, 1) for at, n in taken.items()},
        }
        if records:
            waited = sum(wait[1] - before.get(at, [0, 0])[1] for at, wait in waits.items())
            figures["wait_ms"] = round(waited / records, 3)
        return figures

    def _update_unread(self, clusters: Clusters) -> None:
        """Track partitions with records but no reader, while others of the topic have one.

        Consumers come and go with the epochs, so only a lasting absence counts.
        """
        read = self.status.metrics.get("lag", {})
        missing = set()
        for entry in self.status.about.get("sources", []) if read else ():
            topic = entry["topic"]
            source = clusters.of(self.status.about["clusters"]["source"])
            if source and any(parse_partition(at)[0] == topic for at in read):
                missing |= {f"{topic}/{p}" for p, end in source.ends(topic).items() if end > 0}
        now = time.monotonic()
        self._unread = {at: self._unread.get(at, now) for at in sorted(missing - set(read))}

    def starved(self) -> list[str]:
        """Return the partitions that no task reads while others of their topic are read."""
        now = time.monotonic()
        return [at for at, since in self._unread.items() if now - since >= STARVED_SECONDS]

    def unmeasured(self) -> str:
        """Explain what cannot be measured; empty if everything can."""
        about, total = self.status.about, self.meter.total()
        if about and not about["sink"]["topics"]:
            return (
                f"Results go to {about['sink']['name']}, not to a topic, so latency is measured up "
                "to the pipeline only. Time in the source, lag and rates are available."
            )
        if total["unmeasured"] and not total["records"]:
            return (
                "The results have no provenance, because the pipeline drops the column _source. "
                "Latency cannot be measured; time in the source, lag, rates and epochs can. Keep "
                "_source (F.max('_source') in an aggregate) to measure latency."
            )
        return self._sampler_problem

    def burn(self) -> Json | None:
        """Return the burn rate of the SLO's error budget."""
        if self.slo is None:
            return None
        total = self.meter.total()
        windows = {}
        for name, length in BURN_WINDOWS.items():
            last = list(self.seconds)[-length:]
            records, slow = (sum(second[k] for second in last) for k in ("records", "slow"))
            windows[name] = self.slo.burn(records, slow)
        return {
            "text": self.slo.text,
            "percentile": self.slo.percentile,
            "within_ms": self.slo.within_ms,
            "records": total["records"],
            "slow": total["slow"],
            "burn": self.slo.burn(total["records"], total["slow"]),
            "windows": windows,
            "actual_ms": self.meter.at(self.slo.percentile) if total["records"] else None,
            "met": self.slo.burn(total["records"], total["slow"]) <= 1,
        }

    def describe(self) -> Json:
        """Describe the pipeline, without its seconds."""
        status = self.status
        total = self.meter.total()
        waiting = status.phase == "running" and not (total["records"] or total["unmeasured"])
        seen = total["records"] + total["skipped"]
        return {
            "key": self.key,
            "app": self.run.app,
            "pid": self.run.pid,
            "status": status.as_dict(),
            "waiting": waiting,
            "meter": {
                "why": self.unmeasured(),
                "resolution_ms": RESOLUTION_MS,
                "most_per_second": MOST_PER_SECOND,
                "sampled": round(total["records"] / seen, 4) if seen else 1.0,
                "total": total,
            },
            "marks": list(self.marks)[-120:],
            "starved": self.starved(),
            "causes": causes(
                list(self.seconds),
                CauseContext(
                    [e["ended"] for e in self._boundaries()],
                    status.mode,
                    self.starved(),
                    status.runs,
                ),
            ),
            "slo": self.burn(),
        }
