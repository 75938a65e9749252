"""One pipeline as the page shows it: its seconds, and what they add up to."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from eagre.dashboard.causes import Around, causes
from eagre.dashboard.result_sampler import MOST_PER_SECOND, ResultSampler
from eagre.errors import EagreError
from eagre.jvm.gateway import parse_partition
from eagre.latency import Meter
from eagre.latency.meter import RESOLUTION_MS
from eagre.slo import Slo

if TYPE_CHECKING:
    from eagre.dashboard.cluster import Clusters
    from eagre.runtime.runs import PipelineStatus, RunStatus

SECONDS = 900
"""How many are kept: a quarter of an hour."""
BURN_WINDOWS = {"1m": 60, "5m": 300, "15m": 900}
OVER = ("ended", "failed")
STARVED_SECONDS = 10.0

Told = dict[str, Any]


class View:
    """Follows a pipeline by its status and its output.

    Args:
        run: The run it belongs to.
        status: The pipeline.
    """

    def __init__(self, run: RunStatus, status: PipelineStatus) -> None:
        self.key = f"{run.pid}-{status.name}"
        self.run = run
        self.status = status
        self.seconds: deque[Told] = deque(maxlen=SECONDS)
        self.marks: deque[Told] = deque(maxlen=SECONDS)
        self.meter = Meter()
        self.slo: Slo | None = None
        self.first_seen = time.time()
        self._tap: ResultSampler | None = None
        self._tap_problem = ""
        self._uncounted = False
        self._vitals: Told = {}
        self._written: int | None = None
        self._at = 0.0
        self._waits: Told = {}
        self._unread: dict[str, float] = {}
        self._marked: set[tuple[str, float]] = set()

    @property
    def over(self) -> bool:
        """Whether the pipeline has ended."""
        return self.status.phase in OVER

    @property
    def settled(self) -> bool:
        """Whether it has ended, and all that came out is counted."""
        return self.over and self._tap is None and not self._uncounted

    def close(self) -> None:
        """Stop measuring."""
        if self._tap:
            self._tap.close()
            self._tap = None
            self._uncounted = True

    def gone(self) -> None:
        """The run is no longer there."""
        if not self.over:
            self.status.enter("ended")
        self.close()

    def follow(self, run: RunStatus, status: PipelineStatus, clusters: Clusters) -> None:
        """Take the status of this second."""
        self.run, self.status = run, status
        if status.about and self.slo is None and status.about.get("slo"):
            self.slo = Slo.parse(status.about["slo"])
            self.meter = Meter(self.slo.within_ms)
        if status.about and not self._tap and not self.over:
            self._open_tap(clusters)
        self._look_for_starved(clusters)
        self._mark()

    def _open_tap(self, clusters: Clusters) -> None:
        about = self.status.about
        sources = [one["topic"] for one in about["sources"]]
        near = clusters.of(about["clusters"]["source"])
        if near:
            near.watch([*sources, *about["letters"]])
        if not about["sink"]["topics"]:
            return
        far = clusters.of(about["clusters"]["sink"])
        if far is None:
            return
        far.watch(about["sink"]["topics"])
        topics = far.partitions(about["sink"]["topics"])
        if not topics:
            return
        try:
            self._tap = ResultSampler(far.settings, topics, sources, self.meter)
        except EagreError as error:
            self._tap_problem = str(error)

    def _mark(self) -> None:
        """Note what the chart marks: epochs, starts, pauses."""
        for epoch in self._boundaries() if self.status.mode == "real-time" else ():
            self._mark_once("epoch", epoch["ended"], f"epoch {epoch['batch']} ended")
        for number, began in enumerate(self.status.runs):
            text = "started again" if number else "started"
            self._mark_once("restart" if number else "start", began, text)
        for began, ended, reason in self.status.stalls:
            self._mark_once("stalled", began, f"stalled: {reason}")
            if ended:
                self._mark_once("flows", ended, "flows again")

    def _boundaries(self) -> list[Told]:
        """The epoch boundaries at which rows waited: not commits without a pause."""
        return [
            epoch
            for epoch in self.status.epochs
            if "commit" not in epoch["phases"] or "pause" in epoch["phases"]
        ]

    def _mark_once(self, kind: str, at: float, text: str) -> None:
        if (kind, at) not in self._marked:
            self._marked.add((kind, at))
            self.marks.append({"t": round(at, 3), "kind": kind, "text": text})

    def second(self, now: float) -> None:
        """End a second: what the meter measured, and what the status says of it."""
        if self.over:
            self.close()
            if not self._uncounted:
                return
            self._uncounted = False
        told = {"t": round(now, 3), **self.meter.second(), **self._flow()}
        if "until_sent_ms" in told and told.get("wait_ms") is not None:
            told["pipeline_ms"] = round(max(0.0, told["until_sent_ms"] - told["wait_ms"]), 3)
        self.seconds.append(told)

    def _flow(self) -> Told:
        """Rates, lag, pauses and waits since the status before; nothing where there is no new one.

        The status comes about once a second, and says when it was taken.
        """
        status, at = self.status, float(self.status.vitals.get("at", 0))
        passed = at - self._at
        if passed <= 0:
            return {}
        told: Told = {"lag": status.lag, "lags": status.vitals["lag"]}
        if status.written is not None and self._written is not None and self._at:
            told["out"] = round(max(0, status.written - self._written) / passed, 1)
        told |= self._pauses() | self._waited(passed)
        self._written, self._at, self._vitals = status.written, at, status.vitals
        return told

    def _pauses(self) -> Told:
        now, before = self.status.vitals, self._vitals
        if not now or not before or now["pauses"] < before["pauses"]:
            return {}
        longest = now["longest_pause_ms"] if now["pauses"] > before["pauses"] else 0
        return {"pause_ms": longest, "heap_mb": now["heap_mb"]}

    def _waited(self, passed: float) -> Told:
        """How many records the tasks took, and how long they had waited."""
        waits, before = self.status.vitals.get("waits", {}), self._waits
        self._waits = waits
        if not waits or not before:
            return {}
        taken = {at: one[0] - before.get(at, [0, 0])[0] for at, one in waits.items()}
        if min(taken.values()) < 0:
            return {}
        records = sum(taken.values())
        told: Told = {
            "in": round(records / passed, 1),
            "in_by": {at: round(n / passed, 1) for at, n in taken.items()},
        }
        if records:
            waited = sum(one[1] - before.get(at, [0, 0])[1] for at, one in waits.items())
            told["wait_ms"] = round(waited / records, 3)
        return told

    def _look_for_starved(self, clusters: Clusters) -> None:
        """Note since when a partition with records has no reader, where its neighbours have one.

        Consumers come and go with the epochs, so that only what lasts counts.
        """
        read = self.status.vitals.get("lag", {})
        missing = set()
        for one in self.status.about.get("sources", []) if read else ():
            topic = one["topic"]
            near = clusters.of(self.status.about["clusters"]["source"])
            if near and any(parse_partition(at)[0] == topic for at in read):
                missing |= {f"{topic}/{p}" for p, end in near.ends(topic).items() if end > 0}
        now = time.monotonic()
        self._unread = {at: self._unread.get(at, now) for at in sorted(missing - set(read))}

    def starved(self) -> list[str]:
        """Partitions that nobody reads, where others of their topic are read."""
        now = time.monotonic()
        return [at for at, since in self._unread.items() if now - since >= STARVED_SECONDS]

    def unmeasured(self) -> str:
        """Say what cannot be measured, and why; empty where all can."""
        about, total = self.status.about, self.meter.total()
        if about and not about["sink"]["topics"]:
            return (
                f"Results go to {about['sink']['name']}: there is no topic to tap, so latency is "
                "measured up to the pipeline only. Waiting in the source, lag and rates are known."
            )
        if total["unmeasured"] and not total["records"]:
            return (
                "The results do not say which record they come from: the pipeline drops the "
                "column _source. Latency cannot be measured; waiting in the source, lag, rates "
                "and epochs can. Keep _source (F.max('_source') in an aggregate) to have it."
            )
        return self._tap_problem

    def burn(self) -> Told | None:
        """How fast the SLO's error budget goes."""
        if self.slo is None:
            return None
        total = self.meter.total()
        windows = {}
        for name, length in BURN_WINDOWS.items():
            last = list(self.seconds)[-length:]
            records, slow = (sum(one[k] for one in last) for k in ("records", "slow"))
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
            "kept": self.slo.burn(total["records"], total["slow"]) <= 1,
        }

    def told(self) -> Told:
        """Everything but the seconds."""
        status = self.status
        total = self.meter.total()
        waiting = status.phase == "running" and not (total["records"] or total["unmeasured"])
        seen = total["records"] + total["skipped"]
        return {
            "key": self.key,
            "app": self.run.app,
            "pid": self.run.pid,
            "status": _light(status),
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
                Around(
                    [e["ended"] for e in self._boundaries()],
                    status.mode,
                    self.starved(),
                    status.runs,
                ),
            ),
            "slo": self.burn(),
        }


def _light(status: PipelineStatus) -> Told:
    return dict(vars(status))
