"""Use cases to start from: each a folder with an app and the events it is fed with.

A folder is a use case by its ``app.py``, and a project for ``eagre init`` by its ``README.md``; no
list names them. The demo runs the first pipeline of the app, which writes to a topic, and takes
from ``generate.py``:

- ``TOPIC``, where events go, and ``RATE``, how many a second two cores do well with;
- ``events(random)``: keys and events for ever. ``late_ms`` becomes ``at``, the time of the event;
- ``expects(event)``, if there is one: whether a result must come, asked in the events' order;
- ``tables(random)``, if there is one: topic, key and row of what is there before the first event.

A result is put down to its event by ``sent_us``, where the app passes that on, else by ``_source``.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from eagre.errors import SettingsError

FOLDER = Path(__file__).parent
DEFAULT = "payments"


def use_cases() -> list[str]:
    """List the use cases."""
    return sorted(path.parent.name for path in FOLDER.glob("*/app.py"))


def projects() -> list[str]:
    """List those that are whole projects, with tests and a README."""
    return sorted(path.parent.name for path in FOLDER.glob("*/README.md"))


def summary(project: str) -> str:
    """Give the line that a project's ``pyproject.toml`` describes it with."""
    stated = tomllib.loads((FOLDER / project / "pyproject.toml").read_text())
    return str(stated["project"]["description"])


def folder(use_case: str) -> Path:
    """Give the folder of a use case.

    Raises:
        SettingsError: There is none of that name.
    """
    if use_case not in use_cases():
        raise SettingsError(
            "USE_CASE_UNKNOWN",
            f"there is no use case {use_case!r}.",
            hint=f"choose one of: {', '.join(use_cases())}.",
        )
    return FOLDER / use_case
