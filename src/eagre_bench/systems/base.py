"""The interface of a system."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eagre.trial.app import written_us

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.trial.process import Command

JOBS = Path(__file__).parents[1] / "jobs"
NO_RANKS = "only Eagre's top_n gives ranks as they change"


@dataclass(frozen=True)
class Job:
    """A job for a system; ``jobs/README.md`` describes the fields."""

    workload: str
    brokers: str
    source: str
    sink: str
    group: str
    epoch_ms: int
    trigger_ms: int
    state: str
    merchants: str
    slow_checkpoint_ms: int = 0
    table: str = ""

    def write(self, settings: dict[str, str]) -> Path:
        """Serialize it for the process of the job, with the settings."""
        path = Path(self.state) / "job.json"
        path.write_text(json.dumps({**asdict(self), "settings": settings}))
        return path


class System(ABC):
    """One system.

    Attributes:
        name: The name on the command line.
        title: The name in the report.
        checkpoints: The files that a finished checkpoint writes to its state folder, if any.
        forwards: Whether it only forwards events.
        poison: After how many records a bad one is sent; 0 for never.
    """

    name: str
    title: str
    checkpoints: tuple[str, ...] = ()
    forwards: bool = False
    poison: int = 0

    def refusal(self, workload: str) -> str:
        """Return why it cannot run a workload; empty if it can."""
        return NO_RANKS if workload == "top" and not self.forwards else ""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Install its environments, jars and compiled jobs."""
        del say

    @abstractmethod
    def settings(self, job: Job) -> dict[str, str]:
        """Return every setting that differs from the system's default."""

    @abstractmethod
    def command(self, job: Job) -> Command:
        """Return the command that starts it, and resumes it after a kill."""

    def checkpoint_times(self, state: Path) -> list[int]:
        """Return when its checkpoints were finished, in microseconds since 1970."""
        return written_us(state, self.checkpoints)
