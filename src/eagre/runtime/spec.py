"""The specification of a run, which the parent sends to the Spark child."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from eagre.commit.location import located
from eagre.commit.store import StorePath
from eagre.config import project_dir
from eagre.pipeline import trigger
from eagre.runtime.app import App

if TYPE_CHECKING:
    from eagre.commit.store import CheckpointPath
    from eagre.connectors import Mode


@dataclass(frozen=True)
class RunSpec:
    """One pipeline's run. The child gets it through a pipe, never on its command line.

    Attributes:
        app: The app file.
        pipeline: The pipeline's name; None for the first in the file.
        mode: Real time, micro-batch or available-now.
        every: The commit interval in real time, the trigger in micro-batch.
        brokers: The cluster; None if each topic names its own.
        master: Spark's master; None for a local one.
        checkpoint: The folder or address from the command line; None for the project's default.
        start: Where a fresh checkpoint begins: earliest, latest or a time.
        settings: Additional Spark settings.
        check: Whether to run the check, and not start on an error.
        resume: Whether to refuse a start without a checkpoint.
        slots: The task slots that the query needs, if an earlier check has counted them.
        standby: Whether to prepare only, and to wait for an order before the query starts.
    """

    app: str
    pipeline: str | None = None
    mode: Mode = "real-time"
    every: str | None = None
    brokers: str | None = None
    master: str | None = None
    checkpoint: str | None = None
    start: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    check: bool = True
    resume: bool = False
    slots: int | None = None
    standby: bool = False

    def __post_init__(self) -> None:
        trigger(self.mode, self.every)

    def checkpoint_folder(self, pipeline: str, *, several: bool) -> CheckpointPath:
        """Return this pipeline's checkpoint folder: DIR/NAME if the file defines several."""
        if self.checkpoint is None:
            return project_dir() / "checkpoints" / pipeline
        folder = located(self.checkpoint)
        return folder / pipeline if several else folder

    def checkpoint_candidates(self) -> list[Path]:
        """Return the folders that the first pipeline may use, as long as its name is not known.

        A store is not asked: this process has no JVM.
        """
        base = located(self.checkpoint) if self.checkpoint else project_dir() / "checkpoints"
        if isinstance(base, StorePath):
            return []
        below = [base / self.pipeline] if self.pipeline else sorted(base.glob("*"))
        return [base, *below] if self.checkpoint else below

    def load(self) -> App:
        """Return the app of this run."""
        return App(Path(self.app), self.pipeline)

    def of(self, pipeline: str) -> RunSpec:
        """Return the same run for another pipeline of the file."""
        return replace(self, pipeline=pipeline)

    def to_json(self) -> str:
        """Serialize the run as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RunSpec:
        """Deserialize a run."""
        return cls(**json.loads(text))
