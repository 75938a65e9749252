"""Paths in a store that only Hadoop reaches; they have what checkpoints use of ``pathlib.Path``."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagre.errors import CheckpointError
from eagre.files import write_atomically
from eagre.jvm import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TypeAlias

    from pyspark.sql import SparkSession


@dataclass(frozen=True, order=True)
class StorePath:
    """A file or folder in a store. Reading and writing needs a Spark session of this process.

    >>> path = StorePath("s3a://bucket/score") / "commits" / "7"
    >>> path.name, str(path.parent), path.scheme
    ('7', 's3a://bucket/score/commits', 's3a')

    Attributes:
        address: Its URI.
    """

    address: str

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> StorePath:
        return StorePath(f"{self.address}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return posixpath.basename(self.address)

    @property
    def parent(self) -> StorePath:
        """The folder it is in."""
        return StorePath(posixpath.dirname(self.address))

    @property
    def scheme(self) -> str:
        """The scheme of the URI."""
        return self.address.split(":", 1)[0]

    def exists(self) -> bool:
        """Return whether it exists."""
        return _files().exists(self.address)

    def iterdir(self) -> Iterator[StorePath]:
        """Yield what is in the folder; nothing if there is no such folder."""
        return (self / name for name in _files().list(self.address))

    def read_text(self) -> str:
        """Return the content.

        Raises:
            FileNotFoundError: There is no such file.
        """
        text = _files().read(self.address)
        if text is None:
            raise FileNotFoundError(2, "No such file", self.address)
        return text

    def write_text(self, text: str) -> None:
        """Write the whole file, in the place of an older one."""
        _files().write(self.address, text)

    def unlink(self, *, missing_ok: bool = True) -> None:  # noqa: ARG002  (a store does not say)
        """Remove the file."""
        _files().delete(self.address)

    def remove(self) -> None:
        """Remove the folder with all in it."""
        _files().delete(self.address)

    def size(self) -> int:
        """Return the size of all files in the folder."""
        return _files().size(self.address)


CheckpointPath: TypeAlias = "Path | StorePath"


def write(path: CheckpointPath, text: str) -> None:
    """Write a file of a checkpoint, durably; a kill leaves the old content or the new one."""
    if isinstance(path, StorePath):
        path.write_text(text)
    else:
        write_atomically(path, text, durable=True)


def create(path: CheckpointPath, text: str) -> None:
    """Write a new file of a checkpoint, durably.

    Raises:
        CheckpointError: Another run has written it.
    """
    if not isinstance(path, StorePath):
        write_atomically(path, text, durable=True)
    elif not _files().create(path.address, text):
        raise gateway.taken(str(path.parent.parent))


def session() -> SparkSession:
    """Return the session of this process, which reaches the store.

    Raises:
        CheckpointError: There is none.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context  # noqa: SLF001  (PySpark's own way to ask for it)
    if context is None:
        raise CheckpointError(
            "CHECKPOINT_NEEDS_SPARK",
            "a checkpoint in a store is read through Spark, and this process has no session.",
            hint='create one first: eg.session(**{"spark.eagre.jars": "s3"}).',
        )
    return SparkSession.builder.getOrCreate()


def _files() -> gateway.CheckpointFiles:
    return gateway.CheckpointFiles(session())
