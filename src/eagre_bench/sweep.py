"""Sweeps over the values of a setting, or over operators or systems."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eagre import __version__
from eagre.config import interval_ms
from eagre_bench.campaign import Options, ScheduledTrial, Testbed, require_any
from eagre_bench.errors import BenchError
from eagre_bench.results import SCHEMA, about_here, described, summary
from eagre_bench.systems import OPERATORS, system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from eagre_bench.campaign import ProgressListener
    from eagre_bench.results import Document
    from eagre_bench.systems import System
    from eagre_bench.workload import Workload

TRIGGERS = ("2 s", "1 s", "500 ms", "200 ms", "100 ms", "50 ms", "0 ms")
EPOCHS = ("5 s", "10 s", "30 s", "1 min", "5 min")
USUAL = {
    "trigger": TRIGGERS,
    "epoch": EPOCHS,
    "operators": tuple(OPERATORS),
    "boundary": ("10 s",),
}
WORKLOADS = {
    "trigger": ("field",),
    "epoch": ("field",),
    "operators": ("count",),
    "boundary": ("stateless", "count"),
}
TITLES = {
    "trigger": "Shorter triggers, and the floor of micro-batches",
    "epoch": "The costs and benefits of a longer epoch",
    "operators": "Each operator against a plain count and sum",
    "boundary": "The cost of an epoch boundary, and of Flink's checkpoints",
}
LEAST_SECONDS = 30.0
BOUNDARIES = 2
LEAST_WARMUP = 30.0
OPERATORS_WARMUP = 90.0
"""The default: compiling an operator's code takes a minute on two cores."""
EPOCHS_MEASURED = 21
"""For boundaries: enough epochs for 20 of them."""
SIDE_BY_SIDE = ("eagre", "flink")
BASELINES = {"trigger": "real time", "operators": "count"}
COMPARED = {"p50_ratio": "p50_ms", "p99_ratio": "p99_ms", "gap_ratio": "gap_ms"}
"""The figures by which an operator is compared with the baseline, and Eagre with Flink."""

Figures = dict[str, Any]


@dataclass(frozen=True)
class SweepPoint:
    """One value of the setting, one operator, or the baseline."""

    label: str
    system: System
    workload: Workload
    recovery: bool = False


