"""Runs in one Spark session: mid-epoch commits, drains, new partitions, failures, lag."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).with_name("runs_in_process.py")


@pytest.mark.early
@pytest.mark.parametrize(
    ("marker", "number"), [("not e2e", 9), pytest.param("e2e", 8, marks=pytest.mark.e2e)]
)
def test_runs_in_one_session(eagre_broker, marker, number):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marker]
    command.append(str(TESTS))
    done = subprocess.run(
        command,
        cwd=TESTS.parent.parent,
        env={**os.environ, "EAGRE_TESTS_BROKER": eagre_broker.address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert f"{number} passed" in done.stdout
