"""Failures of a query that have a code of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eagre.errors import EagreError, PipelineFailed
from eagre.jvm import gateway

if TYPE_CHECKING:
    from eagre.commit.store import CheckpointPath

NO_SPACE = "No space left on device"
NOT_ALIGNED = "KEY_NOT_ALIGNED: "
NO_SLOTS = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"
BROKEN_STATE = re.compile(
    "CANNOT_LOAD_STATE_STORE|CHECKPOINT_FILE_CHECKSUM|STATE_STORE_ROW_CHECKSUM"
)

NON_RETRYABLE = frozenset(
    {
        "QUERY_REFUSED",
        "TOPIC_REPLACED",
        "RETENTION_OVERTOOK",
        "CHECKPOINT_IN_USE",
        "CHECKPOINT_TAKEN",
        "CHECKPOINT_STORE_UNSAFE",
        "CHECKPOINT_BROKEN",
        "CHECKPOINT_NEWER",
        "CHECKPOINT_LOST",
        "CHECKPOINT_OTHER_TOPIC",
        "CHECKPOINT_OTHER_CLUSTER",
        "STATE_BROKEN",
        "DELIVERY_LOG_BROKEN",
        "QUARANTINE_BROKEN",
        "OUTPUT_EXPIRED",
        "KEY_NOT_ALIGNED",
    }
)
"""Permanent failures: a restart would fail in the same way."""


def recognized(text: str, reason: str, checkpoint: CheckpointPath) -> EagreError | None:
    """Describe a failure by its text; None if it has no code of its own.

    Args:
        text: The whole error, with its causes.
        reason: Its summary.
        checkpoint: The checkpoint of the query.
    """
    if gateway.TAKEN in text:
        return gateway.taken(str(checkpoint))
    if NO_SPACE in text:
        return disk_full(f"{checkpoint} or Spark's temporary files")
    if BROKEN_STATE.search(text):
        return PipelineFailed(
            "STATE_BROKEN",
            f"the state in checkpoint {checkpoint} cannot be read: {reason}",
            hint="restore the folder from a backup, or start from scratch with "
            f"`eagre checkpoint reset {checkpoint}`.",
        )
    return not_aligned(text) if NOT_ALIGNED in text else None


def disk_full(where: str) -> PipelineFailed:
    """Describe a write that failed because the disk is full."""
    return PipelineFailed(
        "DISK_FULL",
        f"there is no space left for {where}.",
        hint="free some space: the next start continues from the last commit, and nothing is lost.",
    )


def not_aligned(text: str) -> PipelineFailed:
    """Describe a key whose rows came from several partitions, as the companion found it.

    >>> not_aligned("Job aborted: KEY_NOT_ALIGNED: one key came from 0 and 1. Hint: no").problem
    'one key came from 0 and 1.'
    """
    problem = text.split(NOT_ALIGNED, 1)[1].split("\n", 1)[0].split(" Hint:", 1)[0]
    return PipelineFailed(
        "KEY_NOT_ALIGNED",
        problem,
        hint="each key must stay in one partition of the source. If the topic has gained "
        "partitions, `eagre checkpoint reset`, and start the pipeline on a new output topic.",
    )
