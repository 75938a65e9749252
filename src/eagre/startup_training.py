"""Writes the start-up archive: runs typical pipelines, so that the JVM can save their classes.

``eagre jars fetch`` does this once, in a separate process; ``eagre demo`` leaves it to a process
in the background. See ``eagre.jvm.archive``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.broker.registry import born, same_process
from eagre.errors import FileError, JvmError
from eagre.files import TemporaryFolder, alone, formatted, unformatted, write_atomically
from eagre.jvm import archive, class_path, find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eagre.pipeline import Pipeline
    from eagre.testing.harness import Harness

LIMIT_SECONDS = 300
LONGEST_REASON = 300
LONGEST_PLACE = 70
"""Of Java's temporary folder: the path of a socket in it may have about a hundred characters."""
KILL_SECONDS = 10
RETAINED = 3
"""The number of archives to keep, of 200 MB each, for several environments."""
LOADED_SECONDS, LOADED_RATE, SHORT = 15, 2_000, "200 ms"
"""Enough epoch boundaries for the compiler to see their code."""
EPOCHS = "spark.sql.streaming.realTimeMode.minBatchDuration"


KIND = "training-"
"""The prefix of the folders of all trainings."""
MODULE = "eagre.startup_training"
BACKGROUND = "--background"
BACKGROUND_LIMIT_SECONDS = 3600
"""The lowest priority: on a busy machine other processes come first."""


def train_in_background() -> Path:
    """Start writing the archive in a process that outlives this one.

    It has the lowest CPU priority. Nothing is started while another training runs.

    Returns:
        Its log.
    """
    folder = archive.archive().parent
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "training.log"
    with alone(_note()):
        if _noted() is None:
            started = _start(log)
            write_atomically(_note(), formatted({"pid": started, "born": born(started)}))
    return log


def _start(log: Path) -> int:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, BACKGROUND],
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    process.returncode = 0  # detached: only its pid file knows it from here on
    return process.pid


def stop_background_training() -> bool:
    """Stop a training in the background; return whether there was one.

    It would slow down measurements, and it is started again later.
    """
    pid = _noted()
    if pid is None:
        return False
    _kill(pid)
    for left in _note().parent.glob(f"{KIND}{_mark(pid)}*"):
        shutil.rmtree(left, ignore_errors=True)
    forget(pid)
    return True


