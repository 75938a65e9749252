"""The Spark child: one pipeline in one Spark session, told what to do by its parent.

It reads a ``RunSpec``, then the brokers, then orders as lines from standard input, and reports
events as JSON lines on the file descriptor it was given. When standard input ends, the parent is
gone, and the child ends with everything it started.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import TYPE_CHECKING

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
    except Exception as error:  # noqa: BLE001  (the child's last word, whatever happened)
        traceback.print_exc()
        last = PipelineFailed("UNEXPECTED", gateway.reason(error))
        if NO_SPACE in str(error):
            last = disk_full(str(getattr(error, "filename", None) or "the checkpoint"))
        parent.tell("failed", code=last.code, problem=last.problem, hint=last.hint)
        sys.exit(1)


def run(spec: RunSpec, parent: Parent) -> None:
    """Run one pipeline from its session to its end.

    Raises:
        EagreError: App, topics, checkpoint or session are not as they must be, or the query failed.
    """
    slowly = "" if archive().exists() else " (some seconds sooner after `eagre jars fetch spark`)"
    parent.tell("phase", text=f"starting Spark{slowly}")
    spark = session(spec.pipeline or "eagre", spec.master, **spec.settings)
    app = spec.load()
    pipelines = app.pipelines()
    pipeline = app.choose(pipelines)[0]
    ship_modules(spark, app.path.resolve().parent)
    parent.tell(
        "pipelines",
        names=[p.name for p in app.choose(pipelines)],
        chosen=pipeline.name,
        needs_brokers=pipeline.needs_brokers,
    )
    brokers = parent.orders.get() or None
    folder = spec.checkpoint_folder(pipeline.name, several=len(pipelines) > 1)
    checkpoint = Checkpoint(folder)
    if parent.draining.is_set():
        return
    _lock(spark, checkpoint)
    if checkpoint.clear_unfinished():
        parent.say("the first commit was cut short by a kill: its leftovers were removed")
    if spec.check:
        parent.tell("phase", text="checking the plan")
        _require_sound(spark, pipeline, spec, brokers, str(checkpoint.path), parent)
    while _ran(spark, pipeline, spec, brokers, checkpoint, parent):
        parent.say("starting the query anew, with all partitions")


def _stop_spark() -> None:
    """End the session of this process: Spark removes its temporary files."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active:
        active.stop()


def _ran(
    spark: SparkSession,
    pipeline: Pipeline,
    spec: RunSpec,
    brokers: str | None,
    checkpoint: Checkpoint,
    parent: Parent,
) -> bool:
    """Run the query to its end; tell whether it is to be started anew.

    Raises:
        EagreError: Topics or checkpoint are not as they must be, or the query failed.
    """
    for member in gateway.missing_members(spark):
        parent.say(str(member))
    parent.tell("phase", text="preparing topics and checkpoint")
    resolved = resolve(
        pipeline, brokers, checkpoint, mode=spec.mode, start=spec.start, say=parent.say
    )
    query = Run(spark, pipeline, spec, resolved, checkpoint, parent)
    try:
        return query.until_end(query.start(brokers))
    except EagreError:
        raise
    except Exception as error:
        if gateway.jvm_gone(error):
            raise PipelineFailed(
                "SPARK_ENDED",
                f"the JVM of pipeline {pipeline.name!r} exited unexpectedly: it was "
                "killed, by hand or for its memory, or it crashed.",
            ) from error
        raise query.failed(error) from error


def _lock(spark: SparkSession, checkpoint: Checkpoint) -> None:
    """Take the checkpoint's lock, for as long as this JVM lives.

    Raises:
        CheckpointError: Another run has it, and did not end within some seconds.
    """
    checkpoint.path.mkdir(parents=True, exist_ok=True)
    if not gateway.lock(spark, checkpoint.lock_file, LOCK_SECONDS):
        raise CheckpointError(
            "CHECKPOINT_IN_USE",
            f"another run uses checkpoint {checkpoint.path}, and did not end within "
            f"{LOCK_SECONDS} s.",
            hint="`eagre status` shows what runs, `eagre stop NAME` ends it; or name another "
            "folder with --checkpoint.",
        )


def _require_sound(
    spark: SparkSession,
    pipeline: Pipeline,
    spec: RunSpec,
    brokers: str | None,
    checkpoint: str,
    parent: Parent,
) -> None:
    """Check the pipeline, tell what was found, and refuse it if an error was.

    Raises:
        SettingsError: One was.
    """
    try:
        report = check(
            pipeline,
            spark,
            brokers=brokers,
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
    also = f" ({len(more)} more: {', '.join(f.id for f in more)})" if more else ""
    raise SettingsError(
        first.id,
        f"pipeline {pipeline.name!r} would not run{also}: {first.problem}",
        hint=f"{first.remedy} `eagre explain {first.id}` says more; "
        "pass --no-check to start anyway.",
    )


if __name__ == "__main__":
    main()
