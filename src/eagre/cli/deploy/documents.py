"""Writes YAML documents with comments; Eagre needs no YAML library to run."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FLOW_WIDTH = 72
"""A list of values up to this wide is written in one line."""
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that are no strings in one of YAML's versions."""


@dataclass(frozen=True)
class Document:
    """A document, and what to say above it."""

    content: dict[str, Any]
    comment: str = ""


def documents(head: str, parts: Iterable[Document]) -> str:
    """Return a YAML stream: a comment, then the documents, each with its own."""
    texts = [
        "---\n" + _commented(part.comment) + "\n".join(_lines(part.content)) + "\n"
        for part in parts
    ]
    return _commented(head) + "".join(texts)


def scalar(value: str | int | bool | None) -> str:
    """Return a value in one line: strings in quotes unless they can be nothing else.

    >>> scalar("score"), scalar("yes"), scalar("kafka:9092"), scalar(1), scalar(True)
    ('score', '"yes"', '"kafka:9092"', '1', 'true')
    """
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    escaped = json.dumps(value, ensure_ascii=False)
    return re.sub(r"[^ -~]", lambda sign: f"\\U{ord(sign[0]):08x}", escaped)


def _commented(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())


def _lines(value: dict[str, Any] | list[Any]) -> Iterator[str]:
    """Yield the lines of a mapping or a list in block style."""
    if isinstance(value, list):
        for item in value:
            yield from _item(item)
        return
    for key, entry in value.items():
        if _is_flat(entry):
            yield f"{scalar(key)}: {_flat(entry)}"
        else:
            yield f"{scalar(key)}:"
            yield from (f"  {line}" for line in _lines(entry))


def _item(item: Any) -> Iterator[str]:  # noqa: ANN401  (a value of YAML)
    if _is_flat(item):
        yield f"- {_flat(item)}"
        return
    first, *rest = _lines(item)
    yield f"- {first}"
    yield from (f"  {line}" for line in rest)


def _is_flat(value: Any) -> bool:  # noqa: ANN401  (a value of YAML)
    """Return whether a value fits into one line: a scalar, or a short list of them."""
    if not isinstance(value, dict | list) or not value:
        return True
    scalars = isinstance(value, list) and not any(isinstance(v, dict | list) for v in value)
    return scalars and len(_flat(value)) <= FLOW_WIDTH


def _flat(value: Any) -> str:  # noqa: ANN401  (a value of YAML)
    if isinstance(value, list):
        return f"[{', '.join(map(scalar, value))}]"
    return scalar(value) if value != {} else "{}"
