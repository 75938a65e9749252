"""Spark's private members: which are available, and which features need them."""

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
    """A private member of Spark; ``PrivateMember.java`` lists them.

    Attributes:
        name: Its name in the list.
        feature: The feature that needs it.
        problem: Why it cannot be used; empty if it can.
    """

    name: str
    feature: str
    problem: str

    @property
    def available(self) -> bool:
        """Whether it can be used."""
        return not self.problem

    def __str__(self) -> str:
        """Describe the consequence of its absence.

        >>> str(PrivateMember("POOL", "the cache", "no such field"))
        'the cache is off: POOL is missing (no such field); plain Spark does the work'
        """
        return (
            f"{self.feature} is off: {self.name} is missing ({self.problem}); "
            "plain Spark does the work"
        )


def parsed(report: str) -> tuple[PrivateMember, ...]:
    """Parse the companion's report.

    >>> parsed('[{"name": "A", "feature": "b", "problem": ""}]')[0].available
    True
    """
    return tuple(PrivateMember(**entry) for entry in json.loads(report))


def probe() -> tuple[PrivateMember, ...]:
    """Look for all members in a separate JVM, without a Spark session.

    Raises:
        EagreError: Java, PySpark or the jars are missing.
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
