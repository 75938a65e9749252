"""Where a checkpoint lies: a folder, by its path or its ``file:`` URI."""

from __future__ import annotations

import re
from pathlib import Path

from eagre.errors import CheckpointError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def local_folder(location: Path | str) -> Path:
    """Return the folder of a checkpoint.

    >>> local_folder("file:///data/score")
    PosixPath('/data/score')

    Raises:
        CheckpointError: It is a URI of another scheme.
    """
    text = str(location)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    if scheme[1].lower() == "file":
        return Path("/" + text[len("file:") :].lstrip("/"))
    raise CheckpointError(
        "CHECKPOINT_REMOTE",
        f"a checkpoint must be a folder on a local or mounted disk, not {text}.",
        hint="mount the store and pass the folder, or start the query from plain PySpark with "
        "Pipeline.start(checkpoint=...), without mid-epoch commits and exactly once.",
    )
