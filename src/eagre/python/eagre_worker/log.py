"""Redirects the output of the user's functions to the log, with the pipeline's name."""

from __future__ import annotations

import io
import logging
import os
import sys


class PrefixedLines(io.TextIOBase):
    """A text stream that writes whole lines to standard error, each with a prefix."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix
        self._rest = ""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Write complete lines and buffer the rest."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._emit(line)
        return len(text)

    def flush(self) -> None:
        """Write the buffered part of a line."""
        if self._rest:
            line, self._rest = self._rest, ""
            self._emit(line)

    def _emit(self, line: str) -> None:
        os.write(2, f"{self._prefix}{line}\n".encode(errors="replace"))


def redirect(name: str) -> None:
    """Send ``print``, warnings and logging of this process to the log."""
    sys.stdout = sys.stderr = PrefixedLines(f"[{name}] ")
    logging.basicConfig(
        level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
