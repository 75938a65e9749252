"""Spark's file ``metadata`` in a checkpoint: the id of the query."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from eagre.errors import CheckpointError

if TYPE_CHECKING:
    from eagre.commit.store import CheckpointPath

FILE = "metadata"


def require_readable(checkpoint: CheckpointPath) -> None:
    """Check that Spark can read the id of the query, if the checkpoint has one.

    Raises:
        CheckpointError: It cannot; Spark's own error would not name the file.
    """
    path = checkpoint / FILE
    if not path.exists():
        return
    try:
        uuid.UUID(json.loads(path.read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            "CHECKPOINT_BROKEN",
            f"checkpoint {checkpoint} is broken: {FILE} cannot be read "
            f"({type(error).__name__}: {error}).",
            hint="restore the folder from a backup. Without a backup, write a new id into the "
            f'file: {{"id":"{uuid.uuid4()}"}}; offsets and state stay valid.',
        ) from None
