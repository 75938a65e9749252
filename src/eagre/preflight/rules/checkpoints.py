"""Checkpoints: that there is one, where it survives, of the right format, and nobody else's."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from eagre.preflight.finding import Found, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

VOLATILE = ("tmpfs", "ramfs")


@rule(
    "CHECKPOINT_MISSING",
    "error",
    "Spark refuses the query at its start.",
    "_LEGACY_ERROR_TEMP_1174",
    real_time_only=False,
)
def checkpoint_missing(facts: Facts) -> Iterator[Found]:
    """A query needs a place for its progress and state; only console and memory make their own.

    `eagre run` keeps it in `.eagre/checkpoints/PIPELINE` unless `--checkpoint DIR` says otherwise.
    """
    own = facts.plan.format in ("console", "memory", "foreach", "noop")
    default = "spark.sql.streaming.checkpointLocation" in facts.settings
    if facts.checkpoint is None and not own and not default:
        yield Found(
            "checkpointLocation",
            "the query has no checkpoint.",
            'write `.option("checkpointLocation", "checkpoints/NAME")`.',
        )


@rule(
    "CHECKPOINT_FORMAT",
    "error",
    "Spark refuses the query at its start.",
    "STREAMING_REAL_TIME_MODE.CHECKPOINT_FORMAT_V1_NOT_SUPPORTED",
)
def checkpoint_format(facts: Facts) -> Iterator[Found]:
    """Real time needs state checkpoints of format 2; this one was made with format 1.

    Format 1 could lose rows when an epoch is repeated. A query that ran in micro-batches with
    Spark's defaults starts afresh: reset the checkpoint and say `--from` where to begin. Eagre's
    profile writes format 2 in both modes, so that it need not happen again.
    """
    if facts.checkpoint and facts.checkpoint.state_version == 1:
        yield Found(
            "checkpoint",
            f"the state in {facts.checkpoint.path} is of format 1.",
            "start afresh: `eagre checkpoint reset`, and --from where to begin.",
        )


@rule(
    "CHECKPOINT_VOLATILE",
    "warning",
    "Progress and state are gone after a restart of the machine; the query begins anew.",
    real_time_only=False,
)
def checkpoint_volatile(facts: Facts) -> Iterator[Found]:
    """The checkpoint is in memory or in the system's temporary folder.

    Keep it on a disk that survives the machine, or on a mounted store that survives the disk.
    """
    known = facts.checkpoint
    if known is None:
        return
    temporary = known.path.startswith((f"{tempfile.gettempdir()}/", "/tmp/", "/dev/shm/"))  # noqa: S108
    if known.file_system in VOLATILE or temporary:
        where = known.file_system if not temporary else "a temporary folder"
        yield Found(
            "checkpoint",
            f"the checkpoint {known.path} is in {where}.",
            "name a folder that lasts: --checkpoint DIR.",
        )


@rule(
    "CHECKPOINT_OTHER_PIPELINE",
    "error",
    "Two queries write one log: one of them dies, or reads the other's offsets.",
    "CONCURRENT_STREAM_LOG_UPDATE",
    real_time_only=False,
)
def checkpoint_shared(facts: Facts) -> Iterator[Found]:
    """A checkpoint belongs to one query. This one was made by another pipeline."""
    known = facts.checkpoint
    if known and known.pipeline and facts.pipeline and known.pipeline != facts.pipeline:
        yield Found(
            "checkpoint",
            f"the checkpoint {known.path} belongs to pipeline {known.pipeline!r}.",
            "name another folder: --checkpoint DIR.",
        )
