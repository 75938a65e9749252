"""Finds the companion jar, and checks the version that the JVM has loaded.

``EAGRE_COMPANION_JAR`` takes precedence over the jar inside the package, where both a development
build and a wheel put it.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from eagre.errors import JvmError

PACKAGED = Path(__file__).parent / "lib" / "eagre-companion.jar"
VERSION_ENTRY = "dev/eagre/version"


def companion_jar() -> Path:
    """Return the companion jar of this release.

    Raises:
        JvmError: It is missing, or belongs to another release.
    """
    jar = Path(os.environ.get("EAGRE_COMPANION_JAR") or PACKAGED)
    if not jar.is_file():
        raise JvmError(
            "COMPANION_MISSING",
            f"the companion jar is not at {jar}.",
            hint="reinstall Eagre; in a clone of the repository, run `make setup`.",
        )
    with zipfile.ZipFile(jar) as archive:
        check_version(archive.read(VERSION_ENTRY).decode().strip(), str(jar))
    return jar


def check_version(version: str, location: str) -> None:
    """Check that a companion belongs to the same release as this package.

    Raises:
        JvmError: The versions differ.
    """
    from eagre import __version__

    if version != __version__:
        raise JvmError(
            "COMPANION_VERSION",
            f"the companion in {location} belongs to Eagre {version}, and this package is "
            f"{__version__}.",
            hint="restart the Spark session if it uses the old jar; otherwise reinstall "
            "Eagre, or run `make setup` in a clone of the repository.",
        )
