"""The registry of running clusters: one file each; stale files are removed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from eagre.broker.registry import living, same_process
from eagre.config import LOOPBACK, state_dir
from eagre.files import formatted, unformatted, write_atomically

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process of a cluster.

    Attributes:
        pid: Its id.
        born: When it started, because ids are reused.
    """

    pid: int
    born: float

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return same_process(self.pid, self.born)


@dataclass(frozen=True)
class RunningCluster:
    """A running master and its workers.

    Attributes:
        port: The master's port, on loopback.
        web_port: The port of the master's web UI.
        cores: The cores that each worker offers.
        memory: The memory that each worker offers.
        folder: Where the logs and the executors' files are.
        master: The master's process.
        workers: The workers' processes.
    """

    port: int
    web_port: int
    cores: int
    memory: str
    folder: str
    master: Process
    workers: tuple[Process, ...]

    @property
    def url(self) -> str:
        """The master's URL, as for ``--master``."""
        return f"spark://{LOOPBACK}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether any of its processes still runs."""
        return any(process.alive for process in (self.master, *self.workers))


def register(cluster: RunningCluster) -> None:
    """Write the cluster's file."""
    write_atomically(_file(cluster.port), formatted(asdict(cluster)))


def forget(port: int) -> None:
    """Remove the cluster's file."""
    _file(port).unlink(missing_ok=True)


def running() -> list[RunningCluster]:
    """Return the running clusters, and remove the files of others."""
    return living(_folder(), _read)


def _read(path: Path) -> RunningCluster | None:
    """Read a cluster's file; None if it was just removed or is incomplete."""
    try:
        return _parsed(unformatted(path.read_text(), path))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _parsed(entries: dict[str, Any]) -> RunningCluster:
    if "page" in entries:  # the name until 0.2
        entries["web_port"] = entries.pop("page")
    master = Process(**entries.pop("master"))
    workers = tuple(Process(**worker) for worker in entries.pop("workers"))
    return RunningCluster(**entries, master=master, workers=workers)


def _folder() -> Path:
    return state_dir() / "clusters"


def _file(port: int) -> Path:
    return _folder() / f"{port}.json"
