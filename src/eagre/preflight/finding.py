"""What a rule is, and what it finds."""

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
"""An error: the query is refused, loses rows or withholds them. A warning: it runs, and is slower
or in danger. Advice: it could be better."""

REFUSED = "Spark refuses the query at its start."
"""What becomes of most errors."""
ALLOWLIST = "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"
"""Spark's error for what Real-Time Mode does not know."""


@dataclass(frozen=True)
class Found:
    """What a rule found in one place.

    Attributes:
        about: The operator, setting, option or topic.
        problem: What is wrong, with the numbers in it.
        remedy: What to do.
        line: ``file.py:12``, where it is known.
        numbers: The figures of the problem.
        settings: The Spark settings that mend it.
        options: The source or sink options that mend it.
        error_class: Spark's own, where it differs from the rule's.
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
    """One finding of a check, as people and programs see it."""

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
        """As JSON has it."""
        return asdict(self)


@dataclass(frozen=True)
class Rule:
    """One thing that can be known before the start.

    Attributes:
        id: Its stable name.
        level: How bad it is.
        consequence: What happens if it is ignored.
        error_class: Spark's error that it pre-empts; empty where Spark is silent.
        real_time_only: Whether it says nothing about micro-batches.
        find: Looks for it.
    """

    id: str
    level: Level
    consequence: str
    error_class: str
    real_time_only: bool
    find: Callable[[Facts], Iterator[Found]]

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Look for it."""
        if self.real_time_only and facts.mode != "real-time":
            return
        for found in self.find(facts):
            told = asdict(found)
            told["error_class"] = found.error_class or self.error_class
            yield Finding(id=self.id, level=self.level, consequence=self.consequence, **told)

    @property
    def explanation(self) -> str:
        """The long version."""
        return inspect.cleandoc(self.find.__doc__ or "")


RULES: dict[str, Rule] = {}


def rule(
    id_: str,
    level: Level,
    consequence: str,
    error_class: str = "",
    *,
    real_time_only: bool = True,
) -> Callable[[Callable[[Facts], Iterator[Found]]], Callable[[Facts], Iterator[Found]]]:
    """Make a rule of a function; its docstring is what ``eagre explain`` prints."""

    def decorate(find: Callable[[Facts], Iterator[Found]]) -> Callable[[Facts], Iterator[Found]]:
        RULES[id_] = Rule(id_, level, consequence, error_class, real_time_only, find)
        return find

    return decorate


def known_rules() -> dict[str, Rule]:
    """Give every rule, in the order in which they are looked for."""
    from eagre.preflight.rules import MODULES

    return {
        one.id: one
        for module in MODULES
        for one in RULES.values()
        if one.find.__module__ == module.__name__
    }


def explained(id_: str) -> Rule:
    """Give a rule by its name.

    >>> explained("slots_too_few").level
    'error'

    Raises:
        SettingsError: There is none of that name.
    """
    import difflib

    known = known_rules()
    if id_.upper() in known:
        return known[id_.upper()]
    near = difflib.get_close_matches(id_.upper(), known, n=3, cutoff=0.4)
    raise SettingsError(
        "RULE_UNKNOWN",
        f"there is no rule {id_!r}.",
        hint=f"did you mean {', '.join(near)}?" if near else "`eagre explain` lists them all.",
    )
