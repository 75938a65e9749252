"""Files that are there whole, or as they were before: nobody reads half of one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a file beside its place, and put it there.

    >>> from pathlib import Path
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "deep" / "a.json", "{}")
    ...     [found.name for found in (Path(folder) / "deep").iterdir()]
    ['a.json']

    Args:
        path: Its place; folders are made.
        text: What is in it.
        durable: Whether it must be on the disk before anything else happens.

    Raises:
        OSError: It cannot be written; what was there before still is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with part.open("w") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)
