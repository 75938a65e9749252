"""Files written whole; temporary folders: locked while in use, removed when abandoned."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eagre.files import TemporaryFolder, write_atomically

HOLD = (
    "import sys; from pathlib import Path; from eagre.files import TemporaryFolder; "
    "print(TemporaryFolder(Path(sys.argv[1]), 'kind-').path, flush=True); sys.stdin.read()"
)


def test_only_unlocked_folders_are_removed(tmp_path):
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
            assert path.exists(), "its process still runs"
        process.send_signal(signal.SIGKILL)
    with TemporaryFolder(base, "kind-") as mine:
        assert sorted(base.iterdir()) == sorted([mine, other])
    assert list(base.iterdir()) == [other]


@pytest.mark.parametrize(("age", "stays"), [(0, False), (None, True)])
def test_a_folder_without_a_lock_is_removed_when_it_is_old(tmp_path, age, stays):
    left = tmp_path / "kind-left"
    left.mkdir()
    if age is not None:
        os.utime(left, (age, age))
    with TemporaryFolder(tmp_path, "kind-"):
        assert left.exists() == stays


def test_a_folder_that_is_otherwise_in_use_is_not_removed(tmp_path):
    left = tmp_path / "kind-left"
    left.mkdir()
    os.utime(left, (0, 0))
    with TemporaryFolder(tmp_path, "kind-", spare=lambda folder: folder == left):
        assert left.exists()


def test_concurrent_users_do_not_remove_each_others_folders(tmp_path):
    """Each removes abandoned folders while the others create and remove theirs."""
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


def test_a_failed_removal_is_repeated_by_the_next_process(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("eagre.files.shutil.rmtree", lambda *_, **__: None)
        with TemporaryFolder(tmp_path, "kind-") as path:
            (path / ".lock").unlink()
    assert path.exists()
    with TemporaryFolder(tmp_path, "kind-"):
        assert not path.exists()


def test_removing_twice_does_not_close_other_files(tmp_path):
    folder = TemporaryFolder(tmp_path, "kind-")
    folder.remove()
    shutil.rmtree(tmp_path)
    folder.remove()
    assert not tmp_path.exists()


def test_a_durable_file_and_its_folder_reach_the_disk(tmp_path, monkeypatch):
    """The file first, then the folder, which holds the new name."""
    flushed = []
    monkeypatch.setattr(
        "os.fsync", lambda number: flushed.append(Path(f"/proc/self/fd/{number}").readlink())
    )
    write_atomically(tmp_path / "7", "offsets", durable=True)
    assert flushed == [tmp_path / ".7.part", tmp_path]
    write_atomically(tmp_path / "8", "offsets")
    assert len(flushed) == 2
