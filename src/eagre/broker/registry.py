"""The registry of running embedded brokers: one file each; stale files are removed."""

from __future__ import annotations

import contextlib
import fcntl
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from eagre.config import LOOPBACK, state_dir
from eagre.errors import BrokerError, FileError
from eagre.files import formatted, unformatted, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)
_CLOCK_STEP_SECONDS = 60
"""Tolerance in seconds: start times depend on the wall clock, which may have been set."""


class _Alive(Protocol):
    @property
    def alive(self) -> bool: ...


Entry = TypeVar("Entry", bound=_Alive)


@dataclass(frozen=True)
class RunningBroker:
    """A running embedded broker.

    Attributes:
        pid: Its process.
        born: When that process started, because process ids are reused.
        port: Its port, on loopback.
        data: Its data folder.
        background: Whether it outlives the command that started it.
        cluster: The data folder that it shares with the other brokers of its cluster; "" if it is
            alone.
    """

    pid: int
    born: float
    port: int
    data: str
    background: bool
    cluster: str = ""

    @property
    def address(self) -> str:
        """Its ``host:port``."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def home(self) -> str:
        """The data folder with which it was started, alone or with others."""
        return self.cluster or self.data

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers of its cluster, as for ``--brokers``."""
        members = sorted((b for b in running() if b.home == self.home), key=lambda b: b.data)
        return ",".join(broker.address for broker in members)

    @property
    def alive(self) -> bool:
        """Whether it still runs; after a step of the clock, its lock says so."""
        same = same_process(self.pid, self.born)
        return same or (born(self.pid) is not None and in_use(Path(self.data)))


def born(pid: int) -> float | None:
    """Return when the process started, or None if it has ended."""
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None


def same_process(pid: int, started: float) -> bool:
    """Return whether a process still runs; another process with the same id does not count."""
    now = born(pid)
    return now is not None and abs(now - started) < _CLOCK_STEP_SECONDS


def in_use(data: Path) -> bool:
    """Return whether a Kafka process holds the lock of this data folder."""
    try:
        with (data / "log" / ".lock").open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def living(folder: Path, read: Callable[[Path], Entry | None]) -> list[Entry]:
    """Read the files of running processes in a folder, and remove the others.

    Those of a newer release are left to it.
    """
    entries = []
    for path in sorted(folder.glob("*.json")):
        try:
            entry = read(path)
        except FileError as error:
            log.warning("%s", error)
            continue
        if entry and entry.alive:
            entries.append(entry)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return entries


def register(broker: RunningBroker) -> None:
    """Write the broker's file."""
    write_atomically(_file(broker.port), formatted(asdict(broker)))


def forget(port: int) -> None:
    """Remove the broker's file."""
    _file(port).unlink(missing_ok=True)


def running() -> list[RunningBroker]:
    """Return the running brokers, and remove the files of others."""
    return living(_folder(), _read)


def _read(path: Path) -> RunningBroker | None:
    """Read a broker's file; None if it was just removed or is incomplete."""
    try:
        return RunningBroker(**unformatted(path.read_text(), path))
    except (OSError, ValueError, TypeError):
        return None


def serving(data: Path) -> RunningBroker | None:
    """Return the broker that runs on this data folder, if any."""
    folder = str(data.resolve())
    return next((b for b in running() if folder in {b.data, b.home}), None)


def the_running_one(data: Path) -> RunningBroker:
    """Choose the broker of a command without ``--brokers``: this project's, or the only one.

    The brokers of one cluster count as one.

    Raises:
        BrokerError: No broker runs, or several do.
    """
    brokers = running()
    broker = serving(data)
    if broker or len({b.home for b in brokers}) == 1:
        return broker or brokers[0]
    if not brokers:
        raise BrokerError(
            "NO_BROKER",
            "no embedded broker is running.",
            hint="name a cluster with --brokers HOST:PORT, or run `eagre broker start`.",
        )
    addresses = ", ".join(b.address for b in brokers)
    raise BrokerError(
        "SEVERAL_BROKERS",
        f"several embedded brokers are running: {addresses}.",
        hint="name one with --brokers.",
    )


def _folder() -> Path:
    return state_dir() / "brokers"


def _file(port: int) -> Path:
    return _folder() / f"{port}.json"
