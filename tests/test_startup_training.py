"""The start-up archive: written in the background after a demo, and out of the next one's way."""

import pytest

from conftest import processes_of
from eagre.config import cache_dir
from eagre.jvm.archive import archive
from eagre.startup_training import MODULE, stop_background_training, train_in_background
from eagre.waiting import wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    jars = cache_dir() / "jars"
    monkeypatch.setenv("EAGRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EAGRE_JARS", str(jars))
    yield tmp_path
    stop_background_training()


def training(folder):
    return [process for process in processes_of(folder) if MODULE in process.info["cmdline"]]


def test_training_in_the_background_can_be_stopped(own_cache):
    assert not stop_background_training()
    train_in_background()
    [process] = wait_until(lambda: training(own_cache)[:1], 30, "nothing was started")
    wait_until(lambda: process.nice() == 19, 30, "it has the priority of other work")
    wait_until(lambda: list(archive().parent.glob("training-*")), 30, "it did not begin")
    assert stop_background_training()
    assert not list(archive().parent.glob("training-*")), "its folder is left behind"
    wait_until(lambda: not training(own_cache), 30, "it goes on")
    wait_until(lambda: not processes_of(own_cache), 30, "something that it started goes on")
    assert not stop_background_training()
    assert not archive().exists()


def test_training_in_the_background_writes_the_archive(own_cache):
    log = train_in_background()
    wait_until(lambda: archive().exists() or not training(own_cache), 300, "no archive", interval=1)
    assert archive().exists(), log.read_text()
    wait_until(lambda: not processes_of(own_cache), 60, "something that it started goes on")
