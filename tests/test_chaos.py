"""A short ``make chaos``: seeded faults, an independent verifier, and a negative control."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parent.parent
OPTIONS = ("--every", "5 seconds", "--pause", "3", "--rate", "150")


def chaos(*options):
    command = [sys.executable, "-m", "chaos.campaign", *OPTIONS, *options]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("pipeline", "kinds"),
    [
        pytest.param("stateless", "jvm,group,commit_written"),
        ("counts", "while_scanning"),
        pytest.param("counts", "offsets_written,while_scanning,python"),
    ],
)
def test_no_fault_loses_or_duplicates_a_result(pipeline, kinds):
    code, output = chaos("--pipeline", pipeline, "--kinds", kinds, "--seed", "11")
    assert code == 0, output
    assert f"{kinds.count(',') + 1} faults, 0 lost, 0 repeated" in output


def test_without_the_replay_filter_the_verifier_reports_duplicates():
    code, output = chaos(
        *("--pipeline", "stateless", "--kinds", "mid_epoch", "--seed", "12", "--control", "off")
    )
    assert code == 0, output
    assert " 0 repeated (" not in output
