"""Temporary folders: locked by who uses them, swept by the next one when nobody does."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eagre.files import TemporaryFolder

HOLD = (
    "import sys; from pathlib import Path; from eagre.files import TemporaryFolder; "
    "print(TemporaryFolder(Path(sys.argv[1]), 'kind-').path, flush=True); sys.stdin.read()"
)


def test_only_what_nobody_holds_is_swept(tmp_path):
    base = tmp_path / "base"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, base], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        path = Path(process.stdout.readline().strip())
        os.utime(path, (0, 0))
        other = base / "other"
        other.mkdir()
        with TemporaryFolder(base, "kind-"):
            assert path.exists(), "its user lives"
        process.send_signal(signal.SIGKILL)
    with TemporaryFolder(base, "kind-") as mine:
        assert sorted(base.iterdir()) == sorted([mine, other])
    assert list(base.iterdir()) == [other]


@pytest.mark.parametrize(("age", "stays"), [(0, False), (None, True)])
def test_a_folder_without_a_lock_is_swept_when_it_is_old(tmp_path, age, stays):
    left = tmp_path / "kind-left"
    left.mkdir()
    if age is not None:
        os.utime(left, (age, age))
    with TemporaryFolder(tmp_path, "kind-"):
        assert left.exists() == stays


def test_a_folder_that_is_in_use_nevertheless_is_spared(tmp_path):
    left = tmp_path / "kind-left"
    left.mkdir()
    os.utime(left, (0, 0))
    with TemporaryFolder(tmp_path, "kind-", spare=lambda folder: folder == left):
        assert left.exists()


def test_many_at_once_neither_fail_nor_take_each_others_folders(tmp_path):
    """Each sweeps while the others make and remove theirs, and old ones are there to sweep."""
    for n in range(50):
        left = tmp_path / f"kind-{n}"
        left.mkdir()
        os.utime(left, (0, 0))
    failures = []

    def make():
        try:
            for _ in range(20):
                with TemporaryFolder(tmp_path, "kind-") as path:
                    (path / "file").write_text("")
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert not list(tmp_path.glob("kind-*"))


def test_what_could_not_be_removed_is_left_to_the_next_one(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("eagre.files.shutil.rmtree", lambda *_, **__: None)
        with TemporaryFolder(tmp_path, "kind-") as path:
            (path / ".lock").unlink()
    assert path.exists()
    with TemporaryFolder(tmp_path, "kind-"):
        assert not path.exists()


def test_removing_twice_closes_nothing_of_others(tmp_path):
    folder = TemporaryFolder(tmp_path, "kind-")
    folder.remove()
    shutil.rmtree(tmp_path)
    folder.remove()
    assert not tmp_path.exists()
