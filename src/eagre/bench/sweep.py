"""Sweeps: one setting over its range, and what it does to the latency."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eagre import __version__
from eagre.bench.campaign import Bench, Options, Turn
from eagre.bench.results import SCHEMA, about_here, described, summary
from eagre.bench.systems import system
from eagre.config import interval_ms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from eagre.bench.campaign import Observer
    from eagre.bench.results import Document
    from eagre.bench.systems import System
    from eagre.bench.workload import Workload

TRIGGERS = ("2 s", "1 s", "500 ms", "200 ms", "100 ms", "50 ms", "0 ms")
EPOCHS = ("5 s", "10 s", "30 s", "1 min", "5 min")
TITLES = {
    "trigger": "Smaller micro-batches, and the floor they cannot pass",
    "epoch": "What the length of an epoch costs, and what it saves",
}
LEAST_SECONDS = 30.0
BOUNDARIES = 2
REAL_TIME = "real time"

Figures = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """One value of the setting that is swept."""

    label: str
    system: System
    workload: Workload
    recovery: bool = False


class Sweep:
    """A setting, its points, and the run over them.

    Args:
        kind: ``trigger`` or ``epoch``.
        options: As for a run; ``rounds`` are of the whole sweep.
        workload: The name of the workload.
        values: The points, instead of the usual ones.
    """

    def __init__(self, kind: str, options: Options, workload: str, values: list[str]) -> None:
        self.kind, self._options, self._name = kind, options, workload
        self._values = values or list(TRIGGERS if kind == "trigger" else EPOCHS)
        for value in self._values:
            interval_ms(value)

    def run(self, folder: Path, observer: Observer) -> Document:
        """Measure every point in every round."""
        points = list(self._points())
        done: dict[tuple[str, str, bool], list[Figures]] = {}
        turns = [(n, p) for n in range(1, self._options.rounds + 1) for p in points]
        with Bench(folder, self._options, observer) as bench:
            for number, (round_, point) in enumerate(turns, 1):
                turn = Turn(point.workload, point.system, round_, note=self._note(point))
                observer.begin(turn, number, len(turns))
                figures = bench.measure(point.workload, point.system, kill=point.recovery)
                key = (point.label, point.system.name, point.recovery)
                done.setdefault(key, []).append({"round": round_, **figures})
        return self._document(done)

    def _note(self, point: Point) -> str:
        killed = ", killed in the middle" if point.recovery else ""
        return f", {self.kind} {point.label}{killed}"

    def _points(self) -> Iterator[Point]:
        chosen = self._options.applied(self._name)
        if self.kind == "trigger":
            batch = system("spark-micro-batch")
            for value in self._values:
                yield Point(value, batch, replace(chosen, trigger=value))
            yield Point(REAL_TIME, system("eagre"), chosen)
            return
        for value in self._values:
            length = interval_ms(value) / 1000
            several = replace(chosen, epoch=value, seconds=max(LEAST_SECONDS, BOUNDARIES * length))
            yield Point(value, system("eagre"), several)
            one = replace(several, seconds=max(LEAST_SECONDS, length))
            yield Point(value, system("eagre"), one, recovery=True)

    def _systems(self) -> list[System]:
        names = ("spark-micro-batch", "eagre") if self.kind == "trigger" else ("eagre",)
        return [system(name) for name in names]

    def _document(self, done: dict[tuple[str, str, bool], list[Figures]]) -> Document:
        points: list[Figures] = []
        baseline = None
        for (label, name, recovery), trials in done.items():
            told = {"label": label, "system": name, **summary(trials)}
            if recovery:
                points[-1].update(_recovery(points[-1], told))
            elif label == REAL_TIME:
                baseline = told
            else:
                points.append({**told, "value_ms": interval_ms(label)})
        return {
            "schema": SCHEMA,
            "kind": "sweep",
            "sweep": self.kind,
            "workload": self._name,
            "title": TITLES[self.kind],
            "eagre": __version__,
            **about_here(),
            "options": vars(self._options),
            **described([self._options.applied(self._name)], self._systems()),
            "points": points,
            "baseline": baseline,
        }


def _recovery(point: Figures, killed: Figures) -> Figures:
    """What a kill in mid-epoch cost: time, and rows that came again; whether all came out right."""
    names = ("recovery_ms", "repeated", "lost", "wrong")
    return {
        **{name: killed.get(name) for name in names},
        "valid": point["valid"] and killed["valid"],
        "problems": [*point["problems"], *(f"killed: {p}" for p in killed["problems"])],
        "killed_trials": killed["trials"],
    }
