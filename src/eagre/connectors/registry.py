"""The registry of connectors: built-in ones, registered ones, and those of installed packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, TypeVar

from eagre.connectors.base import Sink, Source
from eagre.connectors.formats.base import Format
from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = "eagre.connectors"
"""The entry points of packages that add connectors: each names a module that registers them."""

T = TypeVar("T", bound="type[Source | Sink | Format]")

_formats: dict[str, Format] = {}
_sources: dict[str, type[Source]] = {}
_sinks: dict[str, type[Sink]] = {}
_adapters: list[Callable[[object], Sink | None]] = []


def register(connector: T) -> T:
    """Add a source, a sink or a format. Also works as a class decorator.

    >>> @register
    ... class Upper(Format):
    ...     name = "upper"
    ...     def parse(self, value, schema): ...
    ...     def encode(self, rows, columns): ...
    >>> format_named("upper").name
    'upper'
    >>> del _formats["upper"]
    """
    if issubclass(connector, Format):
        _formats[connector.name] = connector()
    if issubclass(connector, Source):
        _sources[connector.__name__] = connector
    if issubclass(connector, Sink):
        _sinks[connector.__name__] = connector
    return connector


def register_adapter(adapter: Callable[[object], Sink | None]) -> None:
    """Add a function that makes a sink of an object that is none, or returns None."""
    _adapters.append(adapter)


def as_sink(target: object) -> Sink:
    """Return a sink, or make one of an object that an adapter knows.

    Raises:
        SettingsError: It cannot be a sink.
    """
    if isinstance(target, Sink):
        return target
    for adapter in _adapters if not isinstance(target, Source) else ():
        adapted = adapter(target)
        if adapted is not None:
            return adapted
    raise SettingsError(
        "PIPELINE_ENDS",
        f"{target!r} is not a sink.",
        hint=f"use one of {', '.join(sorted(sinks()))}, an eg.Sink, or an object with a method "
        "process(row).",
    )


def format_named(name: str) -> Format:
    """Return a format by its name.

    Raises:
        SettingsError: No format has this name.
    """
    known = _formats.get(name) or formats().get(name)
    if known is None:
        raise SettingsError(
            "FORMAT_UNKNOWN",
            f"there is no format {name!r}; there are {', '.join(sorted(_formats))}.",
            hint="install the package that provides it, or register it with "
            "eagre.connectors.register.",
        )
    return known


def formats() -> dict[str, Format]:
    """Return the formats by name."""
    _load_installed()
    return dict(_formats)


def sources() -> dict[str, type[Source]]:
    """Return the classes of sources by name."""
    _load_installed()
    return dict(_sources)


def sinks() -> dict[str, type[Sink]]:
    """Return the classes of sinks by name.

    >>> {"Kafka", "KafkaSink", "Postgres", "Redis"} <= set(sinks())
    True
    """
    _load_installed()
    return dict(_sinks)


@cache
def _load_installed() -> None:
    """Import the modules that installed packages name as connectors."""
    for entry in entry_points(group=GROUP):
        entry.load()
