"""Rules, their matches, and the findings of a check."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eagre.preflight.facts import Facts

Level = Literal["error", "warning", "advice"]
LEVELS: tuple[Level, ...] = ("error", "warning", "advice")
"""An error: the query does not start, loses rows or holds them back. A warning: the query runs, but
is slow or at risk. Advice: it could be better."""

REFUSED = "Spark refuses to start the query."
"""The consequence of most errors."""
ALLOWLIST = "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"
"""Spark's error for operators and sinks that Real-Time Mode does not support."""


@dataclass(frozen=True)
class Match:
    """One place in a query to which a rule applies.

    Attributes:
        about: The operator, setting, option or topic.
        problem: What is wrong, including the numbers.
        remedy: What to do.
        line: ``file.py:12``, if known.
        numbers: The numbers of the problem.
        settings: The Spark settings that fix it.
        options: The source or sink options that fix it.
        error_class: Spark's error class, if it differs from the rule's.
    """

    about: str
    problem: str
    remedy: str
    line: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    error_class: str = ""


@dataclass(frozen=True)
class Finding:
    """One finding of a check, as the CLI and the JSON report show it."""

    id: str
    level: Level
    about: str
    problem: str
    consequence: str
    remedy: str
    line: str
    numbers: dict[str, float]
    settings: dict[str, str]
    options: dict[str, str]
    error_class: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class Rule:
    """A problem that a check can detect before the query starts.

    Attributes:
        id: Its stable name.
        level: Its severity.
        consequence: What happens if it is ignored.
        error_class: The Spark error that it predicts; empty if Spark reports none.
        real_time_only: Whether it applies only to real time.
        find: Yields the places to which it applies.
    """

    id: str
    level: Level
    consequence: str
    error_class: str
    real_time_only: bool
    find: Callable[[Facts], Iterator[Match]]

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield the findings of this rule."""
        if self.real_time_only and facts.mode != "real-time":
            return
        for match in self.find(facts):
            fields = asdict(match)
            fields["error_class"] = match.error_class or self.error_class
            yield Finding(id=self.id, level=self.level, consequence=self.consequence, **fields)

    @property
    def explanation(self) -> str:
        """The text that ``eagre explain`` prints."""
        return inspect.cleandoc(self.find.__doc__ or "")


RULES: dict[str, Rule] = {}


def rule(
    id_: str,
    level: Level,
    consequence: str,
    error_class: str = "",
    *,
    real_time_only: bool = True,
) -> Callable[[Callable[[Facts], Iterator[Match]]], Callable[[Facts], Iterator[Match]]]:
    """Register a function as a rule; ``eagre explain`` prints its docstring."""

    def decorate(find: Callable[[Facts], Iterator[Match]]) -> Callable[[Facts], Iterator[Match]]:
        RULES[id_] = Rule(id_, level, consequence, error_class, real_time_only, find)
        return find

    return decorate


def known_rules() -> dict[str, Rule]:
    """Return every rule, in the order in which they run."""
    from eagre.preflight.rules import MODULES

    return {
        registered.id: registered
        for module in MODULES
        for registered in RULES.values()
        if registered.find.__module__ == module.__name__
    }


def explained(id_: str) -> Rule:
    """Return a rule by its name.

    >>> explained("slots_too_few").level
    'error'

    Raises:
        SettingsError: No rule has that name.
    """
    import difflib

    rules = known_rules()
    if id_.upper() in rules:
        return rules[id_.upper()]
    similar = difflib.get_close_matches(id_.upper(), rules, n=3, cutoff=0.4)
    raise SettingsError(
        "RULE_UNKNOWN",
        f"there is no rule {id_!r}.",
        hint=f"did you mean {', '.join(similar)}?"
        if similar
        else "`eagre explain` lists all rules.",
    )
