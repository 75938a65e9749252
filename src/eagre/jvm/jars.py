"""The jars that Eagre adds to a JVM: locked by checksum, fetched once per user.

Each set has a folder: ``spark`` (the Kafka connector and the PostgreSQL driver, for Spark's class
path), ``broker`` (Apache Kafka, for a separate process), ``s3`` (Hadoop's connector to S3, for
checkpoints there), ``flink`` and ``kafka-streams`` for the benchmark, and ``junit`` for the
companion's tests. The last four are fetched on first use.
``ivy.xml`` lists the jars, and ``jars.lock`` has their SHA-256. Eagre never puts a jar with a
different checksum on a class path.

Ivy, which ships with PySpark, downloads the jars from its default repository, or from the
repositories in the ``ivysettings.xml`` that ``EAGRE_IVY_SETTINGS`` names. ``EAGRE_JARS`` names a
folder to use instead of the network.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from eagre.config import cache_dir
from eagre.errors import JvmError, SettingsError
from eagre.jvm.java import find_java
from eagre.jvm.spark_home import spark_jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JarSet = Literal["spark", "broker", "flink", "kafka-streams", "junit", "s3"]
JAR_SETS: tuple[JarSet, ...] = ("spark", "broker")
"""The sets that every installation needs."""


OPTIONAL_SETS: tuple[JarSet, ...] = ("s3",)
"""The sets that only some pipelines need."""


@dataclass(frozen=True)
class LockedJar:
    """One entry of the lock file: a file name and its checksum."""

    name: str
    sha256: str

    def state(self, folder: Path) -> Literal["ok", "missing", "changed"]:
        """Compare the file in ``folder`` with the lock."""
        path = folder / self.name
        if not path.is_file():
            return "missing"
        return "ok" if sha256(path) == self.sha256 else "changed"


def lock(jar_set: JarSet) -> list[LockedJar]:
    """Return the locked jars of a set."""
    text = (files("eagre.jvm") / "jars.lock").read_text()
    return [LockedJar(name, digest) for name, digest in json.loads(text)[jar_set].items()]


def jar_set(name: str) -> JarSet:
    """Return the set of a name.

    Raises:
        SettingsError: There is none.
    """
    if name in get_args(JarSet):
        return cast("JarSet", name)
    raise SettingsError("JARS_UNKNOWN", f"there is no set of jars {name!r}.")


def folder(jar_set: JarSet) -> Path:
    """Return the user's cache folder for a set."""
    return cache_dir() / "jars" / jar_set


def class_path(jar_set: JarSet, say: Callable[[str], None] = print) -> list[Path]:
    """Return the verified jars of a set, and fetch missing ones.

    Raises:
        JvmError: A jar cannot be fetched, or its checksum differs from the lock.
    """
    if any(jar.state(folder(jar_set)) == "missing" for jar in lock(jar_set)):
        fetch(jar_set, say)
    verify(jar_set)
    return [folder(jar_set) / jar.name for jar in lock(jar_set)]


def verify(jar_set: JarSet) -> None:
    """Compare every jar of a set with the lock.

    Raises:
        JvmError: A jar is missing or changed; the message names it.
    """
    for jar in lock(jar_set):
        _require(jar, folder(jar_set))


def fetch(jar_set: JarSet, say: Callable[[str], None] = print, source: Path | None = None) -> None:
    """Fetch the jars of a set into the cache, from a folder or through Ivy.

    Only jars that match the lock enter the cache, and each file is added atomically.
    """
    if _outdated(jar_set):
        with _fetch_lock(say):
            _fetch_jars(_outdated(jar_set), jar_set, say, source or _offline_folder())


def sha256(path: Path) -> str:
    """Compute the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _outdated(jar_set: JarSet) -> list[LockedJar]:
    return [jar for jar in lock(jar_set) if jar.state(folder(jar_set)) != "ok"]


@contextlib.contextmanager
def _fetch_lock(say: Callable[[str], None]) -> Iterator[None]:
    """Allow only one process to fetch: Ivy does not lock its cache."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "fetch.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that is fetching jars")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch_jars(
    jars: list[LockedJar], jar_set: JarSet, say: Callable[[str], None], offline: Path | None
) -> None:
    if not jars:
        return
    target = folder(jar_set)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".fetch-") as scratch:
        fetched = Path(scratch)
        if offline:
            say(f"copying {len(jars)} {jar_set} jars from {offline}")
            _copy(jars, jar_set, offline, fetched)
        else:
            _resolve(jar_set, fetched, say)
        for jar in jars:
            _require(jar, fetched)
            (fetched / jar.name).replace(target / jar.name)


def _offline_folder() -> Path | None:
    path = os.environ.get("EAGRE_JARS")
    return Path(path) if path else None


def _copy(jars: list[LockedJar], jar_set: JarSet, source: Path, target: Path) -> None:
    for jar in jars:
        nested = source / jar_set
        directory = nested if (nested / jar.name).is_file() else source
        _require(jar, directory)
        shutil.copyfile(directory / jar.name, target / jar.name)


def _require(jar: LockedJar, directory: Path) -> None:
    state = jar.state(directory)
    if state == "missing":
        raise JvmError(
            "JAR_MISSING",
            f"{jar.name} is not in {directory}.",
            hint="run `eagre jars fetch`, or `eagre jars fetch --from DIR` without a network.",
        )
    if state == "changed":
        raise JvmError(
            "JAR_CHANGED",
            f"{directory / jar.name} must have SHA-256 {jar.sha256} and has "
            f"{sha256(directory / jar.name)}; Eagre does not use it.",
            hint="delete it and run `eagre jars fetch`; if the checksum is wrong again, do not "
            "trust the repository.",
        )


def _resolve(jar_set: JarSet, target: Path, say: Callable[[str], None]) -> None:
    total = len(lock(jar_set))
    say(f"fetching {total} {jar_set} jars (once per user)")
    output: list[str] = []
    done = 0
    for line in _ivy(jar_set, target):
        output.append(line.rstrip())
        if "[SUCCESSFUL ]" in line:
            done += 1
            if done % 10 == 0:
                say(f"fetching {jar_set} jars: {done} of {total}")
    if not any(target.glob("*.jar")):
        raise JvmError(
            "JARS_NOT_FETCHED",
            f"the {jar_set} jars could not be fetched: {_reason(output)}",
            hint="check the network, set EAGRE_IVY_SETTINGS to an ivysettings.xml with your "
            "repository, or run `eagre jars fetch --from DIR`.",
        )


def _ivy(jar_set: JarSet, target: Path) -> Iterator[str]:
    """Run Ivy and yield the lines it prints."""
    settings = os.environ.get("EAGRE_IVY_SETTINGS") or files("eagre.jvm") / "ivysettings.xml"
    command = [
        str(find_java().java),
        "-cp",
        str(next(spark_jars().glob("ivy-*.jar"))),
        "org.apache.ivy.Main",
        *("-settings", str(settings)),
        *("-ivy", str(files("eagre.jvm") / "ivy.xml")),
        *("-confs", jar_set),
        *("-types", "jar", "bundle"),
        *("-cache", str(cache_dir() / "ivy")),
        *("-retrieve", str(target / "[artifact]-[revision](-[classifier]).[ext]")),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        yield from process.stdout or ()


def _reason(output: list[str]) -> str:
    errors = [line.strip() for line in output if "UNRESOLVED" in line or "Exception" in line]
    return (errors or output or ["Ivy printed nothing"])[-1]