def _kill(pid: int) -> None:
    """Kill a training with its children and its broker, and wait for their end."""
    import psutil

    tree = []
    with contextlib.suppress(psutil.NoSuchProcess):
        tree = psutil.Process(pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for process in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(tree, timeout=KILL_SECONDS)


def _note() -> Path:
    return archive.archive().parent / "training.json"


def _noted() -> int | None:
    """Return the training that runs in the background, if any."""
    try:
        noted = unformatted(_note().read_text(), _note())
        return int(noted["pid"]) if same_process(noted["pid"], noted["born"]) else None
    except (FileError, OSError, ValueError, KeyError, TypeError):
        return None


def forget(pid: int) -> None:
    """Remove the note of a process, unless it is another's by now."""
    with alone(_note()), contextlib.suppress(FileError, OSError, ValueError, KeyError):
        if unformatted(_note().read_text(), _note())["pid"] == pid:
            _note().unlink()


def _mark(pid: int) -> str:
    """The middle part of a training folder's name, to find the folder of a killed training."""
    return f"{pid}-"


def _train_when_idle() -> None:
    """Write the archive with the lowest priority."""
    with contextlib.suppress(AttributeError, OSError):  # Linux only
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.nice(19)
    try:
        sys.stdout.write(f"{train(BACKGROUND_LIMIT_SECONDS)}\n")
    except JvmError as error:
        sys.stdout.write(f"{error}\n")
    finally:
        forget(os.getpid())


def train(limit_seconds: float = LIMIT_SECONDS) -> Path:
    """Write the archive for this Java and these jars, unless it exists.

    Args:
        limit_seconds: The time limit.

    Raises:
        JvmError: It could not be written; everything works without.
    """
    class_path("spark", logging.info)  # the archive is named after its jars: they must exist
    target = archive.archive()
    if target.exists():
        return target
    with TemporaryFolder(target.parent, KIND, _mark(os.getpid())) as folder:
        part = folder / "part"
        failure = _failure(part, limit_seconds)
        if failure or not part.exists():
            why = failure or "Java wrote none"
            raise JvmError("ARCHIVE_NOT_WRITTEN", f"no start-up archive was written: {why}.")
        part.replace(target)
    remove_old(target.parent)
    return target


def _failure(part: Path, limit_seconds: float) -> str:
    """Run the pipelines in a process that writes the archive; return the reason of a failure."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", MODULE, str(part)],
            cwd=part.parent,
            env=_environment(part.parent),
            capture_output=True,
            timeout=limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not done within {limit_seconds:g} s"
    if not done.returncode:
        return ""
    output = _last_line(done.stderr.decode(errors="replace"))
    return f"exit code {done.returncode}: {output}"


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment that keeps all files of a training in its folder."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    stated = inherited.get("JAVA_TOOL_OPTIONS", "")
    place = f" -Djava.io.tmpdir={folder}" if len(str(folder)) <= LONGEST_PLACE else ""
    return {
        **inherited,
        "TMPDIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder),
        "JAVA_TOOL_OPTIONS": f"{stated} -XX:-UsePerfData{place}".strip(),
        "EAGRE_STATE": str(folder / "state"),
    }


def remove_old(folder: Path) -> None:
    """Remove old archives; another training may be removing the same ones."""
    written = []
    for path in folder.glob("*.archive"):
        with contextlib.suppress(FileNotFoundError):
            written.append((path.stat().st_mtime, path))
    for _, old in sorted(written)[:-RETAINED]:
        old.unlink(missing_ok=True)


def _last_line(output: str) -> str:
    r"""Return the last line of a process's output, without Java's note about its options.

    >>> _last_line("no space left\nPicked up JAVA_TOOL_OPTIONS: -Da=b")
    'no space left'
    """
    lines = [line for line in output.splitlines() if line and not line.startswith("Picked up")]
    return lines[-1][:LONGEST_REASON] if lines else "it said nothing"


def _run(target: str) -> None:
    """Run pipelines with and without state in both modes, and a second time as after a kill."""
    from pyspark import SparkContext
    from pyspark.sql import functions as F

    import eagre as eg
    from eagre.broker import EmbeddedBroker
    from eagre.session import session
    from eagre.testing.harness import Harness

    source = eg.Kafka("in", schema="card STRING, n BIGINT", partitioned_by="card")
    sink = eg.Kafka("out", key="card", delivery="exactly-once", fence="in-band")
    plus = eg.udf(lambda n: n + 1, "bigint")

    @eg.pipeline(source=source, sink=sink)
    def counts(df: DataFrame) -> DataFrame:
        return df.groupBy("card").agg(F.count("*").alias("count"), F.sum("n").alias("sum"))

    @eg.pipeline(source=source, sink=sink)
    def calls(df: DataFrame) -> DataFrame:
        return df.where("n > 0").withColumn("m", plus("n"))

    @eg.pipeline(source=source, sink=eg.Kafka("out", key="card"))
    def features(df: DataFrame) -> DataFrame:
        once = eg.deduplicate(df, "n", within="1 minute")
        return eg.rolling(once, "card", {"1 minute": ["count as count", "avg(n) as mean"]})

    settings = {"spark.driver.extraJavaOptions": archive.write(Path(target), find_java())}
    with EmbeddedBroker(data="broker", say=logging.info) as broker:
        spark = session("training", "local[8]", **settings, **{EPOCHS: "100ms"})
        rows = [{"card": f"c{n % 7}", "n": n} for n in range(200)]
        for pipeline in (counts, calls, features):
            harness = Harness(spark, broker.address, Path(tempfile.mkdtemp(dir=".")))
            harness.run(pipeline, rows, mode="micro-batch")
            for _ in range(2):
                harness.run(pipeline, rows, checkpoint=Path(pipeline.name).resolve())
            _under_load(pipeline, harness, rows)
        gateway = SparkContext._gateway  # noqa: SLF001  (PySpark never ends its JVM by itself)
        spark.stop()
        gateway.shutdown()  # type: ignore[union-attr]
        gateway.proc.stdin.close()  # type: ignore[union-attr]
        code = gateway.proc.wait()  # type: ignore[union-attr]
    if code:
        raise SystemExit(f"the JVM that writes the archive ended with exit code {code}")


def _under_load(pipeline: Pipeline, harness: Harness, rows: list[dict[str, Any]]) -> None:
    """Run it through many epoch boundaries: the next JVM compiles hot code earlier."""
    from eagre.commit import Checkpoint

    folder = Path(f"{pipeline.name}-loaded").resolve()
    query = pipeline.start(
        harness.spark,
        checkpoint=str(folder),
        brokers=harness.brokers,
        every=SHORT,
        start=harness.topics.ends(pipeline.sources[0].topics),
        replays=harness.replay_filter(pipeline, Checkpoint(folder)),
    )
    deadline = time.monotonic() + LOADED_SECONDS
    while time.monotonic() < deadline:
        harness.write(pipeline, rows)
        time.sleep(len(rows) / LOADED_RATE)
    query.stop()


if __name__ == "__main__":
    if sys.argv[1] == BACKGROUND:
        _train_when_idle()
    else:
        _run(sys.argv[1])
