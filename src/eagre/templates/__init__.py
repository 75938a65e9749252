"""Use cases to start from: each is a folder with an app and a generator of events.

A folder with an ``app.py`` is a use case. With a ``README.md`` it is also a project for ``eagre
init``. The demo runs the first pipeline of the app, which writes to a topic. It uses from
``generate.py``:

- ``TOPIC``, the topic of the events, and ``RATE``, the events per second that two cores handle;
- ``events(random)``: keys and events without end; ``late_ms`` becomes ``at``, the event time;
- ``expects(event)``, optional: whether an event must have a result, called in the order of events;
- ``tables(random)``, optional: topic, key and row of the data that exists before the first event.

A result is matched to its event by ``sent_us`` if the app passes it on, otherwise by ``_source``.
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
    """List the use cases that are complete projects, with tests and a README."""
    return sorted(path.parent.name for path in FOLDER.glob("*/README.md"))


def summary(project: str) -> str:
    """Return the description in a project's ``pyproject.toml``."""
    metadata = tomllib.loads((FOLDER / project / "pyproject.toml").read_text())
    return str(metadata["project"]["description"])


def folder(use_case: str) -> Path:
    """Return the folder of a use case.

    Raises:
        SettingsError: There is no use case of that name.
    """
    if use_case not in use_cases():
        raise SettingsError(
            "USE_CASE_UNKNOWN",
            f"there is no use case {use_case!r}.",
            hint=f"choose one of: {', '.join(use_cases())}.",
        )
    return FOLDER / use_case
