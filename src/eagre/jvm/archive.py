"""The startup archive: Spark's classes, written once and mapped into memory at each start.

Java 25 and newer call it an AOT cache, older releases a class data archive.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from eagre.config import cache_dir
from eagre.jvm.companion import companion_jar
from eagre.jvm.jars import folder, lock
from eagre.jvm.java import find_java
from eagre.jvm.spark_home import spark_jars

if TYPE_CHECKING:
    from pathlib import Path

    from eagre.jvm.java import Java

AOT_CACHES = 25
"""The first Java release with AOT caches."""


def archive() -> Path:
    """Return the path of the archive for this Java and these jars; it may not exist."""
    java = find_java()
    digest = hashlib.sha256(f"{java.home} {java.release}".encode())
    ours = [folder("spark") / jar.name for jar in lock("spark")]
    for jar in [*sorted(spark_jars().iterdir()), *ours, companion_jar()]:
        if jar.exists():
            stat = jar.stat()
            digest.update(f"{jar} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return cache_dir() / "startup" / f"java{java.version}-{digest.hexdigest()[:16]}.archive"


def use(path: Path, java: Java) -> str:
    """Return the JVM option to start from an archive; Java ignores an archive that mismatches."""
    return f"-XX:AOTCache={path}" if java.version >= AOT_CACHES else f"-XX:SharedArchiveFile={path}"


def write(path: Path, java: Java) -> str:
    """Return the JVM option to write an archive when the JVM exits.

    >>> from pathlib import Path
    >>> from eagre.jvm.java import Java
    >>> write(Path("a"), Java(Path("/jdk"), "25.0.1"))
    '-XX:AOTCacheOutput=a'
    """
    option = "AOTCacheOutput" if java.version >= AOT_CACHES else "ArchiveClassesAtExit"
    return f"-XX:{option}={path}"
