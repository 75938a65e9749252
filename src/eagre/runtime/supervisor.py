"""The parent process: starts, monitors and restarts the Spark children of a run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, Queue
from typing import IO, TYPE_CHECKING, Any

from eagre.broker.registry import born
from eagre.config import project_dir
from eagre.errors import PipelineFailed
from eagre.runtime.runs import Register
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.runtime.spec import RunSpec

Event = dict[str, Any]
END_SECONDS = 20
LISTEN_SECONDS = 0.5
RESTARTS = 10
LONGEST_WAIT_SECONDS = 30.0

NON_RETRYABLE = frozenset(
    {
        "QUERY_REFUSED",
        "TOPIC_REPLACED",
        "RETENTION_OVERTOOK",
        "CHECKPOINT_IN_USE",
        "CHECKPOINT_BROKEN",
        "CHECKPOINT_OTHER_TOPIC",
        "CHECKPOINT_OTHER_CLUSTER",
        "STATE_BROKEN",
        "DELIVERY_LOG_BROKEN",
        "OUTPUT_EXPIRED",
        "KEY_NOT_ALIGNED",
    }
)
"""Permanent failures: a restart would fail in the same way."""


class SparkChild:
    """One Spark process group: starts it, reads its events, drains it, and cleans up after it."""

    def __init__(
        self,
        spec: RunSpec,
        name: str,
        on_event: Callable[[SparkChild, Event], None],
        logs: Path | None = None,
    ) -> None:
        self.spec = spec
        self.name = name
        self.log = _log_file(logs or project_dir() / "logs", name)
        reader, writer = os.pipe()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "eagre.runtime.child", str(writer)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[writer],
                start_new_session=True,
            )
        os.close(writer)
        self.tell(spec.to_json())
        events = os.fdopen(reader)
        self._gone = False
        self._reader = threading.Thread(target=self._read, args=(events, on_event), daemon=True)
        self._reader.start()

    def tell(self, line: str) -> None:
        """Send a command; does nothing if the child has exited."""
        stdin: IO[bytes] | None = self._process.stdin
        if stdin:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(line.encode() + b"\n")
                stdin.flush()

    def drain(self) -> None:
        """Request the child to commit and then exit."""
        self.tell("drain")

    def kill(self) -> None:
        """Kill the whole process group."""
        self._group_gone()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the child and all processes it started have exited."""
        code = self._process.wait(timeout)
        with contextlib.suppress(TimeoutError):
            wait_until(self._group_gone, END_SECONDS, "")
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._reader.join(END_SECONDS)
        return code

    def _group_gone(self) -> bool:
        """Kill the remaining processes of the group; return whether none is left.

        Zombies do not count: if the init process of a container reaps none, they stay forever.
        """
        try:
            if not self._gone:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._gone = not _is_alive(self._process.pid)
        except ProcessLookupError:
            self._gone = True
        return self._gone

    def _read(self, events: IO[str], on_event: Callable[[SparkChild, Event], None]) -> None:
        with events:
            for line in events:
                on_event(self, json.loads(line))
        on_event(self, {"event": "gone"})


@dataclass
class Attempts:
    """A pipeline and its successive Spark children.

    Attributes:
        child: The current child, or the last one.
        last: The child's last event.
        ran: Whether the query has run since the parent started.
        commits: The number of its commits.
        failed: Failures in a row, without a commit between them.
        restarts: How often the pipeline was restarted, in total.
        failure: The failure of the last child.
        due: When the next child starts; None if none is planned.
        over: Whether the pipeline has ended and will not be restarted.
    """

    child: SparkChild
    last: Event = field(default_factory=lambda: {"event": "nothing"})
    ran: bool = False
    commits: int = 0
    failed: int = 0
    restarts: int = 0
    failure: PipelineFailed | None = None
    due: float | None = None
    over: bool = False


