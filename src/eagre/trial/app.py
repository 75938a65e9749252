"""An app as the process under test: how to start it, and when its epochs ended."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS
from eagre.trial.process import Command

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

COMMITS = ("commits/[0-9]*", f"{MID_EPOCH_COMMITS}/[0-9]*")
"""Epoch boundaries, and the mid-epoch commits in place of them."""


def run_app(
    *arguments: str,
    environment: dict[str, str] | None = None,
    settings: dict[str, str] | None = None,
    page: bool = False,
) -> Command:
    """Start ``eagre run``, without its page if not told, with Spark settings on top of its own."""
    stated = dict(environment or {})
    if settings:
        confs = [word for k, value in settings.items() for word in ("--conf", f"{k}={value}")]
        stated["PYSPARK_SUBMIT_ARGS"] = shlex.join([*confs, "pyspark-shell"])
    shown = [] if page else ["--no-dashboard"]
    return Command([sys.executable, "-m", "eagre", "run", *shown, *arguments], stated)


def written_us(folder: Path, kinds: Iterable[str]) -> list[int]:
    """When the files of these kinds below a folder were last written."""
    found = (path for kind in kinds for path in folder.rglob(kind))
    return sorted(path.stat().st_mtime_ns // 1000 for path in found if path.is_file())
