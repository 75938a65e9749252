"""The signals that end a command: Ctrl-C, SIGTERM and SIGHUP, also as process 1 of a container."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived while there was nothing to drain."""


@contextlib.contextmanager
def stop_signals(stop: Callable[[type[KeyboardInterrupt]], None] | None = None) -> Iterator[None]:
    """Handle the signals during the ``with`` block: by default, raise what they mean.

    The kernel drops a signal to process 1 that has no handler, so every command has one. A signal
    that is ignored, as SIGHUP is after ``nohup``, stays ignored.

    Args:
        stop: Called instead, with the exception to raise if there is nothing to drain.
    """

    def handle(sign: int, _: object) -> None:
        meaning = KeyboardInterrupt if sign == signal.SIGINT else Terminated
        if stop is None:
            raise meaning
        stop(meaning)

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handled = [s for s in STOP if s != signal.SIGHUP or signal.getsignal(s) != signal.SIG_IGN]
        before = {sign: signal.signal(sign, handle) for sign in handled}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def is_terminated(error: BaseException) -> bool:
    """Return whether an exception, or the one that Click replaced, means SIGTERM or SIGHUP."""
    return isinstance(error, Terminated) or isinstance(error.__cause__, Terminated)
