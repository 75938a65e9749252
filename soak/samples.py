"""What a pipeline uses: memory, threads and file descriptors by process, and the disk."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from eagre.waiting import machine_slowness

from .runs import GONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .runs import Run

MB = 1 << 20
MOST_NAMES = 15
VARIES = re.compile(r"[0-9a-f]{8,}(-[0-9a-f]+)*|\d+")
PROJECT = Path(".eagre")
FOLDERS = {
    "checkpoint": PROJECT / "checkpoints",
    "logs": PROJECT / "logs",
    "temporary": Path("tmp"),
}

Values = dict[str, float]


class Sample(NamedTuple):
    """Values by resource, and for those of a process its life."""

    values: Values
    lives: dict[str, str]


def sample(run: Run) -> Sample:
    """Measure a pipeline: its processes and its folders."""
    values, lives = Values(), dict[str, str]()
    for role, processes in run.processes().items():
        measured = of(role, processes)
        life = "+".join(str(pid) for pid in sorted(process.pid for process in processes))
        values |= measured
        lives |= dict.fromkeys(measured, life)
    for name, folder in FOLDERS.items():
        files, size = disk_usage(run.folder / folder)
        values |= {f"{name}.files": files, f"{name}.mb": size / MB}
    return Sample(values, lives)


def of(role: str, processes: list[psutil.Process]) -> Values:
    """Return what processes use together."""
    values = dict.fromkeys(("rss_mb", "threads", "fds", "cpu_s"), 0.0)
    for process in processes:
        with contextlib.suppress(*GONE), process.oneshot():
            values["rss_mb"] += process.memory_info().rss / MB
            values["threads"] += process.num_threads()
            values["fds"] += process.num_fds()
            values["cpu_s"] += sum(process.cpu_times()[:2])
    values["processes"] = float(len(processes))
    return {f"{role}.{name}": value for name, value in values.items()}


def names(run: Run) -> dict[str, dict[str, int]]:
    """Return what the threads and open files of the JVM and the supervisor are, to name a leak."""
    opened = {}
    for role, processes in run.processes().items():
        if role in ("jvm", "supervisor", "driver"):
            folder = Path("/proc") / str(processes[0].pid)
            opened[f"{role}.threads"] = _counted(_threads(folder))
            opened[f"{role}.fds"] = _counted(_open_files(folder))
    return opened


def disk_usage(folder: Path) -> tuple[float, float]:
    """Count the files below a folder and their bytes; files may disappear meanwhile."""
    files = size = 0
    for path, _, inside in os.walk(folder):
        for name in inside:
            with contextlib.suppress(OSError):
                size += (Path(path) / name).lstat().st_size
                files += 1
    return float(files), float(size)


class Machine:
    """The speed of the machine: calibration, CPU in use, CPU taken by other machines."""

    def __init__(self) -> None:
        self._before = psutil.cpu_times()

    def sample(self) -> Values:
        """Measure since the last call; the calibration takes a tenth of a second."""
        now, before = psutil.cpu_times(), self._before
        self._before = now
        passed = {name: getattr(now, name) - getattr(before, name) for name in now._fields}
        total = sum(passed[name] for name in ("user", "nice", "system", "idle", "iowait", "irq"))
        total += passed["softirq"] + passed["steal"] or 1.0
        idle = passed["idle"] + passed["iowait"]
        return {
            "slowness": round(machine_slowness(at_least=0), 2),
            "cpu_percent": round(100 * (total - idle) / total, 1),
            "steal_percent": round(100 * passed["steal"] / total, 1),
            "load": round(os.getloadavg()[0], 1),
            "available_mb": round(psutil.virtual_memory().available / MB),
        }


def _threads(folder: Path) -> Iterable[str]:
    for task in (folder / "task").iterdir():
        with contextlib.suppress(OSError):
            yield (task / "comm").read_text().strip()


def _open_files(folder: Path) -> Iterable[str]:
    for descriptor in (folder / "fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(descriptor.readlink())
            yield target if target.startswith(("socket", "pipe", "anon")) else Path(target).name


def _counted(items: Iterable[str]) -> dict[str, int]:
    try:
        return dict(Counter(VARIES.sub("#", item) for item in items).most_common(MOST_NAMES))
    except OSError:
        return {}
