"""Apache Kafka in a child process: KRaft mode, loopback only, a separate data folder."""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from eagre.broker import registry
from eagre.broker.server_properties import Node, cluster_id, require_size, write_properties
from eagre.broker.topics import Topics
from eagre.config import LOOPBACK, cache_dir
from eagre.errors import BrokerError
from eagre.files import LOG_BYTES, TemporaryFolder, rotate
from eagre.jvm import class_path, companion_jar, find_java
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

START_SECONDS = 180
"""Kafka answers in seconds; an overloaded machine may need minutes. An exit ends the wait."""
REMIND_SECONDS = 15
STOP_SECONDS = 20


class EmbeddedBroker:
    """A real Kafka broker for programs and tests.

    Without ``data`` its folder is temporary; with ``data`` topics and records remain
    for the next start. The broker ends when ``stop`` is called, when the program ends, and when
    the program is killed.

    >>> with EmbeddedBroker() as broker:  # doctest: +SKIP
    ...     print(broker.address)
    127.0.0.1:40123

    Args:
        port: The port on 127.0.0.1; 0 for a free one.
        data: The data folder; None for a temporary one.
        settings: More entries for ``server.properties``; ``listeners`` are added to the default.
        background: Whether it outlives the program that starts it.
        node: Its place among several brokers; ``EmbeddedCluster`` sets it.
        say: Receives progress messages.
    """

    def __init__(
        self,
        port: int = 0,
        data: Path | str | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        background: bool = False,
        node: Node | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.port = port
        self.data = Path(data).resolve() if data else None
        self._settings = dict(settings or {})
        self._background = background
        self._node = node
        self._say = say
        self._temporary = data is None
        self._scratch: TemporaryFolder | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """``host:port``, as for Kafka clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The broker's process."""
        if self._process is None:
            raise BrokerError("BROKER_NOT_STARTED", "this broker has not been started.")
        return self._process.pid

    def start(self) -> Self:
        """Start the broker and wait until it answers a metadata request.

        Raises:
            BrokerError: The port or the data folder is in use, or Kafka failed, with its reason.
        """
        self.launch()
        self.await_ready()
        return self

    def launch(self) -> None:
        """Start the process without waiting; of several brokers, none answers alone."""
        port = self.port or free_port()
        require_free(port)
        jars = [companion_jar(), *class_path("broker", self._say)]
        data = self._data_folder()
        node = self._node or Node(1, (free_port(),), cluster_id(data))
        properties = write_properties(data, port, node, self._settings)
        self.port = port
        self.data = data
        self._say(f"starting Kafka on {LOOPBACK}:{port}")
        atexit.register(self.stop)
        try:
            if _is_full(data / "kafka.log"):
                rotate(data / "kafka.log", 1)
            with (data / "kafka.log").open("ab") as log:
                self._process = self._launch(jars, properties, node.cluster, log)
            self._register()
        except BaseException:
            self.stop()
            raise

    def await_ready(self) -> None:
        """Wait until it answers a metadata request; a background broker is then let go."""
        try:
            self._await_ready()
        except BaseException:
            self.stop()
            raise
        if self._background:
            self._let_go()

    def stop(self) -> None:
        """Stop the broker; a temporary data folder is removed.

        A background broker continues: ``stop_background`` stops it.
        """
        process, self._process = self._process, None
        atexit.unregister(self.stop)
        if process is not None:
            end(process.pid, at_once=self._temporary, reap=process.wait)
            if process.stdin:
                process.stdin.close()
            registry.forget(self.port)
        if self._scratch:
            self._scratch.remove()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _folder(self) -> Path:
        if self.data is None:
            raise BrokerError("BROKER_NOT_STARTED", "this broker has not been started.")
        return self.data

    def _data_folder(self) -> Path:
        if self.data is None or self._temporary:
            self._scratch = TemporaryFolder(
                cache_dir() / "brokers", "temporary-", spare=registry.in_use
            )
            return self._scratch.path
        if self._node is None:
            require_size(self.data, 1)
        self.data.mkdir(parents=True, exist_ok=True)
        if registry.in_use(self.data):
            other = registry.serving(self.data)
            where = f" on {other.address}" if other else ""
            raise BrokerError(
                "DATA_IN_USE",
                f"another broker{where} is running on the data folder {self.data}.",
                hint="use that broker, stop it with `eagre broker stop`, or choose another folder "
                "with --data.",
            )
        return self.data

    def _launch(
        self, jars: list[Path], properties: Path, cluster: str, log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        command = [
            str(find_java().java),
            *("-Xms512m", "-Xmx512m", "-Xmn200m", "-XX:MetaspaceSize=128m", "-XX:+UseParallelGC"),
            *(
                "-XX:-UsePerfData",
                "-Djava.awt.headless=true",
            ),  # a killed JVM leaves its hsperfdata file
            *("-cp", ":".join(map(str, jars))),
            "dev.eagre.broker.EmbeddedBroker",
            str(properties),
            cluster,
            *([] if self._background else ["--tether"]),
        ]
        # A separate session: Ctrl-C in the terminal reaches the program, which then stops Kafka.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if self._background else subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            # Kafka holds the lock of its folder too: it may outlive the program.
            pass_fds=[self._scratch.lock] if self._scratch else [],
        )

    def _await_ready(self) -> None:
        topics = Topics(self.address)
        began = time.monotonic()
        reminders = itertools.count(REMIND_SECONDS, REMIND_SECONDS)
        reminder = next(reminders)

        def ready() -> bool:
            nonlocal reminder
            if self._died() or topics.answers():
                return True
            if time.monotonic() - began > reminder:
                self._say(f"Kafka is still starting after {reminder} s; waiting for it")
                reminder = next(reminders)
            return False

        try:
            wait_until(ready, START_SECONDS, "")
        except TimeoutError:
            waited = time.monotonic() - began
            raise self._failed(f"did not answer within {waited:.0f} s") from None
        if self._died():
            raise self._failed("ended while starting")

    def _died(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _failed(self, what: str) -> BrokerError:
        log = self._folder() / "kafka.log"
        return BrokerError(
            "BROKER_FAILED",
            f"the embedded broker on {self.address} {what}: {_last_error(log)}",
            hint="free the disk and memory it needs, or name another folder with --data."
            if self._temporary
            else f"its full log is {log}.",
        )

    def _let_go(self) -> None:
        """Detach the process: from here on only the registry knows it."""
        atexit.unregister(self.stop)
        if self._process:
            self._process.returncode = 0
        self._process = None
        self._scratch = None

    def _register(self) -> None:
        born = registry.born(self.pid)
        if born is not None:
            cluster = str(self._folder().parent) if self._node else ""
            registry.register(
                registry.RunningBroker(
                    self.pid, born, self.port, str(self._folder()), self._background, cluster
                )
            )


def stop_background(broker: registry.RunningBroker) -> None:
    """Stop a broker that another program started."""
    end(broker.pid, alive=lambda: broker.alive)
    registry.forget(broker.port)


def end(
    pid: int,
    *,
    at_once: bool = False,
    reap: Callable[[float], object] | None = None,
    alive: Callable[[], bool] = lambda: True,
) -> None:
    """Stop a broker process: with SIGTERM first, unless its data is temporary."""
    for sign in (signal.SIGKILL,) if at_once else (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, sign)
            if reap:
                reap(STOP_SECONDS)
            else:
                wait_until(lambda: not alive(), STOP_SECONDS, "")
        except (TimeoutError, subprocess.TimeoutExpired):
            continue
        except ProcessLookupError:
            pass
        return


def free_port() -> int:
    """Return a free port on loopback."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def require_free(port: int) -> None:
    """Refuse a port that is in use.

    Raises:
        BrokerError: It is in use.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise BrokerError(
                "PORT_TAKEN",
                f"port {port} on {LOOPBACK} is not available: {error.strerror}.",
                hint="choose another with --port, or see `eagre broker status`.",
            ) from None


def _is_full(log: Path) -> bool:
    return log.exists() and log.stat().st_size > LOG_BYTES


def _last_error(log: Path) -> str:
    """Return Kafka's reason, if its log still exists."""
    try:
        text = log.read_text(errors="replace")
    except OSError as error:
        return f"its log cannot be read ({error.strerror})"
    lines = [line.strip() for line in text.splitlines()]
    reasons = [line for line in lines if "ERROR" in line or "Exception" in line or "Error:" in line]
    return (reasons or [line for line in lines if line] or ["its log is empty"])[-1]
