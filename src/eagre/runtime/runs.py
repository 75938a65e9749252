"""Which pipelines run on this machine: one small file for each run, stale ones removed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from eagre.broker.registry import born, living, same_process
from eagre.config import state_dir
from eagre.errors import PipelineFailed
from eagre.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

WRITE_SECONDS = 1


@dataclass
class PipelineStatus:
    """One pipeline as ``eagre status`` shows it.

    Attributes:
        name: The pipeline.
        phase: ``starting``, ``running``, ``stalled``, ``draining``, ``waiting`` (to start again),
            ``ended`` or ``failed``.
        mode: Real time, micro-batch or available-now.
        checkpoint: Its folder.
        since: When the phase began, in seconds since 1970.
        lag: Records not yet read.
        written: Where the output ends, over all partitions.
        commits: Epochs or batches committed.
        restarts: How often it was started again.
        failure: Why it last failed, in a sentence.
        reason: Why it is stalled or waits.
    """

    name: str
    phase: str = "starting"
    mode: str = ""
    checkpoint: str = ""
    since: float = field(default_factory=time.time)
    lag: int | None = None
    written: int | None = None
    commits: int = 0
    restarts: int = 0
    failure: str = ""
    reason: str = ""

    def enter(self, phase: str, reason: str = "") -> None:
        """Go to a phase."""
        if phase != self.phase:
            self.since = time.time()
        self.phase, self.reason = phase, reason


@dataclass
class RunStatus:
    """A run and its pipelines."""

    pid: int
    born: float
    app: str
    pipelines: dict[str, PipelineStatus] = field(default_factory=dict)

    @classmethod
    def own(cls, app: str) -> RunStatus:
        """Begin the status of this process."""
        pid = os.getpid()
        return cls(pid, born(pid) or time.time(), app)

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return same_process(self.pid, self.born)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


class Register:
    """Keeps the file of this process up to date; written at most once a second."""

    def __init__(self, app: str) -> None:
        self.status = RunStatus.own(app)
        self._written = 0.0
        self._path = _folder() / f"{self.status.pid}.json"

    def pipeline(self, name: str) -> PipelineStatus:
        """Give a pipeline's status, to be changed."""
        return self.status.pipelines.setdefault(name, PipelineStatus(name))

    def rename(self, before: str, name: str) -> None:
        """Call a pipeline by its name, as soon as that is known."""
        if before != name and before in self.status.pipelines:
            one = self.status.pipelines.pop(before)
            one.name = name
            self.status.pipelines.setdefault(name, one)

    def write(self, *, now: bool = False) -> None:
        """Write the file, unless it was just written; a run goes on where that fails."""
        if not now and time.monotonic() - self._written < WRITE_SECONDS:
            return
        self._written = time.monotonic()
        with contextlib.suppress(OSError):
            write_whole(self._path, json.dumps(self.status.as_dict()))

    def close(self) -> None:
        """Remove the file: the run is over."""
        self._path.unlink(missing_ok=True)


def running() -> list[RunStatus]:
    """List the runs of this user, and forget those that ended without a word."""
    return living(_folder(), _read)


def find(name: str) -> RunStatus:
    """Give the run of a pipeline.

    Raises:
        PipelineFailed: None runs under that name, or several do.
    """
    runs = running()
    fit = [run for run in runs if name in run.pipelines]
    if len(fit) == 1:
        return fit[0]
    names = ", ".join(sorted(n for run in runs for n in run.pipelines)) or "none"
    raise PipelineFailed(
        "PIPELINE_NOT_RUNNING" if not fit else "SEVERAL_RUNS",
        f"no pipeline {name!r} is running; these are: {names}."
        if not fit
        else f"several runs have a pipeline {name!r}: processes "
        f"{', '.join(str(run.pid) for run in fit)}.",
        hint="see `eagre status`." if not fit else "end one with `kill PID`, which drains it.",
    )


def end(run: RunStatus, *, at_once: bool) -> None:
    """Drain a run, or end it at once."""
    os.kill(run.pid, signal.SIGTERM)
    if at_once:
        time.sleep(0.2)
        os.kill(run.pid, signal.SIGTERM)


def _read(path: Path) -> RunStatus | None:
    try:
        entries = json.loads(path.read_text())
        entries["pipelines"] = {
            name: PipelineStatus(**status) for name, status in entries["pipelines"].items()
        }
        return RunStatus(**entries)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _folder() -> Path:
    return state_dir() / "runs"
