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
KEPT = 30
"""How many epochs, stalls, starts and notes are kept."""


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
        late: Rows that came too late for an operator, since its last start.
        commits: Epochs or batches committed.
        restarts: How often it was started again.
        failure: Why it last failed, in a sentence.
        reason: Why it is stalled or waits; what it does while it starts.
        every_ms: The epoch in real time, the trigger in micro-batch.
        about: What it is made of and where: ``runtime.about`` has the fields.
        vitals: How its JVM fares; empty before the first second.
        epochs: The last epochs or batches with their phases, the newest last.
        runs: When it began to run, each time, in seconds since 1970.
        stalls: When it stood still: beginning, end (0 while it does) and reason.
        notes: What it last told, with the time.
    """

    name: str
    phase: str = "starting"
    mode: str = ""
    checkpoint: str = ""
    since: float = field(default_factory=time.time)
    lag: int | None = None
    written: int | None = None
    late: int = 0
    commits: int = 0
    restarts: int = 0
    failure: str = ""
    reason: str = ""
    every_ms: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    vitals: dict[str, Any] = field(default_factory=dict)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)
    stalls: list[list[Any]] = field(default_factory=list)
    notes: list[list[Any]] = field(default_factory=list)

    def enter(self, phase: str, reason: str = "") -> None:
        """Go to a phase."""
        if phase != self.phase:
            self.since = time.time()
        if phase == "stalled":
            self.stalls = [*self.stalls, [self.since, 0, reason]][-KEPT:]
        elif self.stalls and not self.stalls[-1][1]:
            self.stalls[-1][1] = time.time()
        if phase == "running" and self.phase != "stalled":
            self.runs = [*self.runs, self.since][-KEPT:]
        self.phase, self.reason = phase, reason

    def hear(self, event: dict[str, Any]) -> None:
        """Keep what an event of the Spark child tells."""
        hear = getattr(self, f"_hear_{event['event']}", None)
        if hear:
            hear(event)

    def _hear_running(self, event: dict[str, Any]) -> None:
        self.mode, self.checkpoint = event["mode"], event["checkpoint"]
        self.every_ms = event["every_ms"]
        self.about = {**self.about, **event["about"]}
        self.enter("running")

    def _hear_graph(self, event: dict[str, Any]) -> None:
        self.about = {**self.about, "stages": event["stages"]}

    def _hear_status(self, event: dict[str, Any]) -> None:
        self.lag, self.written, self.late = event["lag"], event["written"], event["late"]
        self.commits, self.vitals = event["epochs"], event["vitals"]

    def _hear_epoch(self, event: dict[str, Any]) -> None:
        told = {key: value for key, value in event.items() if key != "event"}
        self.epochs = [*self.epochs, told][-KEPT:]

    def _hear_phase(self, event: dict[str, Any]) -> None:
        if self.phase == "starting":
            self.reason = event["text"]

    def _hear_note(self, event: dict[str, Any]) -> None:
        self._keep(event["text"])

    def _hear_stalled(self, event: dict[str, Any]) -> None:
        self.enter("stalled", event["reason"])

    def _hear_flows(self, _: dict[str, Any]) -> None:
        self.enter("running")

    def _hear_draining(self, _: dict[str, Any]) -> None:
        self.enter("draining")

    def _hear_restarting(self, event: dict[str, Any]) -> None:
        self.enter("waiting", f"starts again {event['when']}")
        self._keep(event["reason"])

    def _keep(self, text: str) -> None:
        self.notes = [*self.notes, [time.time(), text]][-KEPT:]


@dataclass
class RunStatus:
    """A run and its pipelines.

    Attributes:
        pid: Its process.
        born: When that began, in seconds since 1970.
        app: The file.
        page: The address of its page, without the token.
        pipelines: By name.
    """

    pid: int
    born: float
    app: str
    page: str = ""
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
