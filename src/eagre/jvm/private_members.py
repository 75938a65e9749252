"""Which members of Spark that are not public are there, and which features need them."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass

from eagre.jvm import jars
from eagre.jvm.companion import companion_jar
from eagre.jvm.java import find_java
from eagre.jvm.spark_home import spark_jars

PROBE = "dev.eagre.spark.PrivateMember"
PROBE_SECONDS = 60


@dataclass(frozen=True)
class PrivateMember:
    """A member that is not public; ``PrivateMember.java`` has the list.

    Attributes:
        name: Its name there.
        feature: What needs it.
        problem: Why it cannot be used; empty where it can.
    """

    name: str
    feature: str
    problem: str

    @property
    def available(self) -> bool:
        """Whether it is there."""
        return not self.problem

    def __str__(self) -> str:
        """Say what follows from its absence.

        >>> str(PrivateMember("POOL", "the cache", "no such field"))
        'the cache is off: POOL is missing (no such field); plain Spark does the work'
        """
        return (
            f"{self.feature} is off: {self.name} is missing ({self.problem}); "
            "plain Spark does the work"
        )


def parsed(report: str) -> tuple[PrivateMember, ...]:
    """Read the companion's report.

    >>> parsed('[{"name": "A", "feature": "b", "problem": ""}]')[0].available
    True
    """
    return tuple(PrivateMember(**entry) for entry in json.loads(report))


def probe() -> tuple[PrivateMember, ...]:
    """Look for all of them in a JVM of its own, without a Spark session.

    Raises:
        EagreError: Java, PySpark or the jars are not there.
    """
    spark = [*jars.class_path("spark"), companion_jar(), spark_jars() / "*"]
    done = subprocess.run(
        [str(find_java().java), "-cp", os.pathsep.join(map(str, spark)), PROBE],
        capture_output=True,
        text=True,
        timeout=PROBE_SECONDS,
        check=True,
    )
    return parsed(done.stdout)
