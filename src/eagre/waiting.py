"""Waiting for a condition, with a limit that grows on a slow machine, and a message."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SAMPLES, ADDITIONS = 10, 20_000
USUAL_SECONDS = 0.0012
"""The seconds that these additions take on the reference machine."""
GAP_SECONDS = 0.008
"""Between samples: together they last as long as a period of a container's CPU quota, 100 ms."""
SLOWEST = 10.0


def wait_until(
    condition: Callable[[], T],
    timeout: float,
    message: str,
    interval: float = 0.05,
    *,
    patient: Callable[[], bool] = lambda: True,
) -> T:
    """Ask again and again until the answer is true, and return that answer.

    After the timeout, the speed of the machine is measured, and a slower machine gets as many times
    longer: a start that takes 20 s on an idle machine takes minutes on a busy one. ``patient``
    then decides whether waiting still makes sense.

    >>> wait_until(lambda: 42, timeout=1, message="never")
    42

    Raises:
        TimeoutError: With ``message``, when the time is over.
    """
    began = time.monotonic()
    deadline = began + timeout
    extended = False
    while not (answer := condition()):
        if time.monotonic() > deadline:
            if extended or not patient():
                raise TimeoutError(message)
            deadline = began + timeout * machine_slowness()
            extended = True
            continue
        time.sleep(interval)
    return answer


def machine_slowness(at_least: float = 1.0) -> float:
    """Return how many times slower this machine is now than the reference machine.

    A process whose CPU quota is used up is paused for the rest of a period: short samples are
    spread over a period, and delays between them count too.

    >>> 1 <= machine_slowness() <= 10
    True
    """
    began = time.perf_counter()
    for _ in range(SAMPLES):
        _add()
        time.sleep(GAP_SECONDS)
    taken = time.perf_counter() - began - SAMPLES * GAP_SECONDS
    return min(SLOWEST, max(at_least, taken / (SAMPLES * USUAL_SECONDS)))


def _add() -> None:
    total = 0
    for _ in range(ADDITIONS):
        total += 1  # noqa: SIM113  (the additions are what is timed)
