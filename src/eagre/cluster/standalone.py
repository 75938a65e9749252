"""Spark's own standalone master and workers, from PySpark's jars, on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from eagre.broker.registry import born
from eagre.broker.server import free_port, require_free
from eagre.cluster import registry
from eagre.cluster.registry import Process, RunningCluster
from eagre.config import LOOPBACK, megabytes
from eagre.errors import BrokerError, ClusterError
from eagre.files import rotate
from eagre.jvm import find_java
from eagre.jvm.spark_home import spark_jars
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

START_SECONDS = 120
"""Master and workers answer in seconds; an overloaded machine may need minutes."""
STOP_SECONDS = 20
ANSWER_SECONDS = 10
DAEMON_MEMORY = "512m"
RETAINED_LOGS = 1
MASTER, WORKER = "master.Master", "worker.Worker"


def start(
    folder: Path,
    *,
    workers: int = 2,
    cores: int = 2,
    memory: str = "2g",
    port: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> RunningCluster:
    """Start a master and its workers in the background, and wait until all have registered.

    >>> cluster = start(Path("cluster"), workers=2)  # doctest: +SKIP
    >>> cluster.url  # doctest: +SKIP
    'spark://127.0.0.1:40123'
    >>> stop(cluster)  # doctest: +SKIP

    Args:
        folder: Where the logs and the executors' files go.
        workers: The number of workers.
        cores: The cores that each worker offers: as many task slots, real cores or not.
        memory: The memory that each worker offers to executors.
        port: The master's port on 127.0.0.1; 0 for a free one.
        say: Receives progress messages.

    Raises:
        ClusterError: The port is in use, or a process ended or did not answer, with its reason.
        JvmError: There is no suitable Java or Spark.
        SettingsError: The memory is malformed.
    """
    megabytes(memory)
    port = port or free_port()
    _require_free(port)
    folder.mkdir(parents=True, exist_ok=True)
    web_port = free_port()
    say(f"starting a Spark master and {workers} workers on {LOOPBACK}:{port}")
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_launch(folder, MASTER, "master", port=port, web_port=web_port))
        for number in range(1, workers + 1):
            offers = ("--cores", str(cores), "--memory", memory, f"spark://{LOOPBACK}:{port}")
            started.append(_launch(folder, WORKER, f"worker-{number}", *offers))
        _await_workers(folder, web_port, started)
        master, *others = map(_identity, started)
        cluster = RunningCluster(
            port, web_port, cores, memory, str(folder.resolve()), master, tuple(others)
        )
        registry.register(cluster)
    except BaseException:
        _end([process.pid for process in reversed(started)])
        for process in started:
            process.wait(STOP_SECONDS)
        raise
    for process in started:
        process.returncode = 0  # from here on only the registry knows it
    return cluster


def stop(cluster: RunningCluster) -> None:
    """Stop a cluster: its executors, its workers, its master."""
    processes = [p.pid for p in (*cluster.workers, cluster.master) if p.alive]
    _end(processes)
    for pid in processes:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # if this program started it
    registry.forget(cluster.port)


def status(cluster: RunningCluster) -> dict[str, Any]:
    """Return what the master says of its workers and applications.

    Raises:
        ClusterError: The master does not answer.
    """
    try:
        return _ask(cluster.web_port)
    except (OSError, ValueError) as error:
        raise ClusterError(
            "CLUSTER_UNREACHABLE",
            f"the master of {cluster.url} does not answer: {error}.",
            hint=f"its log is {Path(cluster.folder) / 'master.log'}; "
            f"`eagre cluster stop --port {cluster.port}` stops what is left.",
        ) from None


def _require_free(port: int) -> None:
    try:
        require_free(port)
    except BrokerError as error:
        raise ClusterError(
            error.code,
            error.problem,
            hint="choose another with --port, or see `eagre cluster status`.",
        ) from None


def _launch(
    folder: Path, kind: str, name: str, *offers: str, port: int = 0, web_port: int = 0
) -> subprocess.Popen[bytes]:
    """Start a daemon in a session of its own: its executors belong to it."""
    log = folder / f"{name}.log"
    rotate(log, RETAINED_LOGS)
    command = [
        *(str(spark_jars().parent / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"),
        *("--host", LOOPBACK, "--port", str(port), "--webui-port", str(web_port), *offers),
    ]
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of the daemons: Spark's own scripts read it."""
    return {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(spark_jars().parent),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_PUBLIC_DNS": LOOPBACK,
        "SPARK_WORKER_DIR": str(folder.resolve() / "work"),
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:-UsePerfData -XX:+UseSerialGC",
        "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=true",
    }


def _await_workers(folder: Path, web_port: int, started: list[subprocess.Popen[bytes]]) -> None:
    """Wait until the master has as many workers as were started.

    Raises:
        ClusterError: A process ended, or they did not register in time.
    """

    def registered() -> bool:
        _require_running(folder, started)
        with contextlib.suppress(OSError, ValueError):
            alive = [w for w in _ask(web_port)["workers"] if w["state"] == "ALIVE"]
            return len(alive) == len(started) - 1
        return False

    began = time.monotonic()
    try:
        wait_until(registered, START_SECONDS, "", interval=0.2)
    except TimeoutError:
        waited = f"{time.monotonic() - began:.0f} s"
        raise _failed(folder, "master", f"did not have all workers after {waited}") from None


def _require_running(folder: Path, started: list[subprocess.Popen[bytes]]) -> None:
    names = ["master", *(f"worker-{number}" for number in range(1, len(started)))]
    for name, process in zip(names, started, strict=True):
        if process.poll() is not None:
            raise _failed(folder, name, "ended while starting")


def _failed(folder: Path, name: str, what: str) -> ClusterError:
    log = folder / f"{name}.log"
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    reasons = [line for line in lines if "ERROR" in line or "Exception" in line or "rror:" in line]
    reason = (reasons or lines or ["its log is empty"])[-1]
    return ClusterError(
        "CLUSTER_FAILED", f"the {name} {what}: {reason}", hint=f"its whole log is {log}."
    )


def _ask(web_port: int) -> dict[str, Any]:
    """Return the master's state, as its web UI has it.

    Raises:
        OSError: It does not answer.
    """
    with urlopen(f"http://{LOOPBACK}:{web_port}/json/", timeout=ANSWER_SECONDS) as answer:
        state: dict[str, Any] = json.load(answer)
        return state


def _identity(process: subprocess.Popen[bytes]) -> Process:
    return Process(process.pid, born(process.pid) or time.time())


def _end(pids: Sequence[int]) -> None:
    """End processes and what they started: a worker that gets SIGTERM stops its executors."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: not any(map(born, pids)), STOP_SECONDS, "")
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
