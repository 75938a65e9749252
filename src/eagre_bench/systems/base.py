"""The small interface behind which every system stands."""

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
    """What a system is to run; ``jobs/README.md`` describes the fields."""

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
        """Write it for the job's process, with the settings."""
        path = Path(self.state) / "job.json"
        path.write_text(json.dumps({**asdict(self), "settings": settings}))
        return path


class System(ABC):
    """One system.

    Attributes:
        name: As on the command line.
        title: As in the report.
        checkpoints: Which files under its state folder a finished checkpoint leaves, if any.
        forwards: Whether it only forwards, whatever the workload.
        poison: After how many records it gets a bad one; 0 for never.
    """

    name: str
    title: str
    checkpoints: tuple[str, ...] = ()
    forwards: bool = False
    poison: int = 0

    def refusal(self, workload: str) -> str:
        """Why it cannot run a workload; empty if it can."""
        return NO_RANKS if workload == "top" and not self.forwards else ""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Bring what it needs onto the machine: environments, jars, compiled jobs."""
        del say

    @abstractmethod
    def settings(self, job: Job) -> dict[str, str]:
        """Every setting that is not the system's default."""

    @abstractmethod
    def command(self, job: Job) -> Command:
        """How to start it; the same again after a kill takes up where it was."""

    def checkpoint_times(self, state: Path) -> list[int]:
        """When its checkpoints were finished, in microseconds since 1970."""
        return written_us(state, self.checkpoints)
