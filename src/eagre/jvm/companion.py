"""Finding the companion jar, and the handshake with the JVM that loaded it.

Looked up in this order: ``EAGRE_COMPANION_JAR``, then the jar inside the package, which is where
both a development build and a wheel have it.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from eagre.errors import JvmError

PACKAGED = Path(__file__).parent / "lib" / "eagre-companion.jar"
VERSION_ENTRY = "dev/eagre/version"


def companion_jar() -> Path:
    """Give the companion jar of this very release.

    Raises:
        JvmError: It is missing, or was built for another release.
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


def check_version(found: str, where: str) -> None:
    """Refuse a companion of another release than this package.

    Raises:
        JvmError: The versions differ.
    """
    from eagre import __version__

    if found != __version__:
        raise JvmError(
            "COMPANION_VERSION",
            f"the companion in {where} is of Eagre {found} and this package is {__version__}.",
            hint="restart the Spark session if it was started with the old jar; else reinstall "
            "Eagre, or run `make setup` in a clone of the repository.",
        )
