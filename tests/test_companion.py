"""The companion's JUnit tests in ``jvm-companion/test``, compiled and run once, in one JVM.

Each Java test class is one test here; its failures are in the message.
"""

import fcntl
import importlib.util
import os
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from eagre.jvm import jars
from eagre.jvm.companion import companion_jar
from eagre.jvm.java import find_java
from eagre.jvm.spark_home import spark_jars
from eagre.waiting import machine_slowness

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "jvm-companion" / "test"
TEST_CLASSES = sorted(
    ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    for path in SOURCES.rglob("*Test.java")
)
OPENED = ("java.lang", "java.nio", "java.util", "jdk.internal.ref", "sun.nio.ch")
"""JDK packages that Spark's memory code needs opened, as `spark-submit` does."""


@dataclass(frozen=True)
class Run:
    """One run of JUnit's console launcher: its output, and its tests by class."""

    output: str
    tests: dict[str, list[ET.Element]]


@pytest.fixture(scope="module")
def junit():
    """Run JUnit once for all test processes: the first runs it, the others wait for its reports."""
    folder = Path(tempfile.gettempdir()) / "companion"
    folder.mkdir(exist_ok=True)
    output = folder / "output"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not output.exists():
            libraries = [companion_jar(), *jars.class_path("junit"), *jars.class_path("spark")]
            class_path = [*map(str, libraries), f"{spark_jars()}/*"]
            _hatch_build().javac(SOURCES, class_path, folder / "classes")
            ran = _launch([str(folder / "classes"), *class_path], folder)
            output.write_text(ran.stdout + ran.stderr)
    tests = defaultdict(list)
    for report in (folder / "reports").glob("TEST-*.xml"):
        for case in ET.parse(report).iter("testcase"):  # noqa: S314  (written just now)
            tests[case.get("classname").split("$")[0]].append(case)
    return Run(output.read_text(), tests)


def _hatch_build():
    """Load the build hook, to compile the tests with the companion's flags."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _launch(class_path, folder):
    return subprocess.run(
        [
            str(find_java().java),
            *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
            *("-cp", os.pathsep.join(class_path)),
            *("org.junit.platform.console.ConsoleLauncher", "execute"),
            *("--scan-class-path", str(folder / "classes")),
            *("--reports-dir", str(folder / "reports")),
            *("--details", "summary", "--disable-banner", "--disable-ansi-colors"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300 * machine_slowness(),
        check=False,
    )


@pytest.mark.parametrize("name", TEST_CLASSES)
def test_java(junit, name):
    cases = junit.tests[name]
    assert cases, f"no test of {name} ran:\n{junit.output}"
    failed = [
        f"{case.get('name')}: {(problem.text or '').strip()}"
        for case in cases
        for problem in (*case.iter("failure"), *case.iter("error"))
    ]
    assert not failed, "\n\n".join(failed)
