"""Error policy: what happens to rows that fail, and which pipeline they belong to."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OnError = Literal["dead-letter", "drop", "fail"]

SUFFIX = ".dlq"
"""The suffix of a source topic's dead-letter topic."""

Position = tuple[str, int, int]
"""The position of a record: topic, partition, offset."""


def check_on_error(on_error: str) -> None:
    """Check the value of ``on_error``.

    Raises:
        SettingsError: It is unknown.
    """
    if on_error not in get_args(OnError):
        raise SettingsError(
            "ON_ERROR_UNKNOWN",
            f"on_error must be one of {', '.join(get_args(OnError))}, not {on_error!r}.",
        )


@dataclass(frozen=True)
class PipelineContext:
    """What the operators and functions of a pipeline need to know about it.

    Attributes:
        pipeline: Its name, for the log.
        clusters: The Kafka client settings for the dead letters of each source topic, in the order
            of the sources. They may contain secrets. Empty outside a pipeline.
        run: With exactly-once delivery, the ``prefix`` of this run's identities, and the dead
            letters that earlier runs have ``written``.
    """

    pipeline: str = "eagre"
    clusters: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    run: Mapping[str, str] | None = None


_NO_PIPELINE = PipelineContext()
_current: ContextVar[PipelineContext | None] = ContextVar("pipeline_context", default=None)


def pipeline_context() -> PipelineContext:
    """Return the context of the pipeline that is being built."""
    return _current.get() or _NO_PIPELINE


@contextmanager
def building(pipeline: PipelineContext) -> Iterator[None]:
    """Set the context while a pipeline is built."""
    token = _current.set(pipeline)
    try:
        yield
    finally:
        _current.reset(token)


def policy(on_error: OnError, clusters: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return the error policy for rows that fail; ``ErrorPolicy.java`` reads it.

    >>> policy("drop", {})
    {'pipeline': 'eagre', 'on_error': 'drop', 'dead_letters': None, 'run': None}
    """
    dead_letters = {
        "topic": next(iter(clusters), "") + SUFFIX,
        "suffix": SUFFIX,
        "clusters": {topic: dict(settings) for topic, settings in clusters.items()},
    }
    return {
        "pipeline": pipeline_context().pipeline,
        "on_error": on_error,
        "dead_letters": dead_letters if clusters else None,
        "run": pipeline_context().run,
    }
