"""The Spark child: runs one pipeline in one Spark session, controlled by its parent process.

It reads a ``RunSpec``, then the brokers, then commands as lines from standard input. It reports
events as JSON lines on the file descriptor named on its command line. When standard input ends,
the parent has exited, and the child kills itself and every process it started.

It ignores the signals that end a service, and so does its JVM: service managers signal the whole
group, and only the parent knows that a drain must follow.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import traceback
from functools import partial
from queue import Empty
from typing import TYPE_CHECKING

from eagre.broker import Topics
from eagre.commit import Checkpoint
from eagre.commit.claim import claim
from eagre.commit.location import session_settings
from eagre.commit.store import StorePath
from eagre.errors import CheckpointError, EagreError, JvmError, PipelineFailed, SettingsError
from eagre.jvm import gateway
from eagre.jvm.archive import archive
from eagre.preflight import check
from eagre.profile import clients_of
from eagre.python.packages import needed
from eagre.python.shipping import ship_modules
from eagre.runtime.execution.executors import LOST, Executors
from eagre.runtime.execution.failures import NO_SPACE, disk_full
from eagre.runtime.execution.query import Run
from eagre.runtime.executor_python import require_python
from eagre.runtime.jvm_watch import PING_SECONDS, JvmWatch
from eagre.runtime.parent import DrainedBeforeStart, Parent, Relay
from eagre.runtime.process_session import end_own_session
from eagre.runtime.resolved_run import resolve
from eagre.runtime.spec import RunSpec
from eagre.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eagre.pipeline import Pipeline
    from eagre.runtime.app import App

LOCK_SECONDS = 5


def main() -> None:
    """Run the child."""
    _ignore_stop_signals()
    parent = Parent(os.fdopen(int(sys.argv[1]), "w"))
    parent.listen()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("eagre").addHandler(Relay(parent))
    try:
        run(RunSpec.from_json(parent.orders.get()), parent)
        _stop_spark()
    except EagreError as error:
        traceback.print_exc()
        parent.tell_failure(error)
        sys.exit(1)
    except Exception as error:  # noqa: BLE001  (report every failure to the parent)
        traceback.print_exc()
        parent.tell_failure(_described(error))
        sys.exit(1)


def _give_up(parent: Parent, failure: PipelineFailed) -> None:
    """Report a failure while the main thread waits for a JVM that does not respond."""
    parent.tell_failure(failure)
    end_own_session()


def _described(error: Exception) -> PipelineFailed:
    """Describe a failure outside of a query."""
    ended = _spark_ended(error)
    if ended:
        return ended
    if NO_SPACE in str(error):
        return disk_full(str(getattr(error, "filename", None) or "the checkpoint"))
    return PipelineFailed("UNEXPECTED", gateway.reason(error))


def _spark_stopped() -> PipelineFailed:
    return PipelineFailed(
        "SPARK_ENDED",
        "Spark stopped itself: a thread of its scheduler failed, most likely for lack of memory.",
        hint="the log has the reason; give Spark more memory with --conf spark.driver.memory.",
    )


def _spark_ended(error: Exception) -> PipelineFailed | None:
    """Describe the end of the JVM or of its application; None if the error means neither."""
    if gateway.context_stopped(error):
        return PipelineFailed(
            "SPARK_ENDED",
            "the cluster removed the application: its driver was cut off, it was killed, or its "
            "executors failed too often.",
            hint="the log and the cluster's web UI have the reason.",
        )
    if not gateway.jvm_gone(error):
        return None
    return PipelineFailed(
        "SPARK_ENDED",
        "the JVM exited unexpectedly: it crashed, or it was killed (possibly because the machine "
        "ran out of memory).",
        hint="the log has the JVM's last lines.",
    )


def _ignore_stop_signals() -> None:
    """Leave Ctrl-C, SIGTERM and SIGHUP to the parent; processes started later ignore them too."""
    if threading.current_thread() is threading.main_thread():
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sign, signal.SIG_IGN)


def run(spec: RunSpec, parent: Parent) -> None:
    """Start a session, run one pipeline, and return when it ends.

    Raises:
        EagreError: The app, topics, checkpoint or session are not valid, or the query failed.
    """
    app = spec.load()
    early = app.pipelines_before_spark()
    if early and not spec.standby:
        _introduce(app, early, spec, parent)
    tip = "" if archive().exists() else " (`eagre jars fetch spark` makes this seconds faster)"
    parent.tell("phase", text=f"starting Spark{tip}")
    spark = _session(spec)
    JvmWatch(lambda: gateway.ping(spark), parent.tell).start(partial(_give_up, parent))
    pipelines = early or app.pipelines()
    if not early and not spec.standby:
        _introduce(app, pipelines, spec, parent)
    shipped = ship_modules(spark, app.path.resolve().parent)
    several = len(pipelines) > 1
    pipeline = app.choose(pipelines)[0].on(parent.orders.get() or None)
    folder = spec.checkpoint_folder(pipeline.name, several=several)
    checkpoint = Checkpoint(folder)
    if spec.standby:
        stand_by(spark, pipeline, spec, str(checkpoint.path), parent)
    if spec.resume:
        checkpoint.require_found()
    _acquire(spark, checkpoint, parent)
    if checkpoint.clear_unfinished():
        parent.say("removed the incomplete files of a first commit that was interrupted")
    executors = Executors(spark, parent.say, spec.slots)
    if spec.check:
        parent.tell("phase", text="checking the plan")
        executors.needed = _require_sound(spark, pipeline, spec, str(checkpoint.path), parent)
        executors.prepare()
        require_python(spark, needed(shipped), parent.say)
    while _run_query(executors, pipeline, spec, checkpoint, parent):
        parent.say("restarting the query, with all partitions")


def _session(spec: RunSpec) -> SparkSession:
    """Start the session; PySpark would make Ctrl-C cancel its jobs."""
    handler = signal.getsignal(signal.SIGINT)
    settings = {**session_settings(spec.checkpoint), **spec.settings}
    spark = session(spec.pipeline or "eagre", spec.master, **settings)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)
    return spark


def _introduce(app: App, pipelines: list[Pipeline], spec: RunSpec, parent: Parent) -> None:
    """Report the pipelines of the file, so that the parent can start a broker while Spark starts.

    Raises:
        BrokerError: The cluster that the pipeline names does not respond.
    """
    chosen = app.choose(pipelines)
    pipeline = chosen[0].on(spec.brokers)
    folder = spec.checkpoint_folder(pipeline.name, several=len(pipelines) > 1)
    if not pipeline.needs_brokers:
        for client in {end.client() for end in pipeline.topic_ends}:
            Topics(client).cluster_id()
    parent.tell(
        "pipelines",
        names=[p.name for p in chosen],
        chosen=pipeline.name,
        needs_brokers=pipeline.needs_brokers,
        has_run=not isinstance(folder, StorePath) and Checkpoint(folder).has_commit,
    )


def stand_by(
    spark: SparkSession, pipeline: Pipeline, spec: RunSpec, checkpoint: str, parent: Parent
) -> None:
    """Plan the pipeline once, as only the first time takes seconds, and wait for the order to run.

    Until then the checkpoint belongs to another process, and nothing is written.
    """
    if parent.orders.empty():
        with contextlib.suppress(Exception):  # the run itself will say what is wrong
            check(pipeline, spark, mode=spec.mode, every=spec.every, checkpoint=checkpoint)
        gateway.ping(spark)
        parent.tell("prepared")
    while True:
        with contextlib.suppress(Empty):
            parent.orders.get(timeout=PING_SECONDS)
            return
        gateway.ping(spark)  # a standby without a JVM must not take over


def _stop_spark() -> None:
    """Stop the session of this process, so that Spark removes its temporary files."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active:
        active.stop()


