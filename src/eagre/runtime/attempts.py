"""A pipeline of a run, and the Spark processes that it has had."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagre.runtime.standby import Standby

if TYPE_CHECKING:
    from eagre.errors import PipelineFailed
    from eagre.runtime.spark_child import Event, SparkChild


@dataclass
class Attempts:
    """A pipeline and its successive Spark children.

    Attributes:
        child: The current child, or the last one.
        last: The child's last event.
        brokers: The cluster that its children use.
        standby: The process that takes over when the child fails.
        running: Whether the query of the current child has started.
        ran: Whether the query of any child has started.
        has_run: Whether its checkpoint had a commit at the start; None if no child said.
        failed: Failures in a row, each without a commit since its start.
        restarts: How often the pipeline was restarted, in total.
        failure: The failure of the last child.
        due: When the next child starts; None if none is planned.
        exits_by: When a child that has reported its end is killed, if it has not exited.
        over: Whether the pipeline has ended and will not be restarted.
        slots: The task slots that its query needs, if its check has counted them.
    """

    child: SparkChild
    last: Event = field(default_factory=lambda: {"event": "nothing"})
    brokers: str = ""
    standby: Standby = field(default_factory=Standby)
    running: bool = False
    ran: bool = False
    has_run: bool | None = None
    failed: int = 0
    restarts: int = 0
    failure: PipelineFailed | None = None
    due: float | None = None
    exits_by: float | None = None
    over: bool = False
    slots: int | None = None
