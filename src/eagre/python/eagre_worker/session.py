"""The state requests and changes of a call, with the operation codes of the protocol."""

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
    """The state changes of one call so far."""

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self.key = 0
        self.updates: list[bytes] = []

    def ask(self, op: int, index: int, argument: bytes = b"") -> Blocks:
        """Request more of the key's state from the JVM."""
        if self.wire is None:
            raise RuntimeError("state can only be used while rows or timers are processed")
        self.wire.send(ASK, COUNT.pack(self.key), _OP.pack(op, index), argument)
        return Blocks(self.wire.receive())

    def change(self, op: int, index: int, argument: bytes = b"") -> None:
        """Record a change."""
        self.updates.append(_OP.pack(op, index) + argument)


class RevertibleState:
    """A part of a key's state as a call sees it, including its changes; it can be rolled back."""

    def forget(self) -> None:
        """Reset before a call."""
        raise NotImplementedError

    def saved(self) -> Any:  # noqa: ANN401  (depends on the subclass)
        """Return a snapshot for ``restore``."""
        raise NotImplementedError

    def restore(self, saved: Any) -> None:  # noqa: ANN401  (as above)
        """Undo the changes since ``saved``."""
        raise NotImplementedError
