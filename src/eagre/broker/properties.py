"""Reads Java properties files as Kafka's tools do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENTRY = re.compile(r"(?P<key>(?:[^\\=:\s]|\\.)+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    r"""Parse the entries of a properties file.

    >>> parse("ssl.key.password = a\\=b\n# a comment\nsasl.jaas.config: Module \\\n   a=1;")
    {'ssl.key.password': 'a=b', 'sasl.jaas.config': 'Module a=1;'}
    """
    entries = (_ENTRY.fullmatch(line) for line in _logical_lines(text))
    return {_plain(entry["key"]): _plain(entry["value"]) for entry in entries if entry}


def _logical_lines(text: str) -> Iterator[str]:
    """Join lines that end in a backslash with the next one; skip comments."""
    joined = ""
    for line in text.splitlines():
        part = line.lstrip()
        if not joined and (not part or part[0] in "#!"):
            continue
        slashes = len(part) - len(part.rstrip("\\"))
        if slashes % 2:
            joined += part[:-1]
            continue
        yield joined + part
        joined = ""
    if joined:
        yield joined


def _plain(text: str) -> str:
    """Resolve the escapes of a key or a value."""

    def resolved(escape: re.Match[str]) -> str:
        code, character = escape.groups()
        return chr(int(code, 16)) if code else _CONTROLS.get(character, character)

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", resolved, text, flags=re.DOTALL)
