"""Checkpoints: location, durability, format and ownership."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from eagre.preflight.finding import Match, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

VOLATILE = ("tmpfs", "ramfs")


@rule(
    "CHECKPOINT_MISSING",
    "error",
    "Spark refuses to start the query.",
    "_LEGACY_ERROR_TEMP_1174",
    real_time_only=False,
)
def checkpoint_missing(facts: Facts) -> Iterator[Match]:
    """A query needs a checkpoint; only sinks for tests, such as the console, create their own.

    `eagre run` stores it in `.eagre/checkpoints/PIPELINE`; `--checkpoint DIR` changes the folder.
    """
    temporary = facts.plan.format in ("console", "memory", "foreach", "foreachBatch", "noop")
    default = "spark.sql.streaming.checkpointLocation" in facts.settings
    if facts.checkpoint is None and not temporary and not default:
        yield Match(
            "checkpointLocation",
            "the query has no checkpoint.",
            'write `.option("checkpointLocation", "checkpoints/NAME")`.',
        )


@rule(
    "CHECKPOINT_FORMAT",
    "error",
    "Spark refuses to start the query.",
    "STREAMING_REAL_TIME_MODE.CHECKPOINT_FORMAT_V1_NOT_SUPPORTED",
)
def checkpoint_format(facts: Facts) -> Iterator[Match]:
    """Real time needs checkpoint format 2, and this checkpoint has format 1.

    Format 1 could lose rows when an epoch is repeated. A query that ran in micro-batches with
    Spark's defaults must start from scratch: reset the checkpoint, and pass `--from` to choose the
    start. Eagre's profile writes format 2 in both modes.
    """
    if facts.checkpoint and facts.checkpoint.commit_version == 1:
        yield Match(
            "checkpoint",
            f"the checkpoint {facts.checkpoint.path} has format 1.",
            "start from scratch: `eagre checkpoint reset`, then --from to choose the start.",
        )


@rule(
    "CHECKPOINT_UNFINISHED",
    "error",
    "Spark refuses every start on this checkpoint.",
    "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
)
def checkpoint_unfinished(facts: Facts) -> Iterator[Match]:
    """A crash during the very first commit left a temporary file in the checkpoint.

    Spark requires empty logs before their first entry, and refuses to start from then on. Nothing
    was committed, so you can delete the files; `eagre run` deletes them itself.
    """
    checkpoint = facts.checkpoint
    if checkpoint and checkpoint.unfinished:
        yield Match(
            "checkpoint",
            f"the first commit in {checkpoint.path} was interrupted and left "
            f"{checkpoint.unfinished} temporary files.",
            "delete the files in its folders offsets and commits.",
            numbers={"files": checkpoint.unfinished},
        )


@rule(
    "CHECKPOINT_VOLATILE",
    "warning",
    "A restart of the machine deletes progress and state; the query starts from scratch.",
    real_time_only=False,
)
def checkpoint_volatile(facts: Facts) -> Iterator[Match]:
    """The checkpoint is in memory or in the system's temporary folder.

    Store it on a local disk, or on a mounted volume that survives the loss of the machine.
    """
    checkpoint = facts.checkpoint
    if checkpoint is None:
        return
    temporary = checkpoint.path.startswith((f"{tempfile.gettempdir()}/", "/tmp/", "/dev/shm/"))  # noqa: S108
    if checkpoint.file_system in VOLATILE or temporary:
        where = checkpoint.file_system if not temporary else "a temporary folder"
        yield Match(
            "checkpoint",
            f"the checkpoint {checkpoint.path} is in {where}.",
            "choose a persistent folder: --checkpoint DIR.",
        )


@rule(
    "CHECKPOINT_OTHER_PIPELINE",
    "error",
    "The query uses the offsets of other topics, or finds none and starts from scratch.",
    real_time_only=False,
)
def checkpoint_other_pipeline(facts: Facts) -> Iterator[Match]:
    """A checkpoint belongs to one query. This one belongs to another pipeline or to other topics.

    `eagre run` uses one checkpoint per pipeline. Choose another folder, or reset this one.
    """
    checkpoint = facts.checkpoint
    if checkpoint is None:
        return
    if checkpoint.pipeline and facts.pipeline and checkpoint.pipeline != facts.pipeline:
        yield Match(
            "checkpoint",
            f"the checkpoint {checkpoint.path} belongs to pipeline {checkpoint.pipeline!r}.",
            "choose another folder: --checkpoint DIR.",
        )
    elif (
        checkpoint.offsets
        and facts.source_topics
        and not {*checkpoint.offsets} & {*facts.source_topics}
    ):
        yield Match(
            "checkpoint",
            f"the checkpoint {checkpoint.path} belongs to a query that reads "
            f"{', '.join(checkpoint.offsets)}.",
            "choose another folder: --checkpoint DIR.",
        )


@rule(
    "CHECKPOINT_IN_USE",
    "error",
    "Spark stops the running query, or refuses the new one, depending on its settings.",
    real_time_only=False,
)
def checkpoint_in_use(facts: Facts) -> Iterator[Match]:
    """A query that runs in this session writes to the same checkpoint.

    By default Spark replaces the running query with the new one
    (`spark.sql.streaming.stopActiveRunOnRestart`), which is rarely intended.
    """
    for query in facts.others:
        if facts.checkpoint and query.checkpoint == facts.checkpoint.path:
            yield Match(
                "checkpoint",
                f"query {query.name} uses the checkpoint {query.checkpoint}.",
                "stop that query first, or choose another folder.",
            )