class Sweep:
    """A setting, its points, and their measurement.

    Args:
        kind: ``trigger``, ``epoch``, ``operators`` or ``boundary``.
        options: As for a run; ``rounds`` apply to the whole sweep.
        workload: The name of the workload instead of the default; operators have their own.
        values: The points instead of the defaults.

    Raises:
        BenchError: A point is not an operator, or a system cannot run the workload.
        SettingsError: A point is not an interval.
    """

    def __init__(
        self, kind: str, options: Options, workload: str | None, values: list[str]
    ) -> None:
        self.kind, self._options = kind, options
        self._names = (workload,) if workload else WORKLOADS[kind]
        self._values = values or list(USUAL[kind])
        for value in self._values:
            if kind == "operators":
                _require_operator(value)
            else:
                interval_ms(value)
        self._points = list(self._measured())
        for point in self._points:
            require_any([point.workload], [point.system])

    def run(self, folder: Path, observer: ProgressListener) -> Document:
        """Measure every point in every round; every second round is reversed."""
        points = self._points
        for each in dict.fromkeys(point.system for point in points):
            each.prepare(observer.say)
        done: dict[SweepPoint, list[Figures]] = {point: [] for point in points}
        rounds = range(1, self._options.rounds + 1)
        turns = [(n, p) for n in rounds for p in (points if n % 2 else points[::-1])]
        with Testbed(folder, self._options, observer) as bench:
            for number, (round_, point) in enumerate(turns, 1):
                turn = ScheduledTrial(point.workload, point.system, round_, note=self._note(point))
                observer.begin(turn, number, len(turns))
                figures = bench.measure(point.workload, point.system, kill=point.recovery)
                done[point].append({"round": round_, **figures})
        return self._document(done)

    def _note(self, point: SweepPoint) -> str:
        if self.kind == "operators":
            return ""
        killed = ", killed in the middle" if point.recovery else ""
        setting = "epoch" if self.kind == "boundary" else self.kind
        return f", {setting} {point.label}{killed}"

    def _measured(self) -> Iterator[SweepPoint]:
        if self.kind == "boundary":
            yield from self._side_by_side()
            return
        if self.kind == "operators":
            warm = self._options
            if warm.warmup is None:
                warm = replace(warm, warmup=OPERATORS_WARMUP)
            yield SweepPoint(BASELINES[self.kind], system("eagre"), warm.applied(self._names[0]))
            for operator in map(OPERATORS.__getitem__, self._values):
                yield SweepPoint(operator.variant, operator, warm.applied(operator.workloads[0]))
            return
        chosen = self._options.applied(self._names[0])
        if self.kind == "trigger":
            batch = system("spark-micro-batch")
            for value in self._values:
                yield SweepPoint(value, batch, replace(chosen, trigger=value))
            yield SweepPoint(BASELINES[self.kind], system("eagre"), chosen)
            return
        for value in self._values:
            length = interval_ms(value) / 1000
            several = replace(chosen, epoch=value, seconds=max(LEAST_SECONDS, BOUNDARIES * length))
            yield SweepPoint(value, system("eagre"), several)
            long_enough = replace(several, seconds=max(LEAST_SECONDS, length))
            yield SweepPoint(value, system("eagre"), long_enough, recovery=True)

    def _side_by_side(self) -> Iterator[SweepPoint]:
        """Return each workload and epoch on both systems, long enough for the boundaries."""
        for chosen in map(self._options.applied, self._names):
            for value in self._values:
                longer = replace(
                    chosen,
                    epoch=value,
                    warmup=max(LEAST_WARMUP, chosen.warmup),
                    seconds=max(chosen.seconds, EPOCHS_MEASURED * interval_ms(value) / 1000),
                )
                yield from (SweepPoint(value, system(name), longer) for name in SIDE_BY_SIDE)

    def _document(self, done: dict[SweepPoint, list[Figures]]) -> Document:
        points: list[Figures] = []
        baseline = None
        for point, trials in done.items():
            summarised = {"label": point.label, "system": point.system.name, **summary(trials)}
            if point.recovery:
                points[-1].update(_recovery(points[-1], summarised))
            elif point.label == BASELINES.get(self.kind):
                baseline = summarised
            elif self.kind == "operators":
                compared = _compared(summarised, baseline)
                points.append({**summarised, "workload": point.workload.name, **compared})
            else:
                about = {"workload": point.workload.name, "value_ms": interval_ms(point.label)}
                points.append({**summarised, **about})
        if self.kind == "boundary":
            for ours, theirs in zip(points[::2], points[1::2], strict=True):
                ours.update(_compared(ours, theirs))
        workloads = {point.workload.name: point.workload for point in done}
        return {
            "schema": SCHEMA,
            "kind": "sweep",
            "sweep": self.kind,
            "workload": ", ".join(self._names),
            "title": TITLES[self.kind],
            "eagre": __version__,
            **about_here(),
            "options": vars(self._options),
            **described(
                list(workloads.values()),
                list(dict.fromkeys(point.system for point in done)),
            ),
            "points": points,
            "baseline": baseline,
        }


def _require_operator(name: str) -> None:
    if name not in OPERATORS:
        raise BenchError(
            "OPERATOR_UNKNOWN",
            f"there is no operator {name!r}.",
            hint=f"choose from: {', '.join(OPERATORS)}.",
        )


def _compared(point: Figures, baseline: Figures | None) -> Figures:
    """Return the ratio of a point to the baseline, if both are valid."""
    if not baseline or not baseline["valid"] or not point["valid"]:
        return {}
    return {
        name: round(point[ms] / baseline[ms], 3)
        for name, ms in COMPARED.items()
        if point[ms] is not None and baseline[ms]
    }


def _recovery(point: Figures, killed: Figures) -> Figures:
    """Return the cost of a kill in mid-epoch: time, duplicates, correctness."""
    names = ("recovery_ms", "repeated", "lost", "wrong")
    return {
        **{name: killed.get(name) for name in names},
        "valid": point["valid"] and killed["valid"],
        "problems": [*point["problems"], *(f"killed: {p}" for p in killed["problems"])],
        "killed_trials": killed["trials"],
    }
