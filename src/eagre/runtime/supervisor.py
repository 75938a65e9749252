"""The parent: it owns the Spark children of a run and speaks for them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue
from typing import IO, TYPE_CHECKING, Any

from eagre.config import project_dir
from eagre.errors import PipelineFailed
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.runtime.spec import RunSpec

Event = dict[str, Any]
END_SECONDS = 20


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
        """End what is left of the group, and tell whether nothing was."""
        try:
            if not self._gone:
                os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            self._gone = True
        return self._gone

    def _read(self, events: IO[str], heard: Callable[[SparkChild, Event], None]) -> None:
        with events:
            for line in events:
                heard(self, json.loads(line))
        heard(self, {"event": "gone"})


class Supervisor:
    """Runs every pipeline of an app, each in a Spark process of its own.

    Args:
        spec: What to run.
        brokers: Gives the cluster for pipelines that name none, starting one if it must.
        on_event: Hears each event with the pipeline's name.
        early: Ask for the cluster at once, while Spark starts.
    """

    def __init__(
        self,
        spec: RunSpec,
        brokers: Callable[[], str],
        on_event: Callable[[str, Event], None],
        *,
        early: bool = False,
    ) -> None:
        self._spec = spec
        self._brokers = brokers
        self._on_event = on_event
        self._early = early
        self._events: Queue[tuple[SparkChild, Event]] = Queue()
        self._children: dict[SparkChild, Event | None] = {}
        self._stopping = 0
        self._running = False

    def run(self) -> None:
        """Run until every pipeline has ended.

        Raises:
            PipelineFailed: One failed; the others were drained.
        """
        try:
            self._add(self._spec, self._spec.pipeline or Path(self._spec.app).stem)
            if self._early:
                self._brokers()
            self._listen()
        finally:
            for child in self._children:
                child.kill()
                child.wait()

    def stop(self) -> None:
        """Drain at the first call, end at once at the second. Made for a signal handler.

        Raises:
            KeyboardInterrupt: Nothing runs yet, so there is nothing to drain.
        """
        self._stopping += 1
        if not self._running:
            raise KeyboardInterrupt
        for child in list(self._children):
            if self._stopping == 1:
                child.drain()
            else:
                child.kill()

    def _add(self, spec: RunSpec, name: str) -> SparkChild:
        child = SparkChild(spec, name, lambda child, event: self._events.put((child, event)))
        self._children[child] = None
        return child

    def _listen(self) -> None:
        failure: PipelineFailed | None = None
        gone = 0
        while gone < len(self._children):
            child, event = self._events.get()
            kind = event["event"]
            if kind == "gone":
                gone += 1
                silent = self._silent_end(child)
                failure = failure or silent
                if silent:
                    self._on_event(child.name, {"event": "note", "text": str(silent)})
                    self._drain_others(child)
                continue
            self._children[child] = event
            if kind == "pipelines":
                self._settle(child, event)
            elif kind == "running":
                self._running = True
            elif kind == "failed":
                failure = failure or _failed(event, child)
                self._drain_others(child)
            self._on_event(child.name, event)
        if failure or self._stopping > 1:
            raise failure or PipelineFailed(
                "ENDED_AT_ONCE",
                "the run was ended without a drain; what came since the last commit is repeated at "
                "the next start.",
            )

    def _settle(self, child: SparkChild, event: Event) -> None:
        """Tell a child its cluster, and start one for each further pipeline of the file."""
        child.name = event["chosen"]
        needed = self._brokers() if event["needs_brokers"] and not self._spec.brokers else ""
        child.tell(self._spec.brokers or needed)
        if child.spec.pipeline is None:
            for name in event["names"][1:]:
                self._add(self._spec.of(name), name)

    def _drain_others(self, failed: SparkChild) -> None:
        for child in self._children:
            if child is not failed:
                child.drain()

    def _silent_end(self, child: SparkChild) -> PipelineFailed | None:
        """Describe a child that went without a word, unless it was told to."""
        last = self._children[child] or {"event": "nothing"}
        code = child.wait(END_SECONDS)
        if last["event"] in ("ended", "failed") or self._stopping > 1:
            return None
        problem = f"the Spark process of pipeline {child.name!r} ended with code {code}."
        event = {"code": "SPARK_ENDED", "problem": problem, "hint": f"its log is {child.log}."}
        return _failed(event, child)


def _failed(event: Event, child: SparkChild) -> PipelineFailed:
    return PipelineFailed(event["code"], event["problem"], event["hint"], {"log": str(child.log)})


def _log_file(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.log"
    if path.exists():
        path.replace(path.with_suffix(".previous.log"))
    return path
