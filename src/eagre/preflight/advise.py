"""Recommends a mode for a latency target: real time, micro-batches, or scheduled runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from eagre.config import counted
from eagre.preflight.size import SLOTS_PER_CORE

if TYPE_CHECKING:
    from eagre.preflight.check import Report

Choice = Literal["real-time", "micro-batch", "available-now", "none"]

BATCH_FLOOR_MS = 600.0
"""The lowest p99 of micro-batches, however short their trigger (docs/explanation/bench.md)."""
REAL_TIME_P99_MS = 50.0
"""The p99 of real time on a machine with headroom, outside epoch boundaries.

``docs/explanation/bench.md`` has the figures.
"""
SCHEDULED_MS = 600_000.0
"""The target from which a run every few minutes is enough; it costs nothing in between."""
CPU_S_PER_MILLION = 200.0
"""CPU seconds per million small records, in either mode (docs/explanation/bench.md)."""
THROUGHPUT_S_PER_MILLION = 80.0
"""The same with the throughput profile (docs/reference/profile.md)."""
THROUGHPUT_MINIMUM_RATE = 4000.0
"""The lowest measured rate, in records per second, at which the throughput profile pays off."""
HEADROOM = 2.0
"""Capacity divided by load, so that bursts and GC pauses do not dominate the tail."""
HOURS = 730
"""Hours in a month."""
SESSION_START_S = 20.0


@dataclass(frozen=True)
class Advice:
    """The recommended mode, the reasons and the cost.

    Attributes:
        choice: The mode, or ``none`` if no mode meets the requirements.
        reasons: The reasons, the deciding one first.
        arithmetic: The calculations behind them.
        assumptions: The assumptions of the calculations.
        cores: Cores in steady use, by mode.
        monthly: Their monthly price, by mode.
    """

    choice: Choice
    reasons: tuple[str, ...]
    arithmetic: tuple[str, ...]
    assumptions: tuple[str, ...]
    cores: dict[str, float] = field(default_factory=dict)
    monthly: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "choice": self.choice,
            "reasons": list(self.reasons),
            "arithmetic": list(self.arithmetic),
            "assumptions": list(self.assumptions),
            "cores": self.cores,
            "monthly": self.monthly,
        }


@dataclass(frozen=True)
class Requirements:
    """The requirements of a pipeline, and the price of a core.

    Attributes:
        p99_ms: The latency target for 99 % of the records.
        rate: Records per second.
        core_hour: The price of one core for one hour.
    """

    p99_ms: float = 1000.0
    rate: float = 1000.0
    core_hour: float = 0.05


def advise(report: Report, required: Requirements) -> Advice:
    """Recommend a mode for a checked pipeline and its requirements."""
    cores = _cores(report, required)
    monthly = {mode: round(n * required.core_hour * HOURS, 2) for mode, n in cores.items()}
    choice, reasons = _choose(report, required, monthly)
    return Advice(
        choice=choice,
        reasons=tuple(reasons),
        arithmetic=tuple(_arithmetic(report, required, cores, monthly)),
        assumptions=(
            f"one million small records take {CPU_S_PER_MILLION:g} CPU seconds in either mode",
            f"micro-batches reach a p99 of {BATCH_FLOOR_MS:g} ms at best (measured on two cores)",
            f"real time reaches {REAL_TIME_P99_MS:g} ms there, outside epoch boundaries",
            f"{_slots_of_a_core(report)}; capacity is {HEADROOM:g} x the load",
            f"one core costs {required.core_hour:g} per hour, around the clock",
        ),
        cores=cores,
        monthly=monthly,
    )


def _choose(
    report: Report, required: Requirements, monthly: dict[str, float]
) -> tuple[Choice, list[str]]:
    target = f"a p99 of {required.p99_ms:g} ms"
    slots = counted(sum(report.terms), "slot") if report.terms else "its slots"
    extra_cost = f"{monthly['real-time'] - monthly['micro-batch']:+,.2f}"
    if required.p99_ms >= SCHEDULED_MS:
        return "available-now", [
            f"{target} is {required.p99_ms / 60_000:g} minutes: a run every few minutes meets it.",
            "real time is not worth it here: nothing needs to run in between.",
        ]
    if required.p99_ms >= BATCH_FLOOR_MS:
        return "micro-batch", [
            f"micro-batches meet {target}: they reach {BATCH_FLOOR_MS:g} ms.",
            f"real time is not worth it here: it would hold {slots}, for {extra_cost} a month.",
        ]
    if required.p99_ms < REAL_TIME_P99_MS / 10:
        return "none", [
            f"{target} is below the latency of a Kafka hop; no Spark mode can meet it.",
            "`eagre bench run field` measures that hop as `floor`; consider a design without it.",
        ]
    if report.errors:
        errors = ", ".join(sorted(report.ids("error")))
        return "real-time", [
            f"micro-batches cannot meet {target}: they reach {BATCH_FLOOR_MS:g} ms at best.",
            f"the pipeline does not run in real time yet: {errors}; see `eagre check`.",
        ]
    reasons = [f"micro-batches cannot meet {target}: they reach {BATCH_FLOOR_MS:g} ms at best."]
    if required.p99_ms < REAL_TIME_P99_MS:
        reasons.append(
            f"the target is also below the {REAL_TIME_P99_MS:g} ms measured on two cores: measure "
            "it on your machine with `eagre bench run`, with spare cores and long epochs."
        )
    elif required.rate >= THROUGHPUT_MINIMUM_RATE:
        reasons.append(
            "`eagre run --profile throughput` sends several records per request: it uses "
            f"{_work(required, THROUGHPUT_S_PER_MILLION):.2f} instead of {_work(required):.2f} "
            "cores, and adds about 10 ms to the median."
        )
    return "real-time", reasons


def _work(required: Requirements, cost: float = CPU_S_PER_MILLION) -> float:
    """Return the number of cores that are busy all the time."""
    return required.rate * cost / 1_000_000


def _slots_per_core(report: Report) -> int:
    """Return how many slots one core serves: in local mode they are threads that mostly wait."""
    return SLOTS_PER_CORE if report.local else 1


def _slots_of_a_core(report: Report) -> str:
    if report.local:
        return f"one core serves {SLOTS_PER_CORE} waiting slots"
    return "on a cluster each slot is a core"


def _cores(report: Report, required: Requirements) -> dict[str, float]:
    work = _work(required)
    slots = sum(report.terms or (0,))
    scheduled = SESSION_START_S / (SCHEDULED_MS / 1000) + work
    return {
        "real-time": round(max(work * HEADROOM, slots / _slots_per_core(report), 1.0), 2),
        "micro-batch": round(max(work * HEADROOM, 1.0), 2),
        "available-now": round(scheduled, 2),
    }


def _arithmetic(
    report: Report, required: Requirements, cores: dict[str, float], monthly: dict[str, float]
) -> list[str]:
    cost = f"{CPU_S_PER_MILLION:g} CPU s / 1,000,000"
    steps = [f"work: {required.rate:g} records/s x {cost} = {_work(required):.2f} cores"]
    if report.terms:
        terms = " + ".join(map(str, report.terms))
        steps.append(
            f"slots: {terms} = {sum(report.terms)}; / {_slots_per_core(report)} per core = "
            f"{sum(report.terms) / _slots_per_core(report):g} cores"
        )
    else:
        steps.append("slots: unknown, because the topics could not be read")
    if report.executors is not None:
        given = counted(report.slots or 0, "slot")
        steps.append(f"the cluster gives {counted(report.executors, 'executor')} with {given}")
    steps += [
        f"{mode}: {n:g} cores x {required.core_hour:g} x {HOURS} h = {monthly[mode]:,.2f} a month"
        for mode, n in cores.items()
    ]
    return steps
