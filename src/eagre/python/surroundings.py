"""Which pipeline is being built: a function learns from it where its failed rows go."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEAD_LETTERS = ".dlq"
"""What is put behind a source topic's name to name the topic of its dead letters."""


@dataclass(frozen=True)
class Surroundings:
    """A pipeline, as its functions need to know it.

    Attributes:
        pipeline: Its name, for the log.
        dead_letters: The topic for rows whose origin is not known; None outside a pipeline.
        settings: The Kafka client's settings to write there; secrets may be among them.
    """

    pipeline: str = "eagre"
    dead_letters: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)


_NOWHERE = Surroundings()
_current: ContextVar[Surroundings | None] = ContextVar("surroundings", default=None)


def surroundings() -> Surroundings:
    """Give the pipeline that is being built."""
    return _current.get() or _NOWHERE


@contextmanager
def building(pipeline: Surroundings) -> Iterator[None]:
    """Say that a pipeline is being built."""
    token = _current.set(pipeline)
    try:
        yield
    finally:
        _current.reset(token)
