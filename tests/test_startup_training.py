"""The start-up archive: written in the background after a demo, without delaying the next."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from conftest import processes_of
from eagre import startup_training
from eagre.broker import registry
from eagre.config import cache_dir, state_dir
from eagre.errors import JvmError
from eagre.jvm.archive import archive
from eagre.startup_training import (
    MODULE,
    stop_background_training,
    train,
    train_in_background,
)
from eagre.waiting import wait_until


@pytest.fixture
def separate_cache(monkeypatch):
    """A separate cache with a short path, as users have."""
    jars = cache_dir() / "jars"
    folder = Path(tempfile.mkdtemp())
    monkeypatch.setenv("EAGRE_CACHE", str(folder))
    monkeypatch.setenv("EAGRE_JARS", str(jars))
    (folder / "startup").mkdir()
    yield folder
    stop_background_training()
    shutil.rmtree(folder)


def training(folder):
    return [process for process in processes_of(folder) if MODULE in process.info["cmdline"]]


def folders():
    return list(archive().parent.glob("training-*"))


def pretend(monkeypatch, script):
    """Replace the process that runs the pipelines by a short script."""
    run = subprocess.run

    def other(command, **options):
        return run([sys.executable, "-c", script, command[-1]], **options)

    monkeypatch.setattr(startup_training.subprocess, "run", other)


WRITES = "import sys; open(sys.argv[1], 'w').write('complete')"


def test_an_archive_is_published(separate_cache, monkeypatch):
    pretend(monkeypatch, WRITES)
    assert train() == archive()
    assert archive().read_text() == "complete"
    assert not folders()


def test_a_half_written_archive_is_not_published(separate_cache, monkeypatch):
    pretend(monkeypatch, f"{WRITES}; sys.exit('no space left')")
    with pytest.raises(JvmError, match=r"ARCHIVE_NOT_WRITTEN: .* exit code 1: no space left"):
        train()
    assert not archive().exists()
    assert not folders()


def test_an_archive_that_takes_too_long_is_not_published(separate_cache, monkeypatch):
    pretend(monkeypatch, f"{WRITES}; import time; time.sleep(60)")
    with pytest.raises(JvmError, match="not done within 2 s"):
        train(2)
    assert not archive().exists()


def test_a_training_writes_only_to_its_folder(separate_cache, monkeypatch):
    names = "TMPDIR", "SPARK_LOCAL_DIRS", "JAVA_TOOL_OPTIONS", "EAGRE_STATE"
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.9.8.7")
    script = (
        "import json, os, sys; from pathlib import Path; "
        f"paths = {{name: os.environ[name] for name in {names}}}; "
        "assert 'SPARK_LOCAL_IP' not in os.environ; "
        "Path(sys.argv[1]).write_text(json.dumps([os.getcwd(), paths]))"
    )
    pretend(monkeypatch, script)
    folder, paths = json.loads(train().read_text())
    assert all(folder in paths[name] for name in names)
    assert Path(folder).parent == archive().parent


def test_folders_of_killed_trainings_are_removed(separate_cache, monkeypatch):
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    assert folders()
    pretend(monkeypatch, WRITES)
    train()
    assert not folders()


KILLED = """
import subprocess, sys
from eagre import startup_training
from eagre.startup_training import train
run = subprocess.run
def other(command, **options):
    return run([sys.executable, "-c", "import os; os.kill(os.getppid(), 9)"], **options)
startup_training.subprocess.run = other
train()
"""


def test_concurrent_cleanups_do_not_fail(separate_cache):
    """All remove the same old archives, which may disappear at any moment."""
    failures, folder = [], archive().parent

    def tidy():
        try:
            startup_training.remove_old(folder)
        except OSError as error:
            failures.append(error)

    for round_ in range(5):
        for n in range(100):
            (folder / f"{round_}-{n}.archive").write_text("")
        threads = [threading.Thread(target=tidy) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    assert len(list(folder.glob("*.archive"))) == startup_training.RETAINED


def test_only_one_training_runs_at_a_time(separate_cache):
    """The pid file of a running process is not removed, neither by others nor by the next start."""
    note = archive().parent / "training.json"
    mine = json.dumps({"pid": os.getpid(), "born": registry.born(os.getpid())})
    note.write_text(mine)
    train_in_background()
    assert note.read_text() == mine
    assert not training(separate_cache)
    startup_training.forget(os.getpid() + 1)
    assert note.exists(), "the pid file of another process was removed"
    startup_training.forget(os.getpid())
    assert not note.exists()


@pytest.mark.e2e
@pytest.mark.parametrize("begun", [False, True])
def test_training_in_the_background_can_be_stopped(separate_cache, begun):
    """Immediately, or after its broker has started."""
    assert not stop_background_training()
    train_in_background()
    [process] = wait_until(lambda: training(separate_cache)[:1], 30, "nothing was started")
    wait_until(lambda: process.nice() == 19, 30, "it has normal priority")
    wait_until(folders, 30, "it did not start")
    if begun:
        wait_until(lambda: list(separate_cache.rglob("meta.properties")), 120, "no broker")
    assert stop_background_training()
    assert not folders(), "its folder was not removed"
    wait_until(lambda: not training(separate_cache), 30, "it still runs")
    wait_until(lambda: not processes_of(separate_cache), 30, "a child process still runs")
    assert not stop_background_training()
    assert not archive().exists()


@pytest.mark.e2e
def test_training_in_the_background_writes_the_archive(separate_cache, monkeypatch):
    elsewhere = separate_cache / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    monkeypatch.setenv("EAGRE_STATE", str(separate_cache / "state"))
    log = train_in_background()
    wait_until(
        lambda: processes_of(separate_cache, "dev.eagre.broker.EmbeddedBroker"), 120, "no broker"
    )
    assert registry.running() == [], "its broker is registered like any other"
    wait_until(
        lambda: archive().exists() or not training(separate_cache), 300, "no archive", interval=1
    )
    assert archive().exists(), log.read_text()
    wait_until(lambda: not processes_of(separate_cache), 60, "a child process still runs")
    assert not folders()
    assert not list(elsewhere.iterdir())
    assert not state_dir().exists()
