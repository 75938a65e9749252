"""Atomic file writes, and temporary folders that are removed with their owner."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCK = ".lock"
FORMAT, ENTRY = 1, "format"
"""The format number of the files that this release writes. Files without a number have it too."""
OWNER_FOLDER, OWNER_FILE = 0o700, 0o600
LOG_BYTES = 10_000_000
"""A log file that has grown to this size is closed, and a new one is begun."""
UNLOCKED_SECONDS = 24 * 3600
"""The age at which a folder without a lock is abandoned; earlier releases made such folders."""


def write_atomically(
    path: Path, text: str, *, durable: bool = False, private: bool = False
) -> None:
    """Write a file atomically: write a temporary file, then rename it.

    >>> from pathlib import Path
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder) / "deep" / "a.json", "{}")
    ...     [file.name for file in (Path(folder) / "deep").iterdir()]
    ['a.json']

    Args:
        path: The file; missing folders are created.
        text: Its content.
        durable: Whether to flush it to disk (fsync) before the rename, and its folder after it.
        private: Whether only this user may read it, and missing folders.

    Raises:
        OSError: It cannot be written; the old content remains.
    """
    make_folder(path.parent, private=private)
    part = path.with_name(f".{path.name}.part")
    with part.open("w") as file:
        if private:
            part.chmod(OWNER_FILE)
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)
    if durable:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def formatted(entries: dict[str, Any]) -> str:
    """Return entries as JSON with the format number of this release.

    >>> formatted({"pid": 7})
    '{"format": 1, "pid": 7}'
    """
    return json.dumps({ENTRY: FORMAT, **entries})


def unformatted(text: str, path: Path) -> dict[str, Any]:
    """Parse what ``formatted`` wrote, or an earlier release without a number.

    Raises:
        FileError: A newer release wrote it.
        ValueError: It is damaged.
    """
    entries: dict[str, Any] = json.loads(text)
    require_known_format(entries, path)
    entries.pop(ENTRY, None)
    return entries


def require_known_format(entries: Any, path: object) -> None:  # noqa: ANN401  (parsed JSON)
    """Check that this release knows the format of a file; one without a number has the first.

    Raises:
        FileError: A newer release wrote it.
        ValueError: It has no valid number.
    """
    number = entries.get(ENTRY, FORMAT) if isinstance(entries, dict) else None
    if not isinstance(number, int):
        raise ValueError("it has no valid format number")  # noqa: TRY004  (it is broken content)
    if number > FORMAT:
        raise FileError(
            "FILE_NEWER",
            f"{path} has format {number}, and this release of Eagre reads up to {FORMAT}.",
            hint="a newer release wrote it: use that release, or remove the file.",
        )


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Create a folder and those above it; a new private one is for this user alone."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=OWNER_FOLDER if private else 0o777, exist_ok=True)


def rotate(path: Path, retained: int) -> None:
    """Rename a log file to ``NAME.1.log``, older ones to the next number, and remove the oldest.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(4):
    ...         _ = (Path(folder) / "a.log").write_text("")
    ...         rotate(Path(folder) / "a.log", 2)
    ...     sorted(file.name for file in Path(folder).iterdir())
    ['a.1.log', 'a.2.log']
    """
    if not path.exists():
        return
    older = [path.with_name(f"{path.stem}.{number}.log") for number in range(1, retained + 1)]
    for before, after in reversed(list(zip([path, *older[:-1]], older, strict=True))):
        with contextlib.suppress(FileNotFoundError):
            before.replace(after)


class TemporaryFolder:
    """A temporary folder, removed by its owner, or by a later process if the owner was killed.

    It is locked from its creation until every process that holds the lock has ended. Making one
    first removes the folders of the same kind that no process holds.

    >>> with TemporaryFolder(Path(tempfile.gettempdir()) / "eagre-doctest", "kind-") as path:
    ...     path.is_dir()
    True
    >>> path.exists()
    False

    Args:
        base: The folder in which it is made.
        kind: The prefix of all folders of this kind.
        mark: The next part of its name.
        spare: Returns whether an unlocked folder is in use nevertheless.
        before_removal: Called with each folder that is about to be removed.
    """

    def __init__(
        self,
        base: Path,
        kind: str,
        mark: str = "",
        *,
        spare: Callable[[Path], bool] = lambda _: False,
        before_removal: Callable[[Path], None] = lambda _: None,
    ) -> None:
        self._before_removal = before_removal
        base.mkdir(parents=True, exist_ok=True)
        with alone(base):
            for left in base.glob(f"{kind}*"):
                if not _held(left) and not spare(left):
                    self._remove(left)
            self.path = Path(tempfile.mkdtemp(prefix=f"{kind}{mark}", dir=base))
            self.lock = _open(self.path / LOCK)
            fcntl.flock(self.lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove it with its contents, and release the lock; a second call does nothing."""
        if self.lock < 0:
            return
        self._remove(self.path)
        os.close(self.lock)
        self.lock = -1

    def _remove(self, folder: Path) -> None:
        """Remove a folder; a later cleanup removes files that a dying process still writes."""
        self._before_removal(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            with contextlib.suppress(OSError):
                (folder / LOCK).touch()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Allow only one process at a time to change a file or folder; the lock is a file beside it."""
    lock = _open(path.with_name(f".{path.name}.lock"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _held(folder: Path) -> bool:
    """Return whether a process holds the lock of a folder, or may be about to take it."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return _age(folder) < UNLOCKED_SECONDS
    except OSError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
