"""Shows the examples of docstrings as code on the site; Markdown takes ``>>>`` for a quotation."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^>>> .+?(?=\n\s*\n(?!>>> )|\Z)", re.MULTILINE | re.DOTALL)
_FLAG = re.compile(r" +# doctest: \S+$", re.MULTILINE)


class Doctests(Extension):
    """Puts fences around each example, and leaves out what only doctest reads."""

    def on_object(self, *, obj: Object, **_: Any) -> None:  # noqa: ANN401  (griffe's own)
        """Change the docstring of an object that was loaded."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    r"""Put the examples of a text into fences.

    >>> fenced("Adds.\n\n>>> 1 + 1  # doctest: +SKIP\n2\n\nMore.")
    'Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore.'
    """
    return _EXAMPLE.sub(lambda found: f"```pycon\n{_FLAG.sub('', found[0])}\n```", text)
