"""The parent process: starts, monitors and restarts the Spark children of a run."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from eagre.commit import Checkpoint
from eagre.errors import PipelineFailed
from eagre.runtime.attempts import Attempts
from eagre.runtime.execution.failures import NON_RETRYABLE
from eagre.runtime.runs import Register
from eagre.runtime.spark_child import END_SECONDS, Event, SparkChild, is_process_1, reap_orphans
from eagre.runtime.standby import Standby

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.runtime.runs import RunStatus
    from eagre.runtime.spec import RunSpec

LISTEN_SECONDS = 0.5
REAP_SECONDS = 5.0
EXIT_SECONDS = {"failed": 5.0, "ended": END_SECONDS}
"""How long a child may take to exit after its last event; one that has ended stops Spark first."""
RESTARTS = 10
LONGEST_WAIT_SECONDS = 30.0

SPARK_ENDED = "SPARK_ENDED"
"""The code of a failure that says nothing about the pipeline: its process or JVM died, or could not
be started."""


class Supervisor:
    """Runs every pipeline of an app, each in its own Spark process, and restarts those that fail.

    Args:
        spec: What to run.
        brokers: Returns the cluster for pipelines that name none, and starts one if necessary.
        on_event: Receives each event with the pipeline's name.
        restarts: How many failures in a row are tolerated, each without a commit since its start;
            a backfill tolerates none.
        standby: Whether each pipeline has a spare process that takes over when its own one fails.
    """

    def __init__(
        self,
        spec: RunSpec,
        brokers: Callable[[], str],
        on_event: Callable[[str, Event], None],
        *,
        restarts: int = RESTARTS,
        standby: bool = False,
    ) -> None:
        self._spec = spec
        self._brokers = brokers
        self._on_event = on_event
        self._restarts = 0 if spec.mode == "available-now" else restarts
        self._standby = standby
        self._events: SimpleQueue[tuple[SparkChild, Event] | None] = SimpleQueue()
        self._pipelines: list[Attempts] = []
        self._stopping = 0
        self._stopped = 0
        self._cut_off = False
        self._interrupt = KeyboardInterrupt
        self._starting_broker = False
        self._reap_at = 0.0
        self._failure: PipelineFailed | None = None
        self._register = Register(spec.app)

    def shown(self) -> list[RunStatus]:
        """Return the status of the run for a dashboard, from any thread."""
        return self._register.last_written()

    def run(self, dashboard: str = "") -> None:
        """Run until every pipeline has ended.

        Args:
            dashboard: The address of the run's dashboard, for the register.

        Raises:
            PipelineFailed: A pipeline failed permanently, or was restarting after a failure when
                the run was stopped; the others were drained.
            KeyboardInterrupt: The run was stopped before any query had started.
        """
        self._register.status.dashboard = dashboard
        try:
            self._add(self._spec, self._spec.pipeline or Path(self._spec.app).stem)
            while not all(pipeline.over for pipeline in self._pipelines):
                self._step()
        finally:
            for pipeline in self._pipelines:
                pipeline.child.kill()
                pipeline.child.wait()
                pipeline.standby.close()
            self._register.close()
        if self._failure or self._cut_off:
            raise self._failure or PipelineFailed(
                "ENDED_AT_ONCE",
                "the run was stopped without draining; the next start processes the records since "
                "the last commit again.",
            )
        if self._stopping and not any(pipeline.ran for pipeline in self._pipelines):
            raise self._interrupt

    def stop(self, interrupt: type[KeyboardInterrupt] = KeyboardInterrupt) -> None:
        """Drain at the first call, kill at the second. Safe to call from a signal handler.

        Args:
            interrupt: What ``run`` raises if no query has started yet.
        """
        self._stopping += 1
        self._interrupt = interrupt
        self._events.put(None)
        if self._starting_broker:
            self._starting_broker = False
            raise interrupt

    def _reap(self) -> None:
        """As process 1, reap the processes that have lost their parent."""
        if is_process_1() and time.monotonic() >= self._reap_at:
            self._reap_at = time.monotonic() + REAP_SECONDS
            reap_orphans()

    def _obey(self) -> None:
        """Drain or kill the children, as often as ``stop`` was called since."""
        if self._stopped == min(self._stopping, 2):
            return
        self._stopped = min(self._stopping, 2)
        for pipeline in self._pipelines:
            if self._stopped == 1:
                pipeline.child.drain()
            else:
                self._cut_off |= not pipeline.over and pipeline.last["event"] != "ended"
                pipeline.child.kill()
        for pipeline in self._pipelines:
            pipeline.standby.end()

    def _end_overdue(self) -> None:
        """Kill the children that have reported their end but do not exit.

        A thread of the app can keep a Python process from exiting.
        """
        for pipeline in self._pipelines:
            if pipeline.exits_by and time.monotonic() > pipeline.exits_by:
                pipeline.child.kill()

    def _add(self, spec: RunSpec, name: str) -> None:
        standby = Standby(wanted=self._standby)
        self._pipelines.append(Attempts(self._child(spec, name), standby=standby))
        self._register.pipeline(name)
        self._register.write(now=True)

    def _child(self, spec: RunSpec, name: str) -> SparkChild:
        """Start a child, or a standby if the specification says so.

        Raises:
            PipelineFailed: The machine lacks what a process needs.
        """
        try:
            return SparkChild(spec, name, lambda child, event: self._events.put((child, event)))
        except (OSError, RuntimeError) as error:  # RuntimeError: no more threads
            raise PipelineFailed(
                SPARK_ENDED,
                f"the Spark process of pipeline {name!r} cannot be started: {error}.",
                hint="free the disk space, memory, processes or files that it needs.",
            ) from error

    def _step(self) -> None:
        """Stop if requested, start the restarts that are due, and handle one event."""
        self._obey()
        self._end_overdue()
        self._reap()
        for pipeline in self._pipelines:
            if pipeline.due is None:
                self._prepare(pipeline)
            elif self._stopping or self._failure:
                self._give_up(pipeline, pipeline.failure)
            elif time.monotonic() >= pipeline.due:
                self._restart(pipeline)
        with contextlib.suppress(Empty):
            reported = self._events.get(timeout=LISTEN_SECONDS)
            if reported:
                self._handle(*reported)

    def _handle(self, child: SparkChild, event: Event) -> None:
        pipeline = next((each for each in self._pipelines if each.child is child), None)
        if pipeline is None:
            self._hear_standby(child, event)
            return
        kind = event["event"]
        if kind == "gone":
            self._ended(pipeline)
            return
        pipeline.last = event
        if kind == "pipelines":
            self._configure(pipeline, event)
        elif kind == "checked":
            pipeline.slots = event["slots"]
        elif kind == "running":
            pipeline.running = pipeline.ran = True
            pipeline.standby.plan()
        elif kind == "epoch":
            pipeline.failed = 0
        elif kind in ("stalled", "flows") and not pipeline.running:
            return  # a slow start is still a start
        elif kind in ("failed", "ended"):
            pipeline.exits_by = time.monotonic() + EXIT_SECONDS[kind]
        self._record(child.name, event)
        if kind != "failed":
            self._on_event(child.name, event)

    def _configure(self, pipeline: Attempts, event: Event) -> None:
        """Send a child its cluster, and start a child for each further pipeline of the file."""
        child = pipeline.child
        pipeline.has_run = event["has_run"]
        self._register.rename(child.name, event["chosen"])
        child.name = event["chosen"]
        needed = self._cluster() if event["needs_brokers"] else ""
        pipeline.brokers = self._spec.brokers or needed
        child.tell(pipeline.brokers)
        if child.spec.pipeline is None and not self._stopping:
            for name in event["names"][1:]:
                self._add(self._spec.of(name), name)

    def _cluster(self) -> str:
        """Return the address of the cluster; ``stop`` interrupts the start of a broker."""
        try:
            self._starting_broker = True
            return "" if self._stopping else self._brokers()
        except KeyboardInterrupt:
            if not self._stopping:
                raise
            return ""
        finally:
            self._starting_broker = False

    def _ended(self, pipeline: Attempts) -> None:
        """Handle the exit of a child: the pipeline has ended, is restarted, or has failed."""
        failure = self._failure_of(pipeline)
        pipeline.exits_by = None
        if failure:
            self._fail(pipeline, failure)
            return
        pipeline.over = True
        pipeline.standby.end()
        self._register.pipeline(pipeline.child.name).enter("ended")

    def _fail(self, pipeline: Attempts, failure: PipelineFailed) -> None:
        """Plan a restart after a failure, or give the pipeline up."""
        self._register.fail(pipeline.child.name, f"{failure.code}: {failure.problem}")
        pipeline.failed += 1
        pipeline.failure = failure
        if self._may_retry(pipeline, failure) and not self._stopping and not self._failure:
            backoff = min(LONGEST_WAIT_SECONDS, 2.0 ** (pipeline.failed - 2))
            wait = backoff if pipeline.failed > 1 else 0.0
            pipeline.due = time.monotonic() + wait
            self._report_restart(pipeline, failure, wait)
            return
        self._give_up(pipeline, failure)

    def _may_retry(self, pipeline: Attempts, failure: PipelineFailed) -> bool:
        """Return whether to restart a pipeline after a failure.

        Before the first run of this parent, only a JVM that died is worth a restart, and only if
        an earlier run has shown that the pipeline works; mistakes in the file or the settings stay.
        """
        if pipeline.failed > self._restarts or failure.code in NON_RETRYABLE:
            return False
        return pipeline.ran or (failure.code == SPARK_ENDED and self._has_run(pipeline))

    def _has_run(self, pipeline: Attempts) -> bool:
        """Return whether a pipeline has committed in an earlier run."""
        if pipeline.has_run is not None:
            return pipeline.has_run
        folders = pipeline.child.spec.checkpoint_candidates()
        return any(Checkpoint(folder).has_commit for folder in folders)

    def _give_up(self, pipeline: Attempts, failure: PipelineFailed | None) -> None:
        """End a pipeline that has failed, and drain the others."""
        pipeline.due, pipeline.over = None, True
        pipeline.standby.end()
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
        self._report(pipeline.child.name, event)

    def _restart(self, pipeline: Attempts) -> None:
        """Restart a pipeline: its standby takes over, or a new process starts."""
        pipeline.due, pipeline.last, pipeline.running = None, {"event": "nothing"}, False
        pipeline.restarts += 1
        pipeline.child.wait()
        name = pipeline.child.name
        try:
            pipeline.child = pipeline.standby.take() or self._child(self._next(pipeline), name)
        except PipelineFailed as failure:
            self._fail(pipeline, failure)
            return
        pipeline.child.take_over()
        status = self._register.pipeline(name)
        status.restarts, status.standby = pipeline.restarts, False
        status.enter("starting")

    def _next(self, pipeline: Attempts) -> RunSpec:
        """Return what the next child runs: without the check if its query has already run."""
        spec = pipeline.child.spec
        if pipeline.has_run is not None:
            spec = spec.of(pipeline.child.name)
        check = spec.check and not pipeline.ran
        return replace(spec, check=check, slots=pipeline.slots, standby=False)

    def _prepare(self, pipeline: Attempts) -> None:
        """Start the standby of a pipeline that runs, if it is time."""
        ends = self._stopping or self._failure or pipeline.over or pipeline.exits_by
        if ends or not pipeline.standby.is_due():
            return
        name, spec = pipeline.child.name, replace(self._next(pipeline), standby=True)
        try:
            pipeline.standby.child = self._child(spec, name)
            pipeline.standby.child.tell(pipeline.brokers)
        except PipelineFailed as failure:
            text = pipeline.standby.lost(f": {failure.code}: {failure.problem}")
            self._report(name, {"event": "note", "text": text})

    def _hear_standby(self, child: SparkChild, event: Event) -> None:
        """Handle an event of a standby; others are of processes that left their session."""
        pipeline = next((each for each in self._pipelines if each.standby.child is child), None)
        if pipeline is None:
            return
        text = pipeline.standby.hear(event)
        self._register.pipeline(child.name).standby = pipeline.standby.ready
        if text:
            self._report(child.name, {"event": "note", "text": text})

    def _failure_of(self, pipeline: Attempts) -> PipelineFailed | None:
        """Describe how a child failed; None if it ended normally or was stopped.

        A child that is stopped before its query starts leaves things as the failure before it did.
        """
        code = pipeline.child.wait()
        if self._stopping > 1:
            return None
        if pipeline.last["event"] == "failed":
            return _failed(pipeline.last, pipeline.child)
        if self._stopping and not pipeline.running:
            return pipeline.failure
        if pipeline.last["event"] == "ended":
            return None
        problem = (
            f"the Spark process of pipeline {pipeline.child.name!r} exited unexpectedly "
            f"(exit code {code})."
        )
        hint = f"see {pipeline.child.log}."
        return _failed({"code": SPARK_ENDED, "problem": problem, "hint": hint}, pipeline.child)

    def _report(self, name: str, event: Event) -> None:
        """Record an event, and show it."""
        self._record(name, event)
        self._on_event(name, event)

    def _record(self, name: str, event: Event) -> None:
        """Record an event for ``eagre status``."""
        self._register.pipeline(name).update(event)
        self._register.write(now=event["event"] not in ("status", "epoch"))


def _failed(event: Event, child: SparkChild) -> PipelineFailed:
    return PipelineFailed(event["code"], event["problem"], event["hint"], {"log": str(child.log)})
