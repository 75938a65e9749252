"""Real time, micro-batches, or a run now and then: which one is worth its price."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from eagre.config import counted
from eagre.preflight.size import SLOTS_PER_CORE

if TYPE_CHECKING:
    from eagre.preflight.check import Report

Choice = Literal["real-time", "micro-batch", "available-now", "none"]

BATCH_FLOOR_MS = 600.0
"""The p99 below which micro-batches do not come, however short their trigger.

``docs/explanation/bench.md`` has the sweep.
"""
REAL_TIME_P99_MS = 50.0
"""The p99 that real time keeps on a machine with room, its boundaries apart.

``docs/explanation/bench.md`` has the figures.
"""
SCHEDULED_MS = 600_000.0
"""From here on a run every few minutes does, and costs nothing in between."""
CPU_S_PER_MILLION = 200.0
"""CPU seconds for a million small records, in either mode (docs/explanation/bench.md)."""
SHARED_S_PER_MILLION = 80.0
"""The same with the profile for throughput (docs/reference/profile.md)."""
SHARED_FROM = 4000.0
"""Records per second from which that was measured; there records are close enough together."""
HEADROOM = 2.0
"""Cores kept free, so that a burst and a collector do not become the tail."""
HOURS = 730
"""Of a month."""
SESSION_START_S = 20.0


@dataclass(frozen=True)
class Advice:
    """What to run, why, and what it costs.

    Attributes:
        choice: The mode, or none where no mode can do it.
        reasons: In words, the deciding one first.
        arithmetic: The sums behind them.
        assumptions: What the sums take for granted.
        cores: Steady cores by mode.
        monthly: Their price by mode.
    """

    choice: Choice
    reasons: tuple[str, ...]
    arithmetic: tuple[str, ...]
    assumptions: tuple[str, ...]
    cores: dict[str, float] = field(default_factory=dict)
    monthly: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "choice": self.choice,
            "reasons": list(self.reasons),
            "arithmetic": list(self.arithmetic),
            "assumptions": list(self.assumptions),
            "cores": self.cores,
            "monthly": self.monthly,
        }


@dataclass(frozen=True)
class Wish:
    """What is asked of a pipeline.

    Attributes:
        p99_ms: The latency that 99 of 100 records must keep.
        rate: Records per second.
        core_hour: The price of a core for an hour.
    """

    p99_ms: float = 1000.0
    rate: float = 1000.0
    core_hour: float = 0.05


def advise(report: Report, wish: Wish) -> Advice:
    """Weigh a checked pipeline against what is asked of it."""
    cores = _cores(report, wish)
    monthly = {mode: round(n * wish.core_hour * HOURS, 2) for mode, n in cores.items()}
    choice, reasons = _choose(report, wish, monthly)
    return Advice(
        choice=choice,
        reasons=tuple(reasons),
        arithmetic=tuple(_arithmetic(report, wish, cores, monthly)),
        assumptions=(
            f"a million small records take {CPU_S_PER_MILLION:g} CPU seconds in either mode",
            f"micro-batches keep a p99 of {BATCH_FLOOR_MS:g} ms at best (measured on two cores)",
            f"real time keeps {REAL_TIME_P99_MS:g} ms there, epoch boundaries apart",
            f"a core carries {SLOTS_PER_CORE} waiting slots; capacity is {HEADROOM:g} x the load",
            f"a core costs {wish.core_hour:g} an hour, around the clock",
        ),
        cores=cores,
        monthly=monthly,
    )


def _choose(report: Report, wish: Wish, monthly: dict[str, float]) -> tuple[Choice, list[str]]:
    wanted = f"a p99 of {wish.p99_ms:g} ms"
    slots = counted(sum(report.terms), "slot") if report.terms else "its slots"
    more = f"{monthly['real-time'] - monthly['micro-batch']:+,.2f}"
    if wish.p99_ms >= SCHEDULED_MS:
        return "available-now", [
            f"{wanted} is {wish.p99_ms / 60_000:g} minutes: a run every few minutes keeps it.",
            "real time is not worth it here: nothing need run in between.",
        ]
    if wish.p99_ms >= BATCH_FLOOR_MS:
        return "micro-batch", [
            f"{wanted} is within reach of micro-batches, which keep {BATCH_FLOOR_MS:g} ms.",
            f"real time is not worth it here: it would hold {slots} for good, for {more} a month.",
        ]
    if wish.p99_ms < REAL_TIME_P99_MS / 10:
        return "none", [
            f"{wanted} is below what a Kafka hop itself keeps; no mode of Spark promises it.",
            "`eagre bench run field` measures that hop as `floor`; consider a service without it.",
        ]
    if report.errors:
        named = ", ".join(sorted(report.ids("error")))
        return "real-time", [
            f"{wanted} is out of reach of micro-batches, which keep {BATCH_FLOOR_MS:g} ms at best.",
            f"as it is the pipeline does not run in real time: {named}; see `eagre check`.",
        ]
    told = [f"{wanted} is out of reach of micro-batches, which keep {BATCH_FLOOR_MS:g} ms at best."]
    if wish.p99_ms < REAL_TIME_P99_MS:
        told.append(
            f"it is also tighter than the {REAL_TIME_P99_MS:g} ms measured on two cores: try it on "
            "your machine with `eagre bench run`, with cores to spare and long epochs."
        )
    elif wish.rate >= SHARED_FROM:
        told.append(
            "with `eagre run --profile throughput` records share their requests: "
            f"{_work(wish, SHARED_S_PER_MILLION):.2f} instead of {_work(wish):.2f} cores of work, "
            "for some 10 ms at the median."
        )
    return "real-time", told


def _work(wish: Wish, cost: float = CPU_S_PER_MILLION) -> float:
    """How many cores are busy all the time."""
    return wish.rate * cost / 1_000_000


def _cores(report: Report, wish: Wish) -> dict[str, float]:
    work = _work(wish)
    slots = sum(report.terms or (0,))
    scheduled = SESSION_START_S / (SCHEDULED_MS / 1000) + work
    return {
        "real-time": round(max(work * HEADROOM, slots / SLOTS_PER_CORE, 1.0), 2),
        "micro-batch": round(max(work * HEADROOM, 1.0), 2),
        "available-now": round(scheduled, 2),
    }


def _arithmetic(
    report: Report, wish: Wish, cores: dict[str, float], monthly: dict[str, float]
) -> list[str]:
    cost = f"{CPU_S_PER_MILLION:g} CPU s / 1,000,000"
    told = [f"work: {wish.rate:g} records/s x {cost} = {_work(wish):.2f} cores"]
    if report.terms:
        terms = " + ".join(map(str, report.terms))
        told.append(
            f"slots: {terms} = {sum(report.terms)}; / {SLOTS_PER_CORE} per core = "
            f"{sum(report.terms) / SLOTS_PER_CORE:g} cores"
        )
    else:
        told.append("slots: unknown, for the topics were not seen")
    told += [
        f"{mode}: {n:g} cores x {wish.core_hour:g} x {HOURS} h = {monthly[mode]:,.2f} a month"
        for mode, n in cores.items()
    ]
    return told
