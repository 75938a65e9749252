"""The short form of ``make chaos``: seeded faults, an independent verifier, and a control."""

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
def test_no_fault_loses_or_repeats_a_result(pipeline, kinds):
    code, told = chaos("--pipeline", pipeline, "--kinds", kinds, "--seed", "11")
    assert code == 0, told
    assert f"{kinds.count(',') + 1} faults, 0 lost, 0 repeated" in told


def test_without_suppression_the_verifier_finds_repeats():
    code, told = chaos(
        *("--pipeline", "stateless", "--kinds", "mid_epoch", "--seed", "12", "--control", "off")
    )
    assert code == 0, told
    assert " 0 repeated (" not in told
