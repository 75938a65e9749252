"""An app as the process under test: its start, its epochs, and cleanup after a kill."""

from __future__ import annotations

import contextlib
import shlex
import sys
from typing import TYPE_CHECKING

from eagre.commit import Checkpoint
from eagre.commit.checkpoint import BINDING
from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS
from eagre.errors import CheckpointError
from eagre.runtime import runs
from eagre.trial.process import Command
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

COMMITS = ("commits/[0-9]*", f"{MID_EPOCH_COMMITS}/[0-9]*")
"""Epoch boundaries, and the mid-epoch commits in place of them."""

END_SECONDS = 10


def run_app(
    *arguments: str,
    environment: dict[str, str] | None = None,
    settings: dict[str, str] | None = None,
    dashboard: bool = False,
) -> Command:
    """Start ``eagre run``, without the dashboard by default, with additional Spark settings."""
    stated = dict(environment or {})
    if settings:
        confs = [word for k, value in settings.items() for word in ("--conf", f"{k}={value}")]
        stated["PYSPARK_SUBMIT_ARGS"] = shlex.join([*confs, "pyspark-shell"])
    shown = [] if dashboard else ["--no-dashboard"]
    return Command([sys.executable, "-m", "eagre", "run", *shown, *arguments], stated)


def written_us(folder: Path, kinds: Iterable[str]) -> list[int]:
    """Return when the files of these kinds below a folder were last written."""
    paths = (path for kind in kinds for path in folder.rglob(kind))
    return sorted(path.stat().st_mtime_ns // 1000 for path in paths if path.is_file())


def forget(folder: Path) -> None:
    """Remove the status files of killed apps and the records of their checkpoints in a folder.

    Eagre records checkpoints outside of their folder, to notice lost ones;
    these are removed on purpose.
    """
    runs.running()
    for binding in list(folder.rglob(BINDING)):
        checkpoint = Checkpoint(binding.parent)
        with contextlib.suppress(CheckpointError, TimeoutError, OSError):
            wait_until(lambda of=checkpoint: not of.in_use, END_SECONDS, "")  # type: ignore[misc]
            checkpoint.reset()
