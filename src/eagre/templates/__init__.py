"""Use cases to start from: each a folder with an app and the events it is fed with."""

from __future__ import annotations

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
