"""Records checkpoints outside of their folders, in case a folder is lost.

One file is in the user's state, which is lost with a container; the other is beside the folder, on
its disk.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from eagre.commit.store import StorePath
from eagre.config import state_dir
from eagre.errors import CheckpointError, FileError
from eagre.files import formatted, unformatted, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from eagre.commit.store import CheckpointPath


def remember(folder: CheckpointPath, cluster: str) -> None:
    """Record a checkpoint and its cluster; a place that cannot be written is skipped."""
    for file in _files(folder):
        with contextlib.suppress(OSError):
            write_atomically(file, formatted({"path": str(folder), "cluster": cluster}))


def is_remembered(folder: CheckpointPath, cluster: str | None = None) -> bool:
    """Return whether a folder held a checkpoint, optionally one of this cluster."""
    clusters = [_cluster(file) for file in _files(folder) if file.exists()]
    return cluster in clusters if cluster is not None else bool(clusters)


def forget(folder: CheckpointPath) -> None:
    """Remove the record of a checkpoint."""
    for file in _files(folder):
        file.unlink(missing_ok=True)


def _files(folder: CheckpointPath) -> list[Path]:
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    ours = state_dir() / "checkpoints" / f"{name}.json"
    if isinstance(folder, StorePath):
        return [ours]
    return [ours, folder.with_name(f".{folder.name}.eagre.json")]


def _cluster(file: Path) -> str | None:
    """Return the cluster of a checkpoint.

    Raises:
        CheckpointError: A newer release wrote the file.
    """
    try:
        return str(unformatted(file.read_text(), file)["cluster"])
    except FileError as error:
        raise CheckpointError("CHECKPOINT_NEWER", error.problem, error.hint) from None
    except (OSError, ValueError, KeyError, TypeError):
        return None
