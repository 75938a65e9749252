"""The record of a soak: one JSON line for each sample, fault and finding, in its folder."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SAMPLES = "samples.jsonl"

Line = dict[str, Any]


class Record:
    """Appends lines to the record; every line is complete on the disk when ``add`` returns."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / SAMPLES).open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def add(self, kind: str, hours: float, /, **entries: Any) -> None:  # noqa: ANN401  (JSON)
        """Append a line."""
        line = {"kind": kind, "hours": round(hours, 5), **entries}
        with self._lock:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read(folder: Path) -> Iterator[Line]:
    """Read a record; a last line that was cut off is skipped."""
    for text in (folder / SAMPLES).read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            return
