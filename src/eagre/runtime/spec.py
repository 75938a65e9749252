"""What a run is asked to do, as the parent tells it to the Spark child."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from eagre.config import project_dir
from eagre.pipeline import trigger
from eagre.runtime.app import App

if TYPE_CHECKING:
    from eagre.sources import Mode


@dataclass(frozen=True)
class RunSpec:
    """One pipeline's run. It reaches the child by a pipe, never by its command line.

    Attributes:
        app: The app file.
        pipeline: The pipeline's name; None for the first in the file.
        mode: The mode.
        every: The epoch in real time, the trigger in micro-batch.
        brokers: The cluster; None for each topic's own.
        master: Spark's master; None for a local one.
        checkpoint: The folder given on the command line; None for the project's own.
        start: Where a fresh checkpoint begins: earliest, latest or a time.
        settings: More Spark settings.
        check: Whether to refuse a start that the check advises against.
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

    def __post_init__(self) -> None:
        trigger(self.mode, self.every)

    def checkpoint_folder(self, pipeline: str, *, several: bool) -> Path:
        """Where this pipeline's checkpoint is; DIR/NAME where a file holds several."""
        if self.checkpoint is None:
            return project_dir() / "checkpoints" / pipeline
        return Path(self.checkpoint) / pipeline if several else Path(self.checkpoint)

    def load(self) -> App:
        """Give the app this run is of."""
        return App(Path(self.app), self.pipeline)

    def of(self, pipeline: str) -> RunSpec:
        """Give the same run for another pipeline of the file."""
        return replace(self, pipeline=pipeline)

    def to_json(self) -> str:
        """Write it as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RunSpec:
        """Read it back."""
        return cls(**json.loads(text))
