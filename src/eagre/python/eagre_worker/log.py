"""What the user's functions print and log, line by line into the log, with the pipeline's name."""

from __future__ import annotations

import io
import logging
import os
import sys


class Lines(io.TextIOBase):
    """A text stream that writes whole lines to standard error, each behind a prefix."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix
        self._rest = ""

    def writable(self) -> bool:
        """Say yes."""
        return True

    def write(self, text: str) -> int:
        """Write the lines that are complete; keep the rest."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._emit(line)
        return len(text)

    def flush(self) -> None:
        """Write what is left, though its line has not ended."""
        if self._rest:
            line, self._rest = self._rest, ""
            self._emit(line)

    def _emit(self, line: str) -> None:
        os.write(2, f"{self._prefix}{line}\n".encode(errors="replace"))


def redirect(name: str) -> None:
    """Send ``print``, warnings and logging of this process to the log."""
    sys.stdout = sys.stderr = Lines(f"[{name}] ")
    logging.basicConfig(
        level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
