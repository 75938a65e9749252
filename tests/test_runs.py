"""Runs in one Spark session: mid-epoch commits, drains, new partitions, failures, lag."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.early
@pytest.mark.parametrize(
    ("file", "marker", "number"),
    [
        ("runs_in_process.py", "not e2e", 21),
        pytest.param("runs_in_process.py", "e2e", 44, marks=pytest.mark.e2e),
        pytest.param("commits_in_process.py", "not long", 5, marks=pytest.mark.e2e),
        pytest.param("old_checkpoints_in_process.py", "not long", 4, marks=pytest.mark.e2e),
    ],
)
def test_runs_in_one_session(eagre_broker, file, marker, number):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marker]
    command.append(str(TESTS / file))
    done = subprocess.run(
        command,
        cwd=TESTS.parent,
        env={**os.environ, "EAGRE_TESTS_BROKER": eagre_broker.address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert f"{number} passed" in done.stdout
