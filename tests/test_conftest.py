"""The fixtures of these tests: temporary files are removed, hanging commands are killed."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

import conftest
from eagre.config import state_dir
from eagre.waiting import wait_until

ROOT = Path(__file__).parents[1]
HANGS = (
    "import subprocess; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
)


def test_state_is_in_the_scratch_folder():
    assert Path(tempfile.gettempdir()) in state_dir().parents
    assert Path(tempfile.gettempdir()).name.startswith("eagre-tests-")


@pytest.mark.parametrize("slowness", [1.0, 2.0])
def test_a_command_that_exceeds_its_limit_is_killed_with_its_children(monkeypatch, slowness):
    monkeypatch.setattr(conftest, "machine_slowness", lambda: slowness)
    process = subprocess.Popen(
        [sys.executable, "-c", HANGS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        conftest.communicate(process, "", 2)
    child = int(expired.value.stdout or 0)
    wait_until(lambda: not psutil.pid_exists(child), 10, "its child still runs")
    assert process.returncode == -signal.SIGKILL


def test_a_slow_machine_gets_more_time_for_a_command(monkeypatch):
    monkeypatch.setattr(conftest, "machine_slowness", lambda: 100.0)
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; print(input()); time.sleep(1); print('late')"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert conftest.communicate(process, "early\n", 0.3)[0] == "early\nlate\n"


def run_pytest(folder, text, *options):
    """Start pytest on one test, with the conftest of these tests."""
    path = folder / "test_one.py"
    path.write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    return subprocess.Popen(
        [*command, "-p", "conftest", "-c", "/dev/null", *options, path],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT / "tests")])},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_tests_run_without_xdist(tmp_path):
    out, _ = run_pytest(tmp_path, "def test_it(): pass").communicate(timeout=120)
    assert "1 passed" in out


def test_sigterm_leaves_no_scratch_folder(tmp_path):
    text = (
        "import tempfile, time\n"
        "def test_it():\n"
        "    open('folder', 'w').write(tempfile.gettempdir())\n"
        "    time.sleep(60)\n"
    )
    process = run_pytest(tmp_path, text)
    note = tmp_path / "folder"
    wait_until(lambda: note.exists() and note.read_text(), 60, "the test does not run")
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert not Path(note.read_text()).exists()
