"""The parent: it owns the Spark children of a run and speaks for them."""

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
"""Failures that a new start would only meet again."""


class SparkChild:
    """One Spark process group: started, heard, told to drain, and ended without a trace."""

    def __init__(
        self,
        spec: RunSpec,
        name: str,
        heard: Callable[[SparkChild, Event], None],
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
        self._reader = threading.Thread(target=self._read, args=(events, heard), daemon=True)
        self._reader.start()

    def tell(self, line: str) -> None:
        """Send an order; a child that is gone hears nothing."""
        stdin: IO[bytes] | None = self._process.stdin
        if stdin:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(line.encode() + b"\n")
                stdin.flush()

    def drain(self) -> None:
        """Let the epoch end and commit, then end."""
        self.tell("drain")

    def kill(self) -> None:
        """End the whole process group at once."""
        self._group_gone()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the child, and of whatever it started."""
        code = self._process.wait(timeout)
        with contextlib.suppress(TimeoutError):
            wait_until(self._group_gone, END_SECONDS, "")
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._reader.join(END_SECONDS)
        return code

    def _group_gone(self) -> bool:
        """End what is left of the group, and tell whether nothing was.

        A zombie is nothing: where the first process of a container reaps none, it stays for good.
        """
        try:
            if not self._gone:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._gone = not _lives(self._process.pid)
        except ProcessLookupError:
            self._gone = True
        return self._gone

    def _read(self, events: IO[str], heard: Callable[[SparkChild, Event], None]) -> None:
        with events:
            for line in events:
                heard(self, json.loads(line))
        heard(self, {"event": "gone"})


@dataclass
class Attempts:
    """A pipeline and its children, one after the other.

    Attributes:
        child: The one that runs, or ran last.
        last: The last event heard of it.
        ran: Whether the query has run since the parent began.
        commits: How far its commits came.
        failed: Failures in a row, without a commit between them.
        restarts: How often it was started again, in all.
        failure: How the last one failed.
        due: When the next child starts, where one is to.
        over: Whether no other child comes.
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
    """Runs every pipeline of an app, each in a Spark process of its own, again where one fails.

    Args:
        spec: What to run.
        brokers: Gives the cluster for pipelines that name none, starting one if it must.
        on_event: Hears each event with the pipeline's name.
        early: Ask for the cluster at once, while Spark starts.
        restarts: After how many failures in a row, without a commit between them, a pipeline is
            given up; a backfill at the first.
        page: The address of the run's page, for the register.
    """

    def __init__(
        self,
        spec: RunSpec,
        brokers: Callable[[], str],
        on_event: Callable[[str, Event], None],
        *,
        early: bool = False,
        restarts: int = RESTARTS,
        page: str = "",
    ) -> None:
        self._spec = spec
        self._brokers = brokers
        self._on_event = on_event
        self._early = early
        self._restarts = 0 if spec.mode == "available-now" else restarts
        self._events: Queue[tuple[SparkChild, Event]] = Queue()
        self._all: list[Attempts] = []
        self._stopping = 0
        self._running = False
        self._failure: PipelineFailed | None = None
        self._register = Register(spec.app)
        self._register.status.page = page

    def run(self) -> None:
        """Run until every pipeline has ended.

        Raises:
            PipelineFailed: One failed for good; the others were drained.
        """
        try:
            self._add(self._spec, self._spec.pipeline or Path(self._spec.app).stem)
            if self._early:
                self._brokers()
            while not all(one.over for one in self._all):
                self._step()
        finally:
            for one in self._all:
                one.child.kill()
                one.child.wait()
            self._register.close()
        if self._failure or self._stopping > 1:
            raise self._failure or PipelineFailed(
                "ENDED_AT_ONCE",
                "the run was ended without a drain; what came since the last commit is repeated at "
                "the next start.",
            )

    def stop(self) -> None:
        """Drain at the first call, end at once at the second. Made for a signal handler.

        Raises:
            KeyboardInterrupt: Nothing runs yet, so there is nothing to drain.
        """
        self._stopping += 1
        if not self._running:
            raise KeyboardInterrupt
        for one in list(self._all):
            if self._stopping == 1:
                one.child.drain()
            else:
                one.child.kill()

    def _add(self, spec: RunSpec, name: str) -> None:
        self._all.append(Attempts(self._child(spec, name)))
        self._register.pipeline(name)
        self._register.write(now=True)

    def _child(self, spec: RunSpec, name: str) -> SparkChild:
        return SparkChild(spec, name, lambda child, event: self._events.put((child, event)))

    def _step(self) -> None:
        """Hear one event, or start what is due."""
        due = [one for one in self._all if one.due is not None]
        for one in due:
            if self._stopping or self._failure:
                one.due, one.over = None, True
                self._failure = self._failure or one.failure
            elif time.monotonic() >= (one.due or 0):
                self._again(one)
        with contextlib.suppress(Empty):
            self._hear(*self._events.get(timeout=LISTEN_SECONDS))

    def _hear(self, child: SparkChild, event: Event) -> None:
        one = next(attempts for attempts in self._all if attempts.child is child)
        kind = event["event"]
        if kind == "gone":
            self._ended(one)
            return
        one.last = event
        if kind == "pipelines":
            self._settle(one, event)
        elif kind == "running":
            self._running = one.ran = True
        elif kind == "status" and event["epochs"] > one.commits:
            one.commits, one.failed = event["epochs"], 0
        self._note(child.name, event)
        if kind != "failed":
            self._on_event(child.name, event)

    def _settle(self, one: Attempts, event: Event) -> None:
        """Tell a child its cluster, and start one for each further pipeline of the file."""
        child = one.child
        self._register.rename(child.name, event["chosen"])
        child.name = event["chosen"]
        needed = self._brokers() if event["needs_brokers"] and not self._spec.brokers else ""
        child.tell(self._spec.brokers or needed)
        if child.spec.pipeline is None:
            for name in event["names"][1:]:
                self._add(self._spec.of(name), name)

    def _ended(self, one: Attempts) -> None:
        """A child is gone: that was all, or it starts again, or the run has failed."""
        failure = self._failure_of(one)
        if failure is None:
            one.over = True
            self._register.pipeline(one.child.name).enter("ended")
            return
        self._register.pipeline(one.child.name).failure = f"{failure.code}: {failure.problem}"
        one.failed += 1
        one.failure = failure
        worth = one.ran and failure.code not in NON_RETRYABLE and one.failed <= self._restarts
        if worth and not self._stopping and not self._failure:
            wait = min(LONGEST_WAIT_SECONDS, 2.0 ** (one.failed - 2)) if one.failed > 1 else 0.0
            one.due = time.monotonic() + wait
            self._tell_restart(one, failure, wait)
            return
        one.over = True
        self._failure = self._failure or failure
        self._register.pipeline(one.child.name).enter("failed")
        others = [other for other in self._all if not other.over]
        if others:
            self._on_event(one.child.name, {"event": "note", "text": str(failure)})
        for other in others:
            other.child.drain()

    def _tell_restart(self, one: Attempts, failure: PipelineFailed, wait: float) -> None:
        event = {
            "event": "restarting",
            "reason": f"{failure.code}: {failure.problem}",
            "when": f"in {wait:g} s" if wait else "at once",
            "attempt": one.failed,
            "most": self._restarts,
        }
        self._note(one.child.name, event)
        self._on_event(one.child.name, event)

    def _again(self, one: Attempts) -> None:
        """Start a pipeline once more; it has run, so that the check has nothing to add."""
        one.due, one.last = None, {"event": "nothing"}
        one.restarts += 1
        one.child.wait()
        checked = replace(self._spec.of(one.child.name), check=False)
        one.child = self._child(checked, one.child.name)
        status = self._register.pipeline(one.child.name)
        status.restarts = one.restarts
        status.enter("starting")

    def _failure_of(self, one: Attempts) -> PipelineFailed | None:
        """Describe how a child failed; None where it ended, or was told to."""
        code = one.child.wait(END_SECONDS)
        if one.last["event"] == "ended" or self._stopping > 1:
            return None
        if one.last["event"] == "failed":
            return _failed(one.last, one.child)
        problem = f"the Spark process of pipeline {one.child.name!r} ended with code {code}."
        hint = f"its log is {one.child.log}."
        return _failed({"code": "SPARK_ENDED", "problem": problem, "hint": hint}, one.child)

    def _note(self, name: str, event: Event) -> None:
        """Keep what ``eagre status`` shows."""
        self._register.pipeline(name).hear(event)
        self._register.write(now=event["event"] not in ("status", "epoch"))


def _lives(group: int) -> bool:
    """Tell whether a process group has a process that is no zombie."""
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
