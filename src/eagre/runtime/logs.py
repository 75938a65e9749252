"""Log files that are bounded: a new file at each start and at each size, the oldest is removed."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import IO, TYPE_CHECKING

from eagre.files import LOG_BYTES, OWNER_FILE, make_folder, rotate

if TYPE_CHECKING:
    from pathlib import Path

RETAINED = 10
"""How many closed log files are retained for each pipeline."""
CHUNK = 1 << 16


class RotatingLog:
    """Copies the output of a process to ``NAME.log``; older files are ``NAME.1.log`` and so on.

    A thread reads the pipe, so that no line is lost when a file is closed. Only this user may read
    the files: they may hold parts of records.

    Args:
        folder: Where the files are; it is created.
        name: The first part of their names.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.log"
        self._lock = threading.Lock()
        self._file = self._begin()
        self._pipe, self.output = os.pipe()
        self._thread = threading.Thread(target=self._copy, name=f"eagre-log-{name}", daemon=True)
        self._thread.start()

    def handed_over(self) -> None:
        """Close this process's end of the pipe: the child has its own."""
        os.close(self.output)

    def continue_as(self, name: str) -> None:
        """Write what comes next to a new file of another name."""
        with self._lock:
            self.path = self.path.with_name(f"{name}.log")
            self._begin_next()

    def close(self, timeout: float) -> None:
        """Wait until everything that the processes have written is in the file."""
        self._thread.join(timeout)

    def _begin(self) -> IO[bytes]:
        make_folder(self.path.parent, private=True)
        rotate(self.path, RETAINED)
        file = self.path.open("wb", buffering=0)
        self.path.chmod(OWNER_FILE)
        return file

    def _copy(self) -> None:
        with os.fdopen(self._pipe, "rb", buffering=0) as pipe:
            size = 0
            while chunk := pipe.read(min(CHUNK, LOG_BYTES)):
                with self._lock:
                    if size and size + len(chunk) > LOG_BYTES:
                        self._begin_next()
                        size = 0
                    size += len(chunk)
                    self._write(chunk)
        self._file.close()

    def _begin_next(self) -> None:
        """Begin the next file; where none can be made, continue in this one."""
        with contextlib.suppress(OSError):
            before, self._file = self._file, self._begin()
            before.close()

    def _write(self, chunk: bytes) -> None:
        """Write to the file; a full disk must not stop the process that logs."""
        with contextlib.suppress(OSError):
            self._file.write(chunk)
