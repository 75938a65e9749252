"""Runs in one Spark session: commits within an epoch, drains, new partitions, failures, lag."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).with_name("runs_in_process.py")


def test_runs_in_one_session():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS)]
    done = subprocess.run(
        command, cwd=TESTS.parent.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert "7 passed" in done.stdout
