"""One run at a time on a checkpoint in a store, which has no locks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from eagre.commit.store import session
from eagre.errors import CheckpointError
from eagre.jvm import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from eagre.commit.store import StorePath


def claim(spark: SparkSession, checkpoint: StorePath) -> None:
    """Claim a checkpoint for this JVM; after a run that was killed elsewhere, that takes 30 s.

    Raises:
        CheckpointError: Another run has it, or the store is not fit or does not respond.
    """
    refusal = gateway.claim(spark, str(checkpoint))
    if refusal == "IN_USE":
        raise CheckpointError(
            "CHECKPOINT_IN_USE",
            f"another run uses checkpoint {checkpoint}.",
            hint="stop that run first, on the machine where `eagre status` lists it; or choose "
            "another checkpoint.",
        )
    if refusal:
        raise CheckpointError(
            "CHECKPOINT_STORE_UNSAFE",
            f"the store of checkpoint {checkpoint} lets two runs create the same file: it ignores "
            "the condition If-None-Match.",
            hint="use a store with conditional writes, or a folder on a disk.",
        )


@contextmanager
def claimed(checkpoint: StorePath) -> Iterator[None]:
    """Claim a checkpoint for a moment, in which no run starts on it."""
    spark = session()
    claim(spark, checkpoint)
    try:
        yield
    finally:
        gateway.release_claims(spark)
