"""Records every second what the dashboard and the metrics show."""

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
"""Without an update for so long, the dashboard is unhealthy."""

Json = dict[str, Any]


class Recorder:
    """Polls the running pipelines every second.

    Args:
        runs: Returns the runs to show.
        payloads: Whether to show the content of records.
        every: The update interval in seconds; shorter in tests.
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
        self._updated = threading.Condition()
        self._number = 0
        self._latest = b""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="eagre-dashboard", daemon=True)

    def start(self) -> None:
        """Start recording."""
        self._thread.start()

    def close(self) -> None:
        """Stop recording, and close all clusters."""
        self._over.set()
        with self._updated:
            self._updated.notify_all()
        self._thread.join(5)
        for view in self.views.values():
            view.close()
        self.clusters.close()

    @property
    def closed(self) -> bool:
        """Whether recording has been stopped."""
        return self._over.is_set()

    def healthy(self) -> bool:
        """Return whether the recorder is still updating."""
        return time.monotonic() - self.ticked < LATE_SECONDS

    def full_state(self) -> Json:
        """Return the state with all retained seconds, as served at ``/api/state``."""
        return self._state({key: list(view.seconds) for key, view in dict(self.views).items()})

    def wait_for_update(self, known: int, timeout: float) -> tuple[int, bytes]:
        """Wait for an update after a known second; all clients get the same bytes."""
        with self._updated:
            self._updated.wait_for(lambda: self._number > known or self.closed, timeout)
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
                log.exception("the dashboard missed an update")

    def _tick(self, now: float) -> None:
        self._follow_runs()
        for view in list(self.views.values()):
            view.second(now)
        newest = {key: list(v.seconds)[-1:] for key, v in self.views.items()}
        latest = json.dumps(self._state(newest), separators=(",", ":")).encode()
        with self._updated:
            self._number += 1
            self._latest = latest
            self._updated.notify_all()
        self.ticked = time.monotonic()

    def _follow_runs(self) -> None:
        """Update the views of running pipelines, and retain those that have ended."""
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
        """Find the view of a pipeline, which may have been renamed meanwhile."""
        views = [view for view in self.views.values() if view.run.pid == run.pid]
        match = next((view for view in views if view.status.name == name), None)
        if match is None:
            match = next((v for v in views if v.status.name not in run.pipelines), None)
            if match is not None:
                with contextlib.suppress(KeyError):
                    del self.views[match.key]
        return match

    def _state(self, seconds: dict[str, list[Json]]) -> Json:
        views = dict(self.views)
        return {
            "version": __version__,
            "now": round(time.time(), 3),
            "payloads": self.payloads,
            "pipelines": [
                {**view.describe(), "seconds": seconds.get(key, [])} for key, view in views.items()
            ],
            "topics": self.clusters.describe(),
            "trouble": self.clusters.trouble(),
        }
