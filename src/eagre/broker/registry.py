"""The registry of running embedded brokers: one file each; stale files are removed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from eagre.config import LOOPBACK, state_dir
from eagre.errors import BrokerError
from eagre.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """

    pid: int
    born: float
    port: int
    data: str
    background: bool

    @property
    def address(self) -> str:
        """``host:port``, as for ``--brokers``."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return same_process(self.pid, self.born)


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


def living(folder: Path, read: Callable[[Path], Entry | None]) -> list[Entry]:
    """Read the files of running processes in a folder, and remove the others."""
    entries = []
    for path in sorted(folder.glob("*.json")):
        entry = read(path)
        if entry and entry.alive:
            entries.append(entry)
        else:
            path.unlink(missing_ok=True)
    return entries


def register(broker: RunningBroker) -> None:
    """Write the broker's file."""
    write_atomically(_file(broker.port), json.dumps(asdict(broker)))


def forget(port: int) -> None:
    """Remove the broker's file."""
    _file(port).unlink(missing_ok=True)


def running() -> list[RunningBroker]:
    """Return the running brokers, and remove the files of others."""
    return living(_folder(), _read)


def _read(path: Path) -> RunningBroker | None:
    """Read a broker's file; None if it was just removed or is incomplete."""
    try:
        return RunningBroker(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def serving(data: Path) -> RunningBroker | None:
    """Return the broker that runs on this data folder, if any."""
    return next((b for b in running() if Path(b.data) == data.resolve()), None)


def the_running_one(data: Path) -> RunningBroker:
    """Choose the broker of a command without ``--brokers``: this project's, or the only one.

    Raises:
        BrokerError: No broker runs, or several do.
    """
    brokers = running()
    broker = serving(data)
    if broker or len(brokers) == 1:
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
