"""Builds the companion jar, so that every wheel and editable install holds it.

The jar also holds the Python code of the bridge's workers: executors import it from there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
SOURCES = ROOT / "jvm-companion" / "src"
WORKER = ROOT / "src" / "eagre" / "python" / "eagre_worker"
JAR = ROOT / "src" / "eagre" / "jvm" / "lib" / "eagre-companion.jar"


class CompanionBuild(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles ``jvm-companion`` with plain javac against PySpark's own jars."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the jar for a wheel or an editable install."""
        del version
        if self.target_name != "wheel":
            return
        build_data["pure_python"] = True
        self.app.display_info("building the companion jar")
        build()


def build() -> Path:
    """Compile the sources and pack them, byte for byte the same for the same sources."""
    with tempfile.TemporaryDirectory() as scratch:
        classes = Path(scratch)
        compile_into(classes)
        (classes / "dev" / "eagre" / "version").write_text(package_version())
        shutil.copytree(WORKER, classes / WORKER.name, ignore=shutil.ignore_patterns("__pycache__"))
        JAR.parent.mkdir(exist_ok=True)
        pack(classes, JAR)
    return JAR


def compile_into(classes: Path) -> None:
    """Compile the companion against PySpark's own jars."""
    sys.path.insert(0, str(ROOT / "src"))
    from eagre.jvm.spark_home import spark_jars

    javac(SOURCES, [f"{spark_jars()}/*"], classes)


def javac(sources: Path, class_path: list[str], classes: Path) -> None:
    """Compile all sources of a folder; a warning is an error."""
    from eagre.jvm.java import find_jdk

    command = [
        str(find_jdk().javac),
        *("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"),
        *("--release", "17"),
        *("-cp", os.pathsep.join(class_path)),
        *("-d", str(classes)),
        *(
            "-Xlint:all,-path,-processing,-serial,-classfile",
            "-Werror",
            "-implicit:none",
            "-proc:none",
        ),
        *sorted(str(path) for path in sources.rglob("*.java")),
    ]
    subprocess.run(command, check=True)


def pack(classes: Path, jar: Path) -> None:
    """Write the class files into a jar with fixed dates and order.

    A jar that would not change keeps its date: the start-up archive goes by it.
    """
    part = jar.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(p for p in classes.rglob("*") if p.is_file()):
            entry = zipfile.ZipInfo(str(path.relative_to(classes)), (1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, path.read_bytes())
    if jar.exists() and jar.read_bytes() == part.read_bytes():
        part.unlink()
    else:
        part.replace(jar)


def package_version() -> str:
    """Read the version from the package, without importing it."""
    text = (ROOT / "src" / "eagre" / "__init__.py").read_text()
    match = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if match is None:
        raise SystemExit("src/eagre/__init__.py holds no __version__")
    return match[1]


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