class Supervisor:
    """Runs every pipeline of an app, each in its own Spark process, and restarts those that fail.

    Args:
        spec: What to run.
        brokers: Returns the cluster for pipelines that name none, and starts one if necessary.
        on_event: Receives each event with the pipeline's name.
        restarts: How many consecutive failures, without a commit between them, are tolerated; a
            backfill tolerates none.
        page: The address of the run's dashboard, for the register.
    """

    def __init__(
        self,
        spec: RunSpec,
        brokers: Callable[[], str],
        on_event: Callable[[str, Event], None],
        *,
        restarts: int = RESTARTS,
        page: str = "",
    ) -> None:
        self._spec = spec
        self._brokers = brokers
        self._on_event = on_event
        self._restarts = 0 if spec.mode == "available-now" else restarts
        self._events: Queue[tuple[SparkChild, Event]] = Queue()
        self._pipelines: list[Attempts] = []
        self._stopping = 0
        self._running = False
        self._failure: PipelineFailed | None = None
        self._register = Register(spec.app)
        self._register.status.page = page

    def run(self) -> None:
        """Run until every pipeline has ended.

        Raises:
            PipelineFailed: A pipeline failed permanently; the others were drained.
        """
        try:
            self._add(self._spec, self._spec.pipeline or Path(self._spec.app).stem)
            while not all(pipeline.over for pipeline in self._pipelines):
                self._step()
        finally:
            for pipeline in self._pipelines:
                pipeline.child.kill()
                pipeline.child.wait()
            self._register.close()
        if self._failure or self._stopping > 1:
            raise self._failure or PipelineFailed(
                "ENDED_AT_ONCE",
                "the run was stopped without draining; the next start processes the records since "
                "the last commit again.",
            )

    def stop(self) -> None:
        """Drain at the first call, kill at the second. Safe to call from a signal handler.

        Raises:
            KeyboardInterrupt: No query is running yet, so there is nothing to drain.
        """
        self._stopping += 1
        if not self._running:
            raise KeyboardInterrupt
        for pipeline in list(self._pipelines):
            if self._stopping == 1:
                pipeline.child.drain()
            else:
                pipeline.child.kill()

    def _add(self, spec: RunSpec, name: str) -> None:
        self._pipelines.append(Attempts(self._child(spec, name)))
        self._register.pipeline(name)
        self._register.write(now=True)

    def _child(self, spec: RunSpec, name: str) -> SparkChild:
        return SparkChild(spec, name, lambda child, event: self._events.put((child, event)))

    def _step(self) -> None:
        """Handle one event, and start the restarts that are due."""
        due = [pipeline for pipeline in self._pipelines if pipeline.due is not None]
        for pipeline in due:
            if self._stopping or self._failure:
                pipeline.due, pipeline.over = None, True
                self._failure = self._failure or pipeline.failure
            elif time.monotonic() >= (pipeline.due or 0):
                self._restart(pipeline)
        with contextlib.suppress(Empty):
            self._handle(*self._events.get(timeout=LISTEN_SECONDS))

    def _handle(self, child: SparkChild, event: Event) -> None:
        pipeline = next(attempts for attempts in self._pipelines if attempts.child is child)
        kind = event["event"]
        if kind == "gone":
            self._ended(pipeline)
            return
        pipeline.last = event
        if kind == "pipelines":
            self._configure(pipeline, event)
        elif kind == "running":
            self._running = pipeline.ran = True
        elif kind == "status" and event["epochs"] > pipeline.commits:
            pipeline.commits, pipeline.failed = event["epochs"], 0
        self._record(child.name, event)
        if kind != "failed":
            self._on_event(child.name, event)

    def _configure(self, pipeline: Attempts, event: Event) -> None:
        """Send a child its cluster, and start a child for each further pipeline of the file."""
        child = pipeline.child
        self._register.rename(child.name, event["chosen"])
        child.name = event["chosen"]
        needed = self._brokers() if event["needs_brokers"] else ""
        child.tell(self._spec.brokers or needed)
        if child.spec.pipeline is None:
            for name in event["names"][1:]:
                self._add(self._spec.of(name), name)

    def _ended(self, pipeline: Attempts) -> None:
        """Handle the exit of a child: the pipeline has ended, is restarted, or has failed."""
        failure = self._failure_of(pipeline)
        if failure is None:
            pipeline.over = True
            self._register.pipeline(pipeline.child.name).enter("ended")
            return
        self._register.pipeline(pipeline.child.name).failure = f"{failure.code}: {failure.problem}"
        pipeline.failed += 1
        pipeline.failure = failure
        retryable = (
            pipeline.ran and failure.code not in NON_RETRYABLE and pipeline.failed <= self._restarts
        )
        if retryable and not self._stopping and not self._failure:
            wait = (
                min(LONGEST_WAIT_SECONDS, 2.0 ** (pipeline.failed - 2))
                if pipeline.failed > 1
                else 0.0
            )
            pipeline.due = time.monotonic() + wait
            self._report_restart(pipeline, failure, wait)
            return
        pipeline.over = True
        self._failure = self._failure or failure
        self._register.pipeline(pipeline.child.name).enter("failed")
        others = [other for other in self._pipelines if not other.over]
        if others:
            self._on_event(pipeline.child.name, {"event": "note", "text": str(failure)})
        for other in others:
            other.child.drain()

    def _report_restart(self, pipeline: Attempts, failure: PipelineFailed, wait: float) -> None:
        event = {
            "event": "restarting",
            "reason": f"{failure.code}: {failure.problem}",
            "when": f"in {wait:g} s" if wait else "immediately",
            "attempt": pipeline.failed,
            "most": self._restarts,
        }
        self._record(pipeline.child.name, event)
        self._on_event(pipeline.child.name, event)

    def _restart(self, pipeline: Attempts) -> None:
        """Restart a pipeline, without the check: the pipeline has already run."""
        pipeline.due, pipeline.last = None, {"event": "nothing"}
        pipeline.restarts += 1
        pipeline.child.wait()
        checked = replace(self._spec.of(pipeline.child.name), check=False)
        pipeline.child = self._child(checked, pipeline.child.name)
        status = self._register.pipeline(pipeline.child.name)
        status.restarts = pipeline.restarts
        status.enter("starting")

    def _failure_of(self, pipeline: Attempts) -> PipelineFailed | None:
        """Describe how a child failed; None if it ended normally or was stopped."""
        code = pipeline.child.wait(END_SECONDS)
        if pipeline.last["event"] == "ended" or self._stopping > 1:
            return None
        if pipeline.last["event"] == "failed":
            return _failed(pipeline.last, pipeline.child)
        problem = (
            f"the Spark process of pipeline {pipeline.child.name!r} exited unexpectedly "
            f"(exit code {code})."
        )
        hint = f"see {pipeline.child.log}."
        return _failed({"code": "SPARK_ENDED", "problem": problem, "hint": hint}, pipeline.child)

    def _record(self, name: str, event: Event) -> None:
        """Record an event for ``eagre status``."""
        self._register.pipeline(name).update(event)
        self._register.write(now=event["event"] not in ("status", "epoch"))


def _is_alive(group: int) -> bool:
    """Return whether a process group has a process that is not a zombie."""
    import psutil

    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) == group and born(pid) is not None:
                return True
    return False


def _failed(event: Event, child: SparkChild) -> PipelineFailed:
    return PipelineFailed(event["code"], event["problem"], event["hint"], {"log": str(child.log)})


def _log_file(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.log"
    if path.exists():
        path.replace(path.with_suffix(".previous.log"))
    return path
