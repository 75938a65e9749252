"""The use cases of a soak: their results, and how long until their state is in balance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import eagre
from eagre.trial.events import EventsFile

from .expectations import Incidents, expected_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TEMPLATES = Path(eagre.__file__).parent / "templates"


@dataclass(frozen=True)
class UseCase:
    """A use case.

    Attributes:
        name: Its template.
        results: The topic that it writes.
        python: Whether it has Python workers.
        balance_minutes: How long its state grows before as much expires as is added.
        season_minutes: How long until its state begins from scratch.
    """

    name: str
    results: str
    python: bool = False
    balance_minutes: float = 0.0
    season_minutes: float = 0.0

    @property
    def folder(self) -> Path:
        """The folder of the template."""
        return TEMPLATES / self.name

    @property
    def events(self) -> EventsFile:
        """Its events."""
        return EventsFile(str(self.folder / "generate.py"))

    @property
    def dead_letters(self) -> str:
        """The topic of its records that cannot be parsed."""
        return f"{self.events.topic}.dlq"

    def expects(self) -> Callable[[dict[str, Any]], bool]:
        """Return the function that says of each event, in order, whether it must have a result."""
        return Incidents() if self.name == "alerts" else expected_by(self.events.path)


USE_CASES = {
    case.name: case
    for case in (
        UseCase("alerts", "alerts", balance_minutes=10),
        UseCase("fraud", "scores", balance_minutes=65),
        UseCase("iot", "verdicts", python=True),
        UseCase("leaderboard", "boards", season_minutes=60),
        UseCase("personalise", "bids", python=True),
        UseCase("trading", "bars", python=True),
    )
}
"""By name. Fraud keeps an hour of payments, a leaderboard starts from scratch every hour."""