def _run_query(
    executors: Executors,
    pipeline: Pipeline,
    spec: RunSpec,
    checkpoint: Checkpoint,
    parent: Parent,
) -> bool:
    """Run the query until it ends; return whether to restart it.

    Raises:
        EagreError: The topics or the checkpoint are not valid, or the query failed.
    """
    spark = executors.spark
    for member in gateway.missing_members(spark):
        parent.say(str(member))
    executors.prepare()
    parent.tell("phase", text="preparing topics and checkpoint")
    resolved = resolve(pipeline, spec, clients_of(spark), checkpoint, parent.say)
    query = Run(spark, resolved, parent, executors)
    try:
        again = query.until_end(query.start())
    except DrainedBeforeStart:
        gateway.release_claims(spark)
        parent.tell_nothing_drained()
        return False
    except Exception as error:
        failure = failure_of(query, error)
        ended = query.end()
        if parent.draining.is_set() or not ended or not executors.may_start_again(failure):
            if failure.code == LOST:
                executors.await_silence()  # the next driver does not know of it
            raise failure from error
        parent.say(f"{failure.problem} The query starts again in this session.")
        return True
    else:
        if not again and (query.schedule is None or query.end()):  # no task can write any more
            gateway.release_claims(spark)
        return again
    finally:
        query.end()


def failure_of(query: Run, error: Exception) -> EagreError:
    """Describe how a query failed."""
    if isinstance(error, EagreError):
        return error
    if ended := _spark_ended(error):
        return ended
    return _spark_stopped() if gateway.stopped(query.spark) else query.failed(error)


def _acquire(spark: SparkSession, checkpoint: Checkpoint, parent: Parent) -> None:
    """Acquire the checkpoint's lock, or claim it in a store; the JVM holds it until it exits.

    Raises:
        CheckpointError: Another run holds it and did not end in time.
    """
    if isinstance(checkpoint.path, StorePath):
        parent.tell("phase", text="claiming the checkpoint")
        claim(spark, checkpoint.path)
        return
    checkpoint.path.mkdir(parents=True, exist_ok=True)
    if not gateway.lock(spark, checkpoint.lock_file, LOCK_SECONDS):
        raise CheckpointError(
            "CHECKPOINT_IN_USE",
            f"another run uses checkpoint {checkpoint.path}, and did not end within "
            f"{LOCK_SECONDS} s.",
            hint="`eagre status` lists the runs, `eagre stop NAME` stops one; or choose another "
            "folder with --checkpoint.",
        )


def _require_sound(
    spark: SparkSession,
    pipeline: Pipeline,
    spec: RunSpec,
    checkpoint: str,
    parent: Parent,
) -> int | None:
    """Check the pipeline and report the findings; fail on an error.

    Returns:
        The task slots that the query needs; None if that is not known.

    Raises:
        SettingsError: The check reports at least one error.
    """
    try:
        report = check(
            pipeline,
            spark,
            mode=spec.mode,
            every=spec.every,
            checkpoint=checkpoint,
        )
    except JvmError as error:
        if error.code != "CHECK_UNAVAILABLE":
            raise
        return None
    if report.ok:
        slots = sum(report.terms) if report.terms and spec.mode == "real-time" else None
        parent.tell("checked", findings=[f.as_dict() for f in report.findings], slots=slots)
        return slots
    first, *more = report.errors
    others = f" ({len(more)} more: {', '.join(f.id for f in more)})" if more else ""
    raise SettingsError(
        first.id,
        f"pipeline {pipeline.name!r} would not run{others}: {first.problem}",
        hint=f"{first.remedy} `eagre explain {first.id}` has details; "
        "pass --no-check to start anyway.",
    )


if __name__ == "__main__":
    main()
