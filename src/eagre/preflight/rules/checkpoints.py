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
    own = facts.plan.format in ("console", "memory", "foreach", "foreachBatch", "noop")
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
    """Real time needs checkpoints of format 2; this one was made with format 1.

    Format 1 could lose rows when an epoch is repeated. A query that ran in micro-batches with
    Spark's defaults starts afresh: reset the checkpoint and say `--from` where to begin. Eagre's
    profile writes format 2 in both modes, so that it need not happen again.
    """
    if facts.checkpoint and facts.checkpoint.commit_version == 1:
        yield Found(
            "checkpoint",
            f"the checkpoint {facts.checkpoint.path} is of format 1.",
            "start afresh: `eagre checkpoint reset`, and --from where to begin.",
        )


@rule(
    "CHECKPOINT_UNFINISHED",
    "error",
    "Spark refuses every start on this checkpoint.",
    "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
)
def checkpoint_unfinished(facts: Facts) -> Iterator[Found]:
    """A kill in the middle of the very first commit left a temporary file in the checkpoint.

    Spark wants its logs empty before their first entry and refuses to start, for ever. Nothing was
    committed, so the files can go; `eagre run` removes them by itself.
    """
    known = facts.checkpoint
    if known and known.unfinished:
        yield Found(
            "checkpoint",
            f"the first commit in {known.path} was cut short: {known.unfinished} files are left.",
            "remove what is in its folders offsets and commits.",
            numbers={"files": known.unfinished},
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
    "Offsets of other topics are read into this query, or none are found and it begins anew.",
    real_time_only=False,
)
def checkpoint_other_pipeline(facts: Facts) -> Iterator[Found]:
    """A checkpoint belongs to one query. This one was made by another pipeline or for other topics.

    `eagre run` keeps one per pipeline by itself; name another folder, or reset this one on purpose.
    """
    known = facts.checkpoint
    if known is None:
        return
    if known.pipeline and facts.pipeline and known.pipeline != facts.pipeline:
        yield Found(
            "checkpoint",
            f"the checkpoint {known.path} belongs to pipeline {known.pipeline!r}.",
            "name another folder: --checkpoint DIR.",
        )
    elif known.offsets and facts.source_topics and not {*known.offsets} & {*facts.source_topics}:
        yield Found(
            "checkpoint",
            f"the checkpoint {known.path} is of a query that read {', '.join(known.offsets)}.",
            "name another folder: --checkpoint DIR.",
        )


@rule(
    "CHECKPOINT_IN_USE",
    "error",
    "Spark ends the running query for the new one, or refuses the new one, as it is set.",
    real_time_only=False,
)
def checkpoint_in_use(facts: Facts) -> Iterator[Found]:
    """A query that runs in this session writes to the same checkpoint.

    By default Spark stops the running query and lets the new one take its place
    (`spark.sql.streaming.stopActiveRunOnRestart`), which is rarely meant.
    """
    for query in facts.others:
        if facts.checkpoint and query.checkpoint == facts.checkpoint.path:
            yield Found(
                "checkpoint",
                f"the checkpoint {query.checkpoint} is in use by {query.name}.",
                "stop that query first, or name another folder.",
            )
