"""Changes Spark's logs in a checkpoint between two runs; the caller holds its lock."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from eagre.broker.topics import offsets_of
from eagre.commit.mid_epoch_commit import RETAINED, numbered
from eagre.commit.store import StorePath, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eagre.broker.topics import Offsets
    from eagre.commit.store import CheckpointPath

OFFSETS = "offsets"
BY_POSITION = "v1"
HEADER = 2
NONE = "-"


def write_entry(path: CheckpointPath, entry: str) -> None:
    """Write an entry of a log, durably; a checksum that Hadoop made of an older one is removed."""
    if not isinstance(path, StorePath):
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    write(path, entry)


def purge(checkpoint: CheckpointPath) -> None:
    """Remove old entries of Spark's two logs: Spark itself does so only when an epoch ends."""
    for log in (OFFSETS, "commits"):
        entries = sorted(numbered(checkpoint / log), key=lambda entry: int(entry.name))
        for entry in entries[:-RETAINED]:
            entry.unlink(missing_ok=True)


@contextlib.contextmanager
def unchanged_on_error(checkpoint: CheckpointPath) -> Iterator[None]:
    """Remove the batches that a failed step has begun: Spark would not start with them."""
    before = set(numbered(checkpoint / OFFSETS))
    try:
        yield
    except BaseException:
        for begun in set(numbered(checkpoint / OFFSETS)) - before:
            begun.unlink()
        raise


def follow_sources(
    checkpoint: CheckpointPath, sources: Sequence[Sequence[str]], start: Offsets
) -> set[str]:
    """Write the offsets in the order of the query's sources, by which Spark finds them.

    A source that is new begins at ``start``; the offsets of one that is gone are dropped.

    Args:
        checkpoint: The folder.
        sources: The topics of each source, in the order of the query's plan.
        start: Where new topics begin.

    Returns:
        The topics that are new.
    """
    entries = sorted(numbered(checkpoint / OFFSETS), key=lambda path: int(path.name))
    added: set[str] = set()
    for path in entries[-3:] if sources else ():  # Spark reads the last two, and may have begun one
        lines = path.read_text().splitlines()
        if lines[0] == BY_POSITION:
            rows, new = _ordered(lines[HEADER:], sources, start)
            added |= new
            if [_topics(row) for row in rows] != [_topics(line) for line in lines[HEADER:]]:
                write_entry(path, "\n".join([*lines[:HEADER], *rows]))
    return added


def _ordered(
    lines: list[str], sources: Sequence[Sequence[str]], start: Offsets
) -> tuple[list[str], set[str]]:
    """Return the offsets of each source as JSON, and the topics of sources that have none yet."""
    known: Offsets = {}
    for line in lines:
        known |= offsets_of(json.loads(line)) if line != NONE else {}
    # Spark itself begins with a topic that a source has gained.
    positions = [{t: known[t] for t in topics if t in known} for topics in sources]
    new = [topics for topics, offsets in zip(sources, positions, strict=True) if not offsets]
    begins = [{t: start.get(t, {}) for t in topics} for topics in sources]
    rows = [json.dumps(known or begin) for known, begin in zip(positions, begins, strict=True)]
    return rows, {topic for topics in new for topic in topics}


def _topics(line: str) -> list[str]:
    return sorted(json.loads(line)) if line != NONE else []
