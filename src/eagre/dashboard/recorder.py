"""Follows what runs, second by second, and keeps what the page and the metrics show."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from eagre import __version__
from eagre.dashboard.cluster import Clusters
from eagre.dashboard.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.runtime.runs import RunStatus

log = logging.getLogger("eagre")

MOST_VIEWS = 12
LATE_SECONDS = 10.0
"""Without a new second for so long, the page itself is not well."""

Told = dict[str, Any]


class Recorder:
    """Asks every second which pipelines run, and how they fare.

    Args:
        runs: Gives the runs to show.
        payloads: Whether the content of records may be shown.
        every: The length of a second, for tests in a hurry.
    """

    def __init__(
        self, runs: Callable[[], list[RunStatus]], *, payloads: bool = True, every: float = 1.0
    ) -> None:
        self.clusters = Clusters()
        self.payloads = payloads
        self.views: dict[str, View] = {}
        self.ticked = time.monotonic()
        self._runs = runs
        self._every = every
        self._news = threading.Condition()
        self._number = 0
        self._latest = b""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="eagre-page", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and let go of all clusters."""
        self._over.set()
        with self._news:
            self._news.notify_all()
        self._thread.join(5)
        for view in self.views.values():
            view.close()
        self.clusters.close()

    @property
    def closed(self) -> bool:
        """Whether it was told to stop."""
        return self._over.is_set()

    def well(self) -> bool:
        """Tell whether seconds still pass."""
        return time.monotonic() - self.ticked < LATE_SECONDS

    def everything(self) -> Told:
        """Give the state with all seconds that are kept: what ``/api/state`` answers."""
        return self._state({key: list(view.seconds) for key, view in dict(self.views).items()})

    def news(self, known: int, timeout: float) -> tuple[int, bytes]:
        """Wait for a newer second than the known one; the same for everyone who waits."""
        with self._news:
            self._news.wait_for(lambda: self._number > known or self.closed, timeout)
            return self._number, self._latest if self._number > known else b""

    @property
    def number(self) -> int:
        """The number of the last second."""
        return self._number

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due = max(due + self._every, time.monotonic())
            try:
                self._tick(time.time())
            except Exception:
                log.exception("the page lost a second")

    def _tick(self, now: float) -> None:
        self._meet()
        for view in list(self.views.values()):
            view.second(now)
        newest = {key: list(v.seconds)[-1:] for key, v in self.views.items()}
        latest = json.dumps(self._state(newest), separators=(",", ":")).encode()
        with self._news:
            self._number += 1
            self._latest = latest
            self._news.notify_all()
        self.ticked = time.monotonic()

    def _meet(self) -> None:
        """See who runs: follow those who do, and keep what is over for a look back."""
        seen = set()
        for run in self._runs():
            for status in run.pipelines.values():
                view = self._view(run, status.name) or View(run, status)
                view.key = f"{run.pid}-{status.name}"
                self.views[view.key] = view
                view.follow(run, status, self.clusters)
                seen.add(view.key)
        for key in set(self.views) - seen:
            self.views[key].gone()
        over = [key for key in self.views if key not in seen]
        for key in over[: max(0, len(self.views) - MOST_VIEWS)]:
            del self.views[key]

    def _view(self, run: RunStatus, name: str) -> View | None:
        """Find a pipeline again; it may have learnt its name meanwhile."""
        own = [view for view in self.views.values() if view.run.pid == run.pid]
        found = next((view for view in own if view.status.name == name), None)
        if found is None:
            found = next((v for v in own if v.status.name not in run.pipelines), None)
            if found is not None:
                with contextlib.suppress(KeyError):
                    del self.views[found.key]
        return found

    def _state(self, seconds: dict[str, list[Told]]) -> Told:
        views = dict(self.views)
        return {
            "version": __version__,
            "now": round(time.time(), 3),
            "payloads": self.payloads,
            "pipelines": [
                {**view.told(), "seconds": seconds.get(key, [])} for key, view in views.items()
            ],
            "topics": self.clusters.told(),
            "trouble": self.clusters.trouble(),
        }
