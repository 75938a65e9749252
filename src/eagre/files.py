"""Atomic file writes: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a file atomically: write a temporary file, then rename it.

    >>> from pathlib import Path
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "deep" / "a.json", "{}")
    ...     [file.name for file in (Path(folder) / "deep").iterdir()]
    ['a.json']

    Args:
        path: The file; missing folders are created.
        text: Its content.
        durable: Whether to flush it to disk (fsync) before the rename.

    Raises:
        OSError: It cannot be written; the old content remains.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with part.open("w") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)
