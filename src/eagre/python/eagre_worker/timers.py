"""The timers of a key as a call sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .session import ASK_TIMERS, TIMER_SET, RevertibleState, Session
from .wire import COUNT, TIME

if TYPE_CHECKING:
    from collections.abc import Iterator


class Timers(RevertibleState):
    """The key's timers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.forget()

    def forget(self) -> None:
        """Reset before a call."""
        self._changes: list[tuple[int, int]] = []

    def saved(self) -> Any:  # noqa: ANN401
        """Return a snapshot for ``restore``."""
        return self._changes

    def restore(self, saved: Any) -> None:  # noqa: ANN401
        """Undo the changes since ``saved``."""
        self._changes = saved

    def change(self, op: int, at: int) -> None:
        """Set or delete a timer."""
        self._changes = [*self._changes, (op, int(at))]
        self._session.change(op, 0, TIME.pack(int(at)))

    def all(self) -> Iterator[int]:
        """Return all timers."""
        reply = self._session.ask(ASK_TIMERS, 0)
        timers = {reply.take(TIME)[0] for _ in range(reply.take(COUNT)[0])}
        for op, at in self._changes:
            (timers.add if op == TIMER_SET else timers.discard)(at)
        return iter(sorted(timers))
