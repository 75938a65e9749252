"""The faults of a soak, planned from a seed, and how they are injected."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .runs import Run

KILLS = ("jvm_killed", "driver_killed", "all_killed", "worker_killed")
"""After these, results may be repeated."""
KINDS = (*KILLS, "drained", "broker_paused")
LONGEST_PAUSE_SECONDS = 6.0


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        seconds: When, from the beginning of the load.
        kind: One of ``KINDS``.
        pipeline: The pipeline that it hits; a pause of the broker hits all.
        pause: How long the broker is paused.
    """

    seconds: float
    kind: str
    pipeline: str
    pause: float = 0.0

    @property
    def explains_repeats(self) -> bool:
        """Whether a result may be written again because of it."""
        return self.kind in KILLS

    @property
    def hits_all(self) -> bool:
        """Whether it hits all pipelines."""
        return self.kind == "broker_paused"


def plan(
    names: Sequence[str], python: Sequence[str], *, seconds: float, every: float, seed: int
) -> list[Fault]:
    """Plan the faults: every kind and every pipeline in turn, in an order given by the seed.

    >>> faults = plan(["a", "b"], ["b"], seconds=1000, every=100, seed=1)
    >>> len(faults), {fault.pipeline for fault in faults if fault.kind == "worker_killed"}
    (9, {'b'})
    """
    if every <= 0:
        return []
    pick = random.Random(seed)
    kinds = _in_turn([kind for kind in KINDS if python or kind != "worker_killed"], pick)
    hit, workers = _in_turn(names, pick), _in_turn(python, pick)
    times = [every * number for number in range(1, int(seconds / every) + 1)]
    faults = []
    for at in times:
        kind = next(kinds)
        name = next(workers if kind == "worker_killed" else hit)
        pause = pick.uniform(1, LONGEST_PAUSE_SECONDS) if kind == "broker_paused" else 0.0
        if at <= seconds - every / 2:
            faults.append(Fault(at, kind, name, round(pause, 1)))
    return faults


def inject(fault: Fault, run: Run, broker: int) -> None:
    """Inject a fault; returns when it is over, and the pipeline starts again."""
    match fault.kind:
        case "jvm_killed" | "driver_killed" | "worker_killed":
            role = {"jvm_killed": "jvm", "driver_killed": "driver", "worker_killed": "workers"}
            run.kill(role[fault.kind])
        case "all_killed":
            run.kill_all()
            run.start()
        case "drained":
            run.drain()
            run.start()
        case "broker_paused":
            process = psutil.Process(broker)
            process.send_signal(signal.SIGSTOP)
            try:
                time.sleep(fault.pause)
            finally:
                process.send_signal(signal.SIGCONT)


def _in_turn(names: Sequence[str], pick: random.Random) -> Iterator[str]:
    return cycle(pick.sample(list(names), len(names)))
