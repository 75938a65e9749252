"""Waiting for a condition, with a limit and a sentence for when it is not met."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], timeout: float, message: str, interval: float = 0.05
) -> T:
    """Ask again and again until the answer is true, and give that answer.

    >>> wait_until(lambda: 42, timeout=1, message="never")
    42

    Raises:
        TimeoutError: With ``message``, when ``timeout`` seconds have passed.
    """
    deadline = time.monotonic() + timeout
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(message)
        time.sleep(interval)
    return answer
