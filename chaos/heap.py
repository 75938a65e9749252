"""Exhausts the heap of the run's JVM when asked; the pipelines import it, nothing else does.

A program from outside cannot fill another's heap: so the driver's Python does it, through its
gateway, when the file ``exhaust-heap`` appears in the project's folder.
"""

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

ORDER = Path("exhaust-heap")
HOLD_SECONDS = 15
BLOCK = 4 << 20


def listen() -> None:
    """Wait for the order in a thread."""
    threading.Thread(target=_obey, daemon=True).start()


def _obey() -> None:
    from pyspark import SparkContext

    while True:
        time.sleep(0.5)
        context = SparkContext._active_spark_context  # noqa: SLF001
        if context is not None and ORDER.exists():
            ORDER.unlink()
            with contextlib.suppress(Exception):  # the JVM may die of it
                _exhaust(context)


def _exhaust(context: Any) -> None:  # noqa: ANN401  (Spark's, with private members)
    """Allocate blocks until there is no room for the smallest, and keep them for some seconds."""
    gateway, blocks, size = context._gateway, [], BLOCK  # noqa: SLF001
    until = time.monotonic() + HOLD_SECONDS
    while size > 1024 and time.monotonic() < until:
        try:
            blocks.append(gateway.new_array(gateway.jvm.long, size // 8))
        except Exception:  # noqa: BLE001  (no room)
            size //= 2
    time.sleep(max(0.0, until - time.monotonic()))
