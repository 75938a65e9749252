"""Error policy: what happens to rows that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from eagre.errors import SettingsError

if TYPE_CHECKING:
    from eagre.connectors.base import QueryContext

OnError = Literal["dead-letter", "drop", "fail"]

SUFFIX = ".dlq"
"""The suffix of a source topic's dead-letter topic."""


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


def policy(on_error: OnError, query: QueryContext) -> dict[str, Any]:
    """Return the error policy for rows that fail; ``ErrorPolicy.java`` reads it.

    >>> from eagre.connectors.base import QueryContext
    >>> policy("drop", QueryContext())
    {'pipeline': 'eagre', 'on_error': 'drop', 'dead_letters': None, 'run': None}
    """
    clusters = query.dead_letters
    dead_letters = {
        "topic": next(iter(clusters), "") + SUFFIX,
        "suffix": SUFFIX,
        "clusters": {topic: dict(settings) for topic, settings in clusters.items()},
    }
    return {
        "pipeline": query.pipeline,
        "on_error": on_error,
        "dead_letters": dead_letters if clusters else None,
        "run": query.run,
    }
