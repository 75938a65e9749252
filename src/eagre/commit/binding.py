"""The pipeline, cluster and topics that a checkpoint belongs to."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagre.errors import CheckpointError

if TYPE_CHECKING:
    from eagre.broker.topics import Offsets
    from eagre.commit.store import CheckpointPath

REPAIR = (
    "restore the folder from a backup, or start from scratch with `eagre checkpoint reset {path}`."
)


@dataclass(frozen=True)
class Binding:
    """The pipeline, cluster and topics that a checkpoint belongs to.

    Attributes:
        pipeline: The pipeline's name.
        cluster: The id of the Kafka cluster.
        topics: The id of each source topic.
        start: The offsets at which the first run started.
        made: When the checkpoint was created, in seconds since 1970.
    """

    pipeline: str
    cluster: str
    topics: dict[str, str]
    start: Offsets
    made: float = field(default_factory=time.time)

    def require_same(self, checkpoint: CheckpointPath, now: Binding) -> None:
        """Refuse another pipeline, cluster or topic on the checkpoint of this one.

        Raises:
            CheckpointError: It is another one.
        """
        if self.pipeline != now.pipeline:
            raise CheckpointError(
                "CHECKPOINT_OTHER_PIPELINE",
                f"checkpoint {checkpoint} belongs to pipeline {self.pipeline!r}, "
                f"not to {now.pipeline!r}.",
                hint="choose another folder with --checkpoint.",
            )
        if self.cluster != now.cluster:
            raise CheckpointError(
                "CHECKPOINT_OTHER_CLUSTER",
                f"checkpoint {checkpoint} was created with Kafka cluster {self.cluster}, but this "
                f"is {now.cluster}; its offsets are not valid here.",
                hint=REPAIR.format(path=checkpoint),
            )
        for topic, id_ in now.topics.items():
            if self.topics.get(topic, id_) != id_:
                raise CheckpointError(
                    "CHECKPOINT_OTHER_TOPIC",
                    f"topic {topic!r} was deleted and created again after checkpoint {checkpoint} "
                    f"(id {self.topics[topic]}, now {id_}); its offsets are not valid here.",
                    hint=REPAIR.format(path=checkpoint),
                )
