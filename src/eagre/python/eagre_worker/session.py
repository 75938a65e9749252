"""What a call asks the JVM for and what it changes, by numbers that both sides know."""

from __future__ import annotations

import struct
from typing import Any

from .wire import COUNT, Blocks, Wire

_OP = struct.Struct("<BB")

DONE, ASK, WORKING = b"\0", b"\1", b"\2"
ASK_LIST, ASK_ENTRY, ASK_MAP, ASK_TIMERS = range(4)
(
    UPDATE,
    CLEAR,
    LIST_PUT,
    LIST_APPEND,
    LIST_CLEAR,
    MAP_PUT,
    MAP_REMOVE,
    MAP_CLEAR,
    TIMER_SET,
    TIMER_DELETE,
) = range(10)


class Session:
    """What one call has read and changed so far."""

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self.key = 0
        self.updates: list[bytes] = []

    def ask(self, op: int, index: int, argument: bytes = b"") -> Blocks:
        """Ask the JVM for more of the key's state."""
        if self.wire is None:
            raise RuntimeError("state can only be used while rows or timers are handled")
        self.wire.send(ASK, COUNT.pack(self.key), _OP.pack(op, index), argument)
        return Blocks(self.wire.receive())

    def change(self, op: int, index: int, argument: bytes = b"") -> None:
        """Note a change."""
        self.updates.append(_OP.pack(op, index) + argument)


class Kept:
    """What a key has, as a call sees it: with its own changes, and a past to go back to."""

    def forget(self) -> None:
        """Begin a call."""
        raise NotImplementedError

    def saved(self) -> Any:  # noqa: ANN401  (each variable's own)
        """Give what ``restore`` takes."""
        raise NotImplementedError

    def restore(self, saved: Any) -> None:  # noqa: ANN401  (as above)
        """Undo what came after ``saved``."""
        raise NotImplementedError
