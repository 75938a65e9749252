"""Plans the pipelines of a file without starting them, for ``check``, ``size`` and ``advise``."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from eagre.broker import registry
from eagre.cli.console import detail, say
from eagre.cli.options import require_once
from eagre.commit.location import session_settings
from eagre.config import project_dir
from eagre.jvm.jars import class_path
from eagre.runtime.app import App
from eagre.runtime.spec import RunSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from eagre.pipeline import Pipeline
    from eagre.preflight import Report


def reports(
    app: str,
    brokers: str | None,
    master: str | None,
    conf: dict[str, str],
    **options: Any,  # noqa: ANN401  (options of the check)
) -> list[Report]:
    """Load the app, start a Spark session and check the pipelines in it."""
    require_once(conf, "spark.master", "--master", master)
    parsed = App.parse(app)
    parsed.check_readable()
    class_path("spark", say)
    say("planning the queries without starting them")
    detail(f"Spark logs to {_log()}")
    from eagre.jvm import gateway
    from eagre.preflight import check
    from eagre.session import session

    with quiet():
        spark = session(
            "eagre-check", master, **session_settings(options.get("checkpoint")), **conf
        )
    try:
        with contextlib.redirect_stdout(
            sys.stderr
        ):  # output of the app is no result of the command
            declared = parsed.pipelines()
            pipelines, several = parsed.choose(declared), len(declared) > 1
            capacity = gateway.capacity(spark)
            return [
                check(
                    pipeline,
                    spark,
                    capacity=capacity,
                    **_options(pipeline, brokers, options, several=several),
                )
                for pipeline in pipelines
            ]
    finally:
        with quiet():
            spark.stop()


def _options(
    pipeline: Pipeline, brokers: str | None, options: dict[str, Any], *, several: bool
) -> dict[str, Any]:
    running = registry.serving(project_dir() / "broker")
    address = brokers or (running.bootstrap if pipeline.needs_brokers and running else None)
    spec = RunSpec(app="", checkpoint=options.get("checkpoint"))
    folder = spec.checkpoint_folder(pipeline.name, several=several)
    return {**options, "brokers": address, "checkpoint": str(folder)}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send the JVM's output to a log; a JVM keeps the descriptors that it inherits at its start."""
    _log().parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    with _log().open("ab") as log:
        try:
            for number in (1, 2):
                os.dup2(log.fileno(), number)
            yield
        finally:
            for number, original in zip((1, 2), saved, strict=True):
                os.dup2(original, number)
                os.close(original)


def _log() -> Path:
    return project_dir() / "logs" / "check.log"
