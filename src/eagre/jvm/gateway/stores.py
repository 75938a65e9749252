"""Files of checkpoints that only Hadoop reaches, and the claim of a run on such a checkpoint."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eagre.errors import CheckpointError
from eagre.jvm.gateway.failures import reason
from eagre.jvm.gateway.handshake import companion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

TAKEN = "CHECKPOINT_TAKEN"
UNREACHABLE = "CHECKPOINT_UNREACHABLE"


class CheckpointFiles:
    """Reads and writes files by their address, through Hadoop's file systems.

    Raises:
        CheckpointError: The store does not respond or refuses, or another run has claimed the
            checkpoint.
    """

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext._jsc.sc()  # noqa: SLF001  (PySpark has no public access)
        self._java = companion(spark, "state.CheckpointStore")(context)

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder; empty if there is none."""
        with _described(folder):
            return [str(name) for name in self._java.list(folder)]

    def exists(self, address: str) -> bool:
        """Return whether there is a file or folder."""
        with _described(address):
            return bool(self._java.exists(address))

    def read(self, address: str) -> str | None:
        """Return the content of a file; None if there is none."""
        with _described(address):
            text = self._java.read(address)
            return None if text is None else str(text)

    def write(self, address: str, text: str) -> None:
        """Write a file, in the place of an older one."""
        with _described(address):
            self._java.write(address, text)

    def create(self, address: str, text: str) -> bool:
        """Write a file unless there is another; return whether it has this content."""
        with _described(address):
            return bool(self._java.create(address, text))

    def delete(self, address: str) -> None:
        """Remove a file, or a folder with all in it."""
        with _described(address):
            self._java.delete(address)

    def size(self, folder: str) -> int:
        """Return the size of all files in a folder."""
        with _described(folder):
            return int(self._java.size(folder))


def claim(spark: SparkSession, checkpoint: str) -> str:
    """Claim a checkpoint for this JVM; return why it is refused, empty if it is not."""
    with _described(checkpoint):
        return str(_claims(spark).take(spark.sparkContext._jsc.sc(), checkpoint))  # noqa: SLF001


def release_claims(spark: SparkSession) -> None:
    """Give up the claims of this JVM, whose queries have ended."""
    _claims(spark).releaseAll()


def claim_lost(spark: SparkSession) -> bool:
    """Return whether another run has claimed a checkpoint of this JVM."""
    return bool(_claims(spark).anyLost())


def _claims(spark: SparkSession) -> Any:  # noqa: ANN401  (a py4j class proxy)
    return companion(spark, "state.CheckpointClaim")


@contextmanager
def _described(address: str) -> Iterator[None]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        if TAKEN in str(error):
            raise taken(address) from error
        raise CheckpointError(
            UNREACHABLE,
            f"{address} cannot be reached: {reason(error)}",
            hint="check the bucket, the endpoint (spark.hadoop.fs.s3a.endpoint) and the "
            "credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment).",
        ) from error


def taken(checkpoint: str) -> CheckpointError:
    """Describe that another run has claimed the checkpoint of this one."""
    return CheckpointError(
        TAKEN,
        f"another run has claimed checkpoint {checkpoint} while this one was paused or could not "
        "reach it; this run has stopped.",
        hint="let the other run continue; `eagre status` on its machine shows it.",
    )
