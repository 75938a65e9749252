"""Finds a Java that Spark 4.3 runs on.

If ``JAVA_HOME`` is set, Eagre uses that Java or reports why it cannot. Otherwise it uses the newest
supported Java on the ``PATH`` and in the usual folders.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eagre.config import JAVA_VERSIONS
from eagre.errors import JvmError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VECTOR_MODULE = "jdk.incubator.vector"
"""Spark 4.3 starts its JVM with this module; without it, a trimmed runtime fails to start."""

USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/usr/local/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
    "~/.asdf/installs/java/*",
    "~/.local/share/mise/installs/java/*",
)

_INSTALL = "install a JDK 17, 21 or 25 (Debian: apt-get install openjdk-17-jdk-headless)"


@dataclass(frozen=True)
class Java:
    """One Java installation.

    Attributes:
        home: Its ``JAVA_HOME``.
        release: Its full version, for example ``17.0.15``.
        trimmed: Whether a module that Spark needs is missing.
    """

    home: Path
    release: str
    trimmed: bool = False

    @property
    def version(self) -> int:
        """The feature release: 17 for ``17.0.15``, 8 for ``1.8.0_402``."""
        numbers = [int(n) for n in re.findall(r"\d+", self.release)]
        return numbers[1] if numbers[0] == 1 else numbers[0]

    @property
    def java(self) -> Path:
        """The ``java`` command."""
        return self.home / "bin" / "java"

    @property
    def javac(self) -> Path:
        """The compiler; a runtime without a JDK does not have it."""
        return self.home / "bin" / "javac"

    @property
    def refusal(self) -> str:
        """The reason why Spark 4.3 cannot run on it, or an empty string."""
        if self.version not in JAVA_VERSIONS:
            return f"is version {self.release}"
        if self.trimmed:
            return f"is a trimmed runtime without the module {VECTOR_MODULE}"
        return ""


def find_java() -> Java:
    """Find the Java to use.

    Raises:
        JvmError: There is none, or Spark cannot run on the one in ``JAVA_HOME``.
    """
    return max(_supported(), key=lambda java: java.version)


def find_jdk() -> Java:
    """Find a JDK to build the companion with.

    Raises:
        JvmError: There is none.
    """
    supported = _supported()
    jdks = [java for java in supported if java.javac.exists()]
    if not jdks:
        homes = ", ".join(str(java.home) for java in supported)
        raise JvmError(
            "JDK_NOT_FOUND",
            f"building Eagre needs a Java compiler, and there is none in {homes}.",
            hint=f"{_INSTALL}; an installed wheel needs no compiler.",
        )
    return max(jdks, key=lambda java: java.version)


def _supported() -> list[Java]:
    """Return every supported Java; at least one."""
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        return [_from_java_home(Path(java_home))]
    installed = list(_installed(_candidates()))
    supported = [java for java in installed if not java.refusal]
    if supported:
        return supported
    if not installed:
        raise JvmError("JAVA_NOT_FOUND", "no Java was found on this machine.", hint=f"{_INSTALL}.")
    raise _unsupported("no Java on this machine fits Spark 4.3", installed)


def inspect_java(home: Path) -> Java | None:
    """Describe the Java at ``home``, or return None if there is none."""
    if not (home / "bin" / "java").exists():
        return None
    return _from_release_file(home) or _from_command(home)


def _from_java_home(home: Path) -> Java:
    java = inspect_java(home)
    if java is None:
        raise JvmError(
            "JAVA_NOT_FOUND",
            f"JAVA_HOME is {home}, and it has no bin/java.",
            hint=f"correct or unset JAVA_HOME, or {_INSTALL}.",
        )
    if java.refusal:
        raise _unsupported("JAVA_HOME does not fit Spark 4.3", [java])
    return java


def _unsupported(subject: str, installed: list[Java]) -> JvmError:
    described = "; ".join(f"{java.home} {java.refusal}" for java in installed)
    only_trimmed = all(java.version in JAVA_VERSIONS for java in installed)
    return JvmError(
        "JAVA_TRIMMED" if only_trimmed else "JAVA_UNSUPPORTED",
        f"{subject}, which needs a complete Java 17, 21 or 25: {described}.",
        hint=f"{_INSTALL}, and set JAVA_HOME to it, or unset JAVA_HOME.",
        data={"found": [str(java.home) for java in installed]},
    )


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in USUAL_PLACES:
        path = Path(pattern).expanduser()
        yield from sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))


def _installed(homes: Iterable[Path]) -> Iterator[Java]:
    for home in dict.fromkeys(home.resolve() for home in homes):
        java = inspect_java(home)
        if java is not None:
            yield java


def _from_release_file(home: Path) -> Java | None:
    try:
        text = (home / "release").read_text()
    except OSError:
        return None
    entries = dict(re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE))
    if "JAVA_VERSION" not in entries or "MODULES" not in entries:
        return None
    trimmed = VECTOR_MODULE not in entries["MODULES"].split()
    return Java(home, entries["JAVA_VERSION"], trimmed)


def _from_command(home: Path) -> Java | None:
    answer = _run_java(home, "-version")
    match = re.search(r'version "([^"]+)"', answer)
    if match is None:
        return None
    java = Java(home, match[1])
    if java.version not in JAVA_VERSIONS:
        return java
    return Java(home, match[1], trimmed=VECTOR_MODULE not in _run_java(home, "--list-modules"))


def _run_java(home: Path, option: str) -> str:
    command = [str(home / "bin" / "java"), option]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
