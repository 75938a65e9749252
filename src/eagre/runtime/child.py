"""The Spark child: runs one pipeline in one Spark session, controlled by its parent process.

It reads a ``RunSpec``, then the brokers, then commands as lines from standard input. It reports
events as JSON lines on the file descriptor named on its command line. When standard input ends,
the parent has exited, and the child kills itself and every process it started.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
from typing import TYPE_CHECKING

from eagre.broker import Topics
from eagre.commit import Checkpoint
from eagre.errors import CheckpointError, EagreError, JvmError, PipelineFailed, SettingsError
from eagre.jvm import gateway
from eagre.jvm.archive import archive
from eagre.preflight import check
from eagre.python.shipping import ship_modules
from eagre.runtime.parent import Parent, Relay
from eagre.runtime.query import NO_SPACE, Run, disk_full
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
    parent = Parent(os.fdopen(int(sys.argv[1]), "w"))
    parent.listen()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("eagre").addHandler(Relay(parent))
    try:
        run(RunSpec.from_json(parent.orders.get()), parent)
        _stop_spark()
    except EagreError as error:
        traceback.print_exc()
        parent.tell("failed", code=error.code, problem=error.problem, hint=error.hint)
        sys.exit(1)
    except Exception as error:  # noqa: BLE001  (report every failure to the parent)
        traceback.print_exc()
        failure = PipelineFailed("UNEXPECTED", gateway.reason(error))
        if NO_SPACE in str(error):
            failure = disk_full(str(getattr(error, "filename", None) or "the checkpoint"))
        parent.tell("failed", code=failure.code, problem=failure.problem, hint=failure.hint)
        sys.exit(1)


def run(spec: RunSpec, parent: Parent) -> None:
    """Start a session, run one pipeline, and return when it ends.

    Raises:
        EagreError: The app, topics, checkpoint or session are not valid, or the query failed.
    """
    app = spec.load()
    early = app.pipelines_before_spark()
    if early:
        _introduce(app, early, spec, parent)
    tip = "" if archive().exists() else " (`eagre jars fetch spark` makes this seconds faster)"
    parent.tell("phase", text=f"starting Spark{tip}")
    spark = session(spec.pipeline or "eagre", spec.master, **spec.settings)
    pipelines = early or app.pipelines()
    if not early:
        _introduce(app, pipelines, spec, parent)
    ship_modules(spark, app.path.resolve().parent)
    several = len(pipelines) > 1
    pipeline = app.choose(pipelines)[0].on(parent.orders.get() or None)
    folder = spec.checkpoint_folder(pipeline.name, several=several)
    checkpoint = Checkpoint(folder)
    if parent.draining.is_set():
        return
    _lock(spark, checkpoint)
    if checkpoint.clear_unfinished():
        parent.say("removed the incomplete files of a first commit that was interrupted")
    if spec.check:
        parent.tell("phase", text="checking the plan")
        _require_sound(spark, pipeline, spec, str(checkpoint.path), parent)
    while _run_query(spark, pipeline, spec, checkpoint, parent):
        parent.say("restarting the query, with all partitions")


def _introduce(app: App, pipelines: list[Pipeline], spec: RunSpec, parent: Parent) -> None:
    """Report the pipelines of the file, so that the parent can start a broker while Spark starts.

    Raises:
        BrokerError: The cluster that the pipeline names does not respond.
    """
    chosen = app.choose(pipelines)
    pipeline = chosen[0].on(spec.brokers)
    if not pipeline.needs_brokers:
        for client in {end.client() for end in pipeline.topic_ends}:
            Topics(client).cluster_id()
    parent.tell(
        "pipelines",
        names=[p.name for p in chosen],
        chosen=pipeline.name,
        needs_brokers=pipeline.needs_brokers,
    )


def _stop_spark() -> None:
    """Stop the session of this process, so that Spark removes its temporary files."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active:
        active.stop()


def _run_query(
    spark: SparkSession,
    pipeline: Pipeline,
    spec: RunSpec,
    checkpoint: Checkpoint,
    parent: Parent,
) -> bool:
    """Run the query until it ends; return whether to restart it.

    Raises:
        EagreError: The topics or the checkpoint are not valid, or the query failed.
    """
    for member in gateway.missing_members(spark):
        parent.say(str(member))
    parent.tell("phase", text="preparing topics and checkpoint")
    query = Run(spark, resolve(pipeline, spec, checkpoint, parent.say), parent)
    try:
        return query.until_end(query.start())
    except EagreError:
        raise
    except Exception as error:
        if gateway.jvm_gone(error):
            raise PipelineFailed(
                "SPARK_ENDED",
                f"the JVM of pipeline {pipeline.name!r} exited unexpectedly: it crashed, "
                "or it was killed (possibly because the machine ran out of memory).",
            ) from error
        raise query.failed(error) from error
    finally:
        _release(query)


def _release(query: Run) -> None:
    """Wait for the query's tasks, if its JVM is still there."""
    with contextlib.suppress(Exception):
        query.release()


def _lock(spark: SparkSession, checkpoint: Checkpoint) -> None:
    """Acquire the checkpoint's lock; the JVM holds it until it exits.

    Raises:
        CheckpointError: Another run holds the lock and did not end in time.
    """
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
) -> None:
    """Check the pipeline and report the findings; fail on an error.

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
        return
    if report.ok:
        parent.tell("checked", findings=[finding.as_dict() for finding in report.findings])
        return
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
