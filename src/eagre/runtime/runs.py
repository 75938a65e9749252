"""The registry of runs on this machine: one small file per run; stale files are removed."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import time
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from eagre.broker.registry import born, living, same_process
from eagre.config import project_dir, state_dir
from eagre.errors import FileError, PipelineFailed
from eagre.files import alone, formatted, make_folder, unformatted, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)
WRITE_SECONDS = 1
RETAINED = 30
"""How many epochs, stalls, starts and notes a status retains."""
FAILURES = 10
"""How many failures of a pipeline are retained, across runs."""


@dataclass
class PipelineStatus:
    """One pipeline as ``eagre status`` shows it.

    Attributes:
        name: The pipeline.
        phase: ``starting``, ``running``, ``stalled``, ``draining``, ``waiting`` (to restart),
            ``ended`` or ``failed``.
        mode: Real time, micro-batch or available-now.
        checkpoint: Its folder.
        since: When the phase started, in seconds since 1970.
        lag: Records not yet read.
        written: The sum of the output's end offsets.
        late: Rows that arrived too late for an operator, since the last start.
        commits: Epochs or batches committed.
        overdue_seconds: How long the next commit has been overdue; 0 if it is not.
        overdue_reason: What that commit waits for.
        restarts: How often the pipeline was restarted.
        standby: Whether a spare process is ready to take over.
        failure: The reason for the last failure, in a sentence.
        reason: Why the pipeline is stalled or waiting, or the current step of its start.
        every_ms: The epoch in real time, the trigger in micro-batch.
        about: Its sources, sink and settings: ``runtime.description.about`` lists the fields.
        metrics: Metrics of its JVM; empty before the first second.
        epochs: The last epochs or batches with their phases, newest last.
        runs: When each of its runs started, in seconds since 1970.
        stalls: When it stalled: start, end (0 while it lasts) and reason.
        notes: Its last messages, with their times.
        failures: Its last failures with their times, newest last, also of earlier runs.
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
    overdue_seconds: float = 0.0
    overdue_reason: str = ""
    restarts: int = 0
    standby: bool = False
    failure: str = ""
    reason: str = ""
    every_ms: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)
    stalls: list[list[Any]] = field(default_factory=list)
    notes: list[list[Any]] = field(default_factory=list)
    failures: list[list[Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the status as JSON-serializable entries, some also by their names until 0.2."""
        entries = asdict(self)
        about = entries["about"]
        if "dead_letters" in about:
            about["letters"] = about["dead_letters"]
        return {**entries, "vitals": entries["metrics"]}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> PipelineStatus:
        """Read a status of another release: version 0.2 had other names, a newer one has more."""
        entries = {"metrics": entries.get("vitals", {}), **entries}
        about = dict(entries.get("about", {}))
        if "letters" in about:
            about = {"dead_letters": about.pop("letters"), **about}
        return cls(**_known(cls, {**entries, "about": about}))

    def fail(self, reason: str) -> None:
        """Record a failure."""
        self.failure = reason
        self.add_failures([[time.time(), reason]])

    def add_failures(self, failures: list[list[Any]]) -> None:
        """Add failures, for example of earlier runs, to those that are retained."""
        distinct = {(at, reason) for at, reason in [*self.failures, *failures]}
        self.failures = [[at, reason] for at, reason in sorted(distinct)][-FAILURES:]

    def enter(self, phase: str, reason: str = "") -> None:
        """Enter a phase."""
        if phase != self.phase:
            self.since = time.time()
        if phase not in ("running", "stalled"):
            self.overdue_seconds, self.overdue_reason = 0.0, ""
        if phase == "stalled":
            self.stalls = [*self.stalls, [self.since, 0, reason]][-RETAINED:]
        elif self.stalls and not self.stalls[-1][1]:
            self.stalls[-1][1] = time.time()
        if phase == "running" and self.phase != "stalled":
            self.runs = [*self.runs, self.since][-RETAINED:]
        self.phase, self.reason = phase, reason

    @property
    def overdue(self) -> str:
        """A sentence about an overdue commit; empty if none is."""
        if not self.overdue_seconds:
            return ""
        return f"a commit is overdue by {self.overdue_seconds:.0f} s: {self.overdue_reason}"

    def update(self, event: dict[str, Any]) -> None:
        """Update the status from an event of the Spark child."""
        handle = getattr(self, f"_on_{event['event']}", None)
        if handle:
            handle(event)

    def _on_running(self, event: dict[str, Any]) -> None:
        self.mode, self.checkpoint = event["mode"], event["checkpoint"]
        self.every_ms = event["every_ms"]
        self.about = {**self.about, **event["about"]}
        self.enter("running")

    def _on_graph(self, event: dict[str, Any]) -> None:
        self.about = {**self.about, "stages": event["stages"]}

    def _on_status(self, event: dict[str, Any]) -> None:
        self.lag, self.written, self.late = event["lag"], event["written"], event["late"]
        self.commits, self.metrics = event["epochs"], event["metrics"]
        self.overdue_seconds = event["overdue_seconds"]
        self.overdue_reason = event["overdue_reason"]

    def _on_epoch(self, event: dict[str, Any]) -> None:
        epoch = {key: value for key, value in event.items() if key != "event"}
        self.epochs = [*self.epochs, epoch][-RETAINED:]

    def _on_phase(self, event: dict[str, Any]) -> None:
        if self.phase == "starting":
            self.reason = event["text"]

    def _on_note(self, event: dict[str, Any]) -> None:
        self._add_note(event["text"])

    def _on_stalled(self, event: dict[str, Any]) -> None:
        self.enter("stalled", event["reason"])

    def _on_flows(self, _: dict[str, Any]) -> None:
        self.enter("running")

    def _on_draining(self, _: dict[str, Any]) -> None:
        self.enter("draining")

    def _on_restarting(self, event: dict[str, Any]) -> None:
        self.enter("waiting", f"restarts {event['when']}")
        self._add_note(event["reason"])

    def _add_note(self, text: str) -> None:
        self.notes = [*self.notes, [time.time(), text]][-RETAINED:]


@dataclass
class RunStatus:
    """A run and its pipelines.

    Attributes:
        pid: The id of its process.
        born: When that process started, in seconds since 1970.
        app: The app file.
        dashboard: The address of its dashboard, without the token.
        pipelines: By name.
    """

    pid: int
    born: float
    app: str
    dashboard: str = ""
    pipelines: dict[str, PipelineStatus] = field(default_factory=dict)

    @classmethod
    def of_this_process(cls, app: str) -> RunStatus:
        """Create the status of this process."""
        pid = os.getpid()
        return cls(pid, born(pid) or time.time(), app)

    @property
    def alive(self) -> bool:
        """Whether its process is still running."""
        return same_process(self.pid, self.born)

    def as_dict(self) -> dict[str, Any]:
        """Return the status as JSON-serializable entries, some also by their names until 0.2."""
        pipelines = {name: status.as_dict() for name, status in self.pipelines.items()}
        return {**vars(self), "page": self.dashboard, "pipelines": pipelines}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> RunStatus:
        """Read a status of another release, as that of a pipeline."""
        pipelines = {
            name: PipelineStatus.from_dict(status) for name, status in entries["pipelines"].items()
        }
        entries = {"dashboard": entries.get("page", ""), **entries, "pipelines": pipelines}
        return cls(**_known(cls, entries))


def _known(status: type, entries: dict[str, Any]) -> dict[str, Any]:
    """Return the entries that are fields of a status."""
    names = {each.name for each in fields(status)}
    return {name: value for name, value in entries.items() if name in names}


class Register:
    """Maintains the status file of this process; writes it at most once a second."""

    def __init__(self, app: str) -> None:
        self.status = RunStatus.of_this_process(app)
        self._written = 0.0
        self._text = ""
        self._path = _folder() / f"{self.status.pid}.json"

    def pipeline(self, name: str) -> PipelineStatus:
        """Return a pipeline's status, which the caller may change."""
        return self.status.pipelines.setdefault(name, PipelineStatus(name))

    def fail(self, name: str, reason: str) -> None:
        """Record a failure, also for the next run of the pipeline."""
        self.pipeline(name).fail(reason)
        self._keep_failures(name)

    def rename(self, before: str, name: str) -> None:
        """Rename a pipeline when its real name becomes known."""
        if before != name and before in self.status.pipelines:
            pipeline = self.status.pipelines.pop(before)
            pipeline.name = name
            self.status.pipelines.setdefault(name, pipeline)
        self._keep_failures(name)

    def _keep_failures(self, name: str) -> None:
        """Merge the failures of a pipeline with those in its file, where other runs write too."""
        status, path = self.pipeline(name), _failures_file(name)
        try:
            make_folder(path.parent, private=True)
            with alone(path):
                status.add_failures(_read_failures(path))
                text = formatted({"failures": status.failures})
                write_atomically(path, text, private=True)
        except FileError as error:
            log.warning("failures are not recorded: %s", error)
        except OSError:
            pass  # a place that cannot be written is no failure of the run

    def write(self, *, now: bool = False) -> None:
        """Write the file unless it was just written; a failure does not stop the run."""
        if not now and time.monotonic() - self._written < WRITE_SECONDS:
            return
        self._written = time.monotonic()
        self.status.born = born(self.status.pid) or self.status.born  # the clock may have been set
        self._text = formatted(self.status.as_dict())
        with contextlib.suppress(OSError):
            write_atomically(self._path, self._text, private=True)

    def last_written(self) -> list[RunStatus]:
        """Return the status as it was last written, also if the file could not be."""
        return [_parse(self._text, self._path)] if self._text else []

    def close(self) -> None:
        """Remove the file: the run is over."""
        self._text = ""
        with contextlib.suppress(OSError):
            self._path.unlink()


def running() -> list[RunStatus]:
    """List the runs of this user, and remove those that exited unexpectedly."""
    return living(_folder(), _read)


def find(name: str) -> RunStatus:
    """Return the run of a pipeline.

    Raises:
        PipelineFailed: No run or several runs have a pipeline of that name.
    """
    runs = running()
    matches = [run for run in runs if name in run.pipelines]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(sorted(n for run in runs for n in run.pipelines)) or "none"
    raise PipelineFailed(
        "PIPELINE_NOT_RUNNING" if not matches else "SEVERAL_RUNS",
        f"no pipeline {name!r} is running; running pipelines: {names}."
        if not matches
        else f"several runs have a pipeline {name!r}: processes "
        f"{', '.join(str(run.pid) for run in matches)}.",
        hint="see `eagre status`." if not matches else "stop one with `kill PID`, which drains it.",
    )


def end(run: RunStatus, *, at_once: bool) -> None:
    """Drain a run, or kill it immediately.

    A second signal of the same kind could arrive together with the first, and would be lost.
    """
    for sign in (signal.SIGTERM, signal.SIGINT) if at_once else (signal.SIGTERM,):
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.pid, sign)


def _read(path: Path) -> RunStatus | None:
    try:
        return _parse(path.read_text(), path)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _parse(text: str, path: Path) -> RunStatus:
    return RunStatus.from_dict(unformatted(text, path))


def _failures_file(name: str) -> Path:
    return project_dir() / "logs" / f"{name}.failures.json"


def _read_failures(path: Path) -> list[list[Any]]:
    """Read the failures of a pipeline's earlier runs in this project; at first they were a list.

    Raises:
        FileError: A newer release wrote them.
    """
    try:
        text = path.read_text()
        entries = json.loads(text)
        if not isinstance(entries, list):
            entries = unformatted(text, path)["failures"]
        return [[float(at), str(reason)] for at, reason in entries][-FAILURES:]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def _folder() -> Path:
    return state_dir() / "runs"
