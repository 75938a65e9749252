"""A JVM that finds Spark's classes ready: written down once, mapped into memory at each start.

Java calls it an AOT cache from release 25 on, and an archive of class data before.
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
"""The first Java release that has them."""


def archive() -> Path:
    """Where the archive for this Java and these very jars is, or would be."""
    java = find_java()
    known = hashlib.sha256(f"{java.home} {java.release}".encode())
    ours = [folder("spark") / jar.name for jar in lock("spark")]
    for jar in [*sorted(spark_jars().iterdir()), *ours, companion_jar()]:
        if jar.exists():
            stat = jar.stat()
            known.update(f"{jar} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return cache_dir() / "startup" / f"java{java.version}-{known.hexdigest()[:16]}.archive"


def use(path: Path, java: Java) -> str:
    """Give the JVM option that starts from an archive; where it does not fit, Java goes without."""
    return f"-XX:AOTCache={path}" if java.version >= AOT_CACHES else f"-XX:SharedArchiveFile={path}"


def write(path: Path, java: Java) -> str:
    """Give the JVM option that writes an archive when the JVM ends.

    >>> from pathlib import Path
    >>> from eagre.jvm.java import Java
    >>> write(Path("a"), Java(Path("/jdk"), "25.0.1"))
    '-XX:AOTCacheOutput=a'
    """
    option = "AOTCacheOutput" if java.version >= AOT_CACHES else "ArchiveClassesAtExit"
    return f"-XX:{option}={path}"
