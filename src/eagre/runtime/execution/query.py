"""Runs a query in the Spark child: starts it and reports every second until it ends or fails."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from eagre.commit import schedule
from eagre.commit.offset_log import follow_sources
from eagre.commit.schedule import CLOSE_SECONDS, EPOCHS, STATE_SETTINGS, CommitSchedule
from eagre.delivery import Outputs, Quarantine, begin
from eagre.delivery.quarantine import CRASHES
from eagre.errors import BrokerError, CheckpointError, EagreError, PipelineFailed
from eagre.jvm import gateway
from eagre.pipeline import started, trigger
from eagre.runtime.execution.description import about, graph
from eagre.runtime.execution.epochs import Epochs
from eagre.runtime.execution.failures import NO_SLOTS, recognized
from eagre.runtime.execution.overdue import OverdueCommit, spark_epoch_reason
from eagre.runtime.watchdog import Watchdog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from eagre.broker.topics import Offsets
    from eagre.commit import Checkpoint, DeliveryLog
    from eagre.connectors import ReplayFilter
    from eagre.pipeline import Pipeline
    from eagre.runtime.execution.executors import Executors
    from eagre.runtime.parent import Parent
    from eagre.runtime.resolved_run import ResolvedRun

STATUS_SECONDS = 1
RELEASE_SECONDS = 30.0
LARGE_LAG = 1_000
"""From this lag at the start, the run reports that it is catching up, and when it has."""


@dataclass
class Run:
    """One execution of a query, from start to end."""

    spark: SparkSession
    resolved: ResolvedRun
    parent: Parent
    executors: Executors
    started: float = field(default_factory=time.monotonic)
    delivery_log: DeliveryLog | None = None
    outputs: Outputs | None = None
    query: StreamingQuery | None = None
    schedule: CommitSchedule | None = None
    _unreachable: bool = False
    _ended: bool | None = None
    _graph_reported: bool = False
    _epochs: Epochs = field(default_factory=Epochs)

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline; its topics name their cluster."""
        return self.resolved.pipeline

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the run."""
        return self.resolved.checkpoint

    @cached_property
    def quarantine(self) -> Quarantine:
        """The records that crashed their task in earlier runs."""
        return Quarantine(self.checkpoint.path)

    def failed(self, error: Exception) -> EagreError:
        """Describe a failure: Spark rejected the query, or the query failed while running."""
        reason = gateway.reason(error)
        if known := recognized(str(error), reason, self.checkpoint.path):
            return known
        if lost := self.executors.lost(wait=True):
            return lost
        if NO_SLOTS in str(error) and self.executors.on_cluster:
            return self.executors.full("needs more task slots")
        if self.query is None or not gateway.has_run(self.spark, self.query):
            return PipelineFailed(
                "QUERY_REFUSED", f"Spark rejected {self.pipeline.name!r}: {reason}"
            )
        self._blame()
        return PipelineFailed("QUERY_FAILED", f"pipeline {self.pipeline.name!r} failed: {reason}")

    def _blame(self) -> None:
        """Count the records that crashed a task; after two crashes they are skipped."""
        for topic, partition, offset in self.quarantine.blame(
            gateway.suspects_of(self.spark, self.query) if self.query else []
        ):
            self.parent.say(
                f"record {topic}/{partition}/{offset} crashed its task {CRASHES} times: it is now "
                "skipped and goes to the dead letters"
            )

    def start(self) -> StreamingQuery:
        """Build and start the query; an error in the user's function names its line."""
        self._follow_sources(writer := self._writer(self._replay_filter()))
        commits = self._supported_commits(writer)
        epoch = EPOCHS[commits] if commits else self.resolved.every
        for key, value in STATE_SETTINGS.items() if commits == "state" else ():
            self.spark.conf.set(key, value)
        mode = self.resolved.mode
        self.parent.begin()
        query = self.query = started(writer.trigger(**trigger(mode, epoch)), mode)
        if commits:
            self.schedule = self._schedule(query, pauses=commits != "rows")
        elif mode == "real-time":
            gateway.warm_up_planner(self.spark, query)
        self.started = time.monotonic()
        self.parent.tell(
            "running",
            mode=mode,
            every_ms=self.resolved.every_ms,
            checkpoint=str(self.checkpoint.path),
            resumed=self.resolved.resumed,
            about=about(self.spark, self.resolved),
        )
        return query

    def _replay_filter(self) -> ReplayFilter | None:
        """Fence the previous run, if the sink is exactly-once."""
        sink = self.pipeline.exactly_once
        if not sink or not self.resolved.topics or not self.resolved.outputs:
            return None
        self.parent.tell("phase", text="fencing the previous run")
        self.outputs = Outputs(
            self.pipeline.kafka_sources,
            sink,
            self.resolved.topics,
            self.resolved.outputs,
            sink.client_id(self.pipeline.name),
        )
        replay_filter, self.delivery_log = begin(
            self.spark, self.outputs, self.checkpoint, self.resolved.position, self.parent.say
        )
        return replay_filter

    def _writer(self, replay_filter: ReplayFilter | None) -> DataStreamWriter:
        """Prepare the query, without a trigger: the plan decides how long its epochs are."""
        context = self.pipeline.context(
            self.resolved.mode,
            start=self.resolved.start,
            replay_filter=replay_filter,
            topic_ids=self.resolved.topic_ids,
            quarantine=self.quarantine.positions,
        )
        try:
            writer = self.pipeline.write_stream(self.spark, context)
        except EagreError:
            raise
        except Exception as error:
            raise self.pipeline.cannot_be_built(error) from error
        return writer.option("checkpointLocation", str(self.checkpoint.path))

    def _follow_sources(self, writer: DataStreamWriter) -> None:
        """Let Spark find the offsets of each source, also if the pipeline has other sources now."""
        sources = gateway.subscriptions(writer._df)  # noqa: SLF001  (not public)
        for topic in sorted(follow_sources(self.checkpoint.path, sources, self.resolved.start)):
            self.parent.say(f"topic {topic!r} is new in this checkpoint")

    def _supported_commits(self, writer: DataStreamWriter) -> str:
        """Return the kind of mid-epoch commits the query supports; empty if it supports none."""
        topics = [topic for source in self.pipeline.sources for topic in source.topics]
        possible = (
            self.resolved.mode == "real-time"
            and self.pipeline.sink.capabilities.mid_epoch_commits
            and len(topics) == len(set(topics))
        )
        return gateway.supported_commits(writer._df) if possible else ""  # noqa: SLF001  (not public)

    def _schedule(self, query: StreamingQuery, *, pauses: bool) -> CommitSchedule:
        sink = self.pipeline.kafka_sink
        return CommitSchedule(
            gateway.MidEpochCommits(
                self.spark,
                query,
                pauses=pauses,
                patience=schedule.PATIENCE_SECONDS,
                client_id=sink.client_id(self.pipeline.name) if sink else "",
            ),
            self.checkpoint,
            self.resolved.every_ms / 1000,
            self.resolved.position,
            self.delivery_log,
            self._output_ends,
        )

    def _output_ends(self) -> Offsets:
        """Return the current end offsets of an exactly-once output."""
        return {**self.outputs.results(), **self.outputs.dead_letters()} if self.outputs else {}

    def until_end(self, query: StreamingQuery) -> bool:
        """Report every second until the query ends by itself or is drained.

        Returns:
            Whether to restart the query: a source has gained partitions, or the epoch has become
            too long.
        """
        backlog = self.resolved.lag()
        catching_up = backlog >= LARGE_LAG
        if catching_up:
            self.parent.say(f"catching up: {backlog:,} records are waiting in the source")
        drained = False
        watchdog = Watchdog(
            self.resolved.topics,
            self.resolved.sources,
            self.parent.tell,
            trigger_seconds=self.resolved.trigger_seconds,
            reader_seconds=self.executors.reader_seconds,
        )
        overdue = OverdueCommit(self.resolved.every_ms / 1000, self.parent.say)
        while not self._over(query):
            if self.parent.draining.is_set() and not drained:
                drained = True
                self._drain(query)
            elif gateway.claim_lost(self.spark):
                raise gateway.taken(str(self.checkpoint.path))
            elif self.schedule and self.schedule.broken and (lost := self.executors.lost()):
                raise lost
            elif self.schedule and (watchdog.grown or self.schedule.epoch_too_long):
                self._close(query)
                return True
            metrics = self._metrics(query)
            lags = {gateway.parse_partition(name): lag for name, lag in metrics.lag.items()}
            progress = query.lastProgress
            lag = self._lag(progress, lags)
            written = self._written(progress.batchId if progress else -1)
            self._report(query, progress)
            epochs = self._epochs_done(progress)
            jvm = {**asdict(metrics), "at": time.time()}
            late = gateway.row_counts(self.spark, query).get(f"{self.pipeline.name}/late", 0)
            commit = overdue.observe(epochs, self._commit_waits_for(lag))
            self.parent.tell(
                "status", lag=lag, written=written, epochs=epochs, late=late, metrics=jvm, **commit
            )
            watchdog.observe(written, metrics.consumed, lags, unreachable=self._unreachable)
            if catching_up and lag is not None and lag < LARGE_LAG:
                catching_up = False
                self.parent.say(self._caught_up(backlog))
        progress = query.lastProgress
        self._report(query, progress)
        written = self._written(progress.batchId if progress else -1)
        epochs = self._epochs_done(progress)
        self.parent.tell("ended", drained=drained, written=written, epochs=epochs)
        return False

    def _drain(self, query: StreamingQuery) -> None:
        """Process and commit the rows in flight, then stop the query."""
        if self.schedule:
            self.parent.tell("draining", within_ms=int(CLOSE_SECONDS * 1000))
            self._close(query)
        else:
            self.parent.tell("draining", within_ms=self.resolved.every_ms)
            gateway.drain(self.spark, query)

    def _close(self, query: StreamingQuery) -> None:
        """Write a last mid-epoch commit, then stop the query."""
        if self.schedule and not self.schedule.close():
            self.parent.say("delivery of the last results is unconfirmed; duplicates are possible")
        query.stop()
        self.release()
        self.checkpoint.adopt()

    def release(self) -> None:
        """Wait for the tasks of a query that has ended: another may follow in this JVM."""
        if self.schedule and not self.schedule.query.release(RELEASE_SECONDS):
            self.parent.say("tasks of the stopped query are still running")

    def end(self) -> bool:
        """Stop a query that has failed; return whether all of its tasks have certainly ended."""
        if self.query is None:
            return True
        if self._ended is None:
            self._ended = False
            with contextlib.suppress(Exception):  # its JVM may be gone
                self.query.stop()
                released = self.schedule and self.schedule.query.release(RELEASE_SECONDS)
                self._ended = bool(released)
        return self._ended

    def _epochs_done(self, progress: StreamingQueryProgress | None) -> int:
        """Count the commits, including mid-epoch commits."""
        if self.schedule:
            return self.resolved.resumed + 1 + self.schedule.commits
        return progress.batchId + 1 if progress else 0

    def _over(self, query: StreamingQuery) -> bool:
        """Wait up to a second for the query to end, in one call that uses no CPU."""
        query.awaitTermination(STATUS_SECONDS)
        over = gateway.ended(self.spark, query)
        failure = query.exception() if over else None
        if failure is not None:
            raise failure
        return over

    def _caught_up(self, backlog: int) -> str:
        seconds = time.monotonic() - self.started
        return f"caught up: {backlog:,} records in {seconds:.1f} s ({backlog / seconds:,.0f}/s)"

    def _metrics(self, query: StreamingQuery) -> gateway.JvmMetrics:
        """Read the metrics of the JVM, with only the consumers of the sources."""
        metrics = gateway.jvm_metrics(self.spark, query)
        sources = self.resolved.sources
        lag = {
            at: lag for at, lag in metrics.lag.items() if gateway.parse_partition(at)[0] in sources
        }
        return replace(metrics, lag=lag)

    def _report(self, query: StreamingQuery, progress: StreamingQueryProgress | None) -> None:
        """Report the epochs that ended, and once the stages of the plan."""
        if not self._graph_reported:
            plan = gateway.physical_plan(self.spark, query)
            stages = graph(plan, self.resolved.source_partitions)
            if stages:
                self._graph_reported = True
                self.parent.tell("graph", stages=stages)
        for epoch in self._epochs.new(query, progress) if progress else ():
            self.parent.tell("epoch", **epoch)
        committed = self._commit_if_due()
        if committed:
            self.parent.tell("epoch", batch=self._epochs_done(progress) - 1, **committed)

    def _commit_if_due(self) -> dict[str, Any] | None:
        """Commit on schedule, unless the brokers do not respond or the query is draining."""
        if not self.schedule or self._unreachable or self.parent.draining.is_set():
            return None
        try:
            return self.schedule.step()
        except BrokerError:
            return None
        except CheckpointError as error:
            if error.code != gateway.UNREACHABLE:
                raise
            self.parent.say(f"a commit was skipped: {error.problem}")
            return None

    def _commit_waits_for(self, lag: int | None) -> str:
        """Say what the next commit waits for; empty if there is nothing to commit."""
        if self._unreachable:
            return "the brokers do not respond"
        return self.schedule.waits_for if self.schedule else spark_epoch_reason(lag)

    def _lag(
        self, progress: StreamingQueryProgress | None, lags: dict[tuple[str, int], int]
    ) -> int | None:
        """Return the lag, from this JVM's consumers or from Spark's last progress."""
        if len(lags) >= self.resolved.source_partitions:
            return sum(lags.values())
        if not progress:
            return None
        lagging = [source.metrics.get("maxOffsetsBehindLatest") for source in progress.sources]
        return sum(int(lag) for lag in lagging if lag is not None)

    def _written(self, batch: int) -> int | None:
        sink = self.pipeline.sink
        if not self.resolved.outputs:
            return sink.rows_written(self.spark, self.pipeline.name)
        try:
            ends = self.resolved.outputs.ends(sink.topics)
            self._take_snapshot(batch, ends)
        except EagreError:
            self._unreachable = True
            return None
        self._unreachable = False
        return sum(end for partitions in ends.values() for end in partitions.values())

    def _take_snapshot(self, batch: int, results: Offsets) -> None:
        """Record an output snapshot, once per epoch.

        Only while the batch is still the last committed one, because only then were the end
        offsets read in time. And only after the run has passed everything that earlier runs
        delivered.
        """
        if not self.delivery_log or not self.outputs:
            return
        if batch <= self.delivery_log.snapshots[-1].after:
            return
        if not self.delivery_log.passed(self.checkpoint.committed()[1]):
            return
        ends = {**results, **self.outputs.dead_letters()}
        if self.checkpoint.last_commit() == batch:
            self.delivery_log.add_snapshot(batch, ends)
