"""What the tests share: the command line as a user calls it."""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from eagre.broker import Topics

EAGRE = Path(sys.executable).parent / "eagre"


@dataclass
class Cli:
    """Calls ``eagre`` in a folder of its own, with a register of brokers of its own."""

    folder: Path
    env: dict[str, str]

    def start(self, *args, **env):
        return subprocess.Popen(
            [str(EAGRE), *map(str, args)],
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *args, given="", timeout=120, **env):
        process = self.start(*args, **env)
        out, err = process.communicate(given, timeout)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def ok(self, *args, **options):
        done = self(*args, **options)
        assert done.returncode == 0, done.stderr
        return done

    def app(self, text, name="app.py"):
        path = self.folder / name
        path.write_text(text)
        return path


@pytest.fixture
def cli(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    env = {**os.environ, "EAGRE_STATE": str(tmp_path / "state"), "COLUMNS": "200"}
    env.pop("EAGRE_BROKERS", None)
    return Cli(folder, env)


def processes_of(folder, word=None):
    """Processes that work in a folder or name it, all or those with a word in their command."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd", "status"]):
        words = process.info["cmdline"] or []
        told = " ".join(words) + f" {process.info['cwd']}"
        alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if str(folder) in told and alive and (word is None or word in words):
            found.append(process)
    return found


def kill_children(process):
    """Kill what a process has started, as far as it still lives."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()


@pytest.fixture(scope="module")
def eagre_broker(eagre_broker):
    """The broker of the session, left without a topic: modules may use the same names."""
    yield eagre_broker
    topics = Topics(eagre_broker.address)
    if left := topics.names():
        topics.delete(left)


@pytest.fixture(scope="module")
def ground(eagre_broker, eagre_spark, tmp_path_factory):
    """Topics and a session for queries in plain PySpark."""
    from queries import Ground

    topics = Topics(eagre_broker.address)
    for name, partitions in (("corpus", 3), ("corpus-2", 1), ("corpus-out", 1)):
        topics.create(name, partitions)
    return Ground(eagre_spark, eagre_broker.address, tmp_path_factory.mktemp("corpus"))
