"""Where a checkpoint lies: a folder on a local or mounted disk, or a prefix in an object store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from eagre.commit.store import StorePath
from eagre.errors import CheckpointError
from eagre.session import FURTHER_JARS

if TYPE_CHECKING:
    from eagre.commit.store import CheckpointPath

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/+")
STORES = {"s3a": "s3"}
"""The schemes of the stores that hold checkpoints, and the set of jars that each needs."""


def located(location: Path | StorePath | str) -> CheckpointPath:
    """Return where a checkpoint lies.

    >>> located("file:///data/score")
    PosixPath('/data/score')
    >>> str(located("s3a://bucket/score/"))
    's3a://bucket/score'

    Raises:
        CheckpointError: It is in a store that is not supported.
    """
    if isinstance(location, StorePath):
        return location
    text = str(location)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    kind, rest = scheme[1].lower(), text[scheme.end() :].rstrip("/")
    if kind == "file":
        return Path("/" + rest)
    if kind in STORES and "/" in rest:
        return StorePath(f"{kind}://{rest}")
    raise CheckpointError(
        "CHECKPOINT_REMOTE",
        f"a checkpoint is a folder on a local or mounted disk, or s3a://BUCKET/NAME, not {text}.",
        hint="S3 has the scheme s3a, and a checkpoint needs a name in its bucket. Mount any "
        "other store, and pass the folder.",
    )


def session_settings(location: str | None) -> dict[str, str]:
    """Return the settings of a session that reaches a checkpoint.

    >>> session_settings("s3a://bucket/score")
    {'spark.eagre.jars': 's3'}
    >>> session_settings("/data/score")
    {}
    """
    path = located(location) if location else None
    return {FURTHER_JARS: STORES[path.scheme]} if isinstance(path, StorePath) else {}
