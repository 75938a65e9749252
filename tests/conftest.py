"""Shared fixtures: the command line, runs in the test process, a scratch folder, a time limit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from eagre import cli as package
from eagre.broker import Topics
from eagre.cli import console
from eagre.errors import EagreError
from eagre.runtime import child
from eagre.runtime.parent import Parent
from eagre.runtime.spec import RunSpec
from eagre.waiting import machine_slowness, wait_until

EAGRE = Path(sys.executable).parent / "eagre"
JVM_OPTIONS = "JAVA_TOOL_OPTIONS"
WORKER_MEMORY = 3 << 30
"""The memory of a test process, which has its own Spark and broker."""
TIME_IS_UP = "the time limit was reached"
REFERENCE_SECONDS = 0.6


def pytest_addoption(parser):
    parser.addoption(
        "--until",
        type=float,
        metavar="TIME",
        help="skip tests that would begin after this time (seconds since 1970), and name them",
    )


def pytest_configure(config):
    """Keep all temporary files in one folder, which is removed when the tests have passed.

    Runs, brokers and checkpoints of the tests are registered there too, not in the user's state.
    Every JVM of a test uses the C1 compiler only, because none runs long enough to need C2.
    SIGTERM ends the tests as Ctrl-C does.
    """
    if hasattr(config, "workerinput"):
        return
    config.scratch = Path(tempfile.mkdtemp(prefix="eagre-tests-"))
    config.scratch.chmod(0o711)  # PostgreSQL runs under another account
    os.environ["TMPDIR"] = tempfile.tempdir = str(config.scratch)
    os.environ["EAGRE_STATE"] = str(config.scratch / "state")
    options = f"-XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.io.tmpdir={config.scratch}"
    os.environ[JVM_OPTIONS] = options
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_unconfigure(config):
    scratch = getattr(config, "scratch", None)
    if scratch and not getattr(config, "keeps_scratch", False):
        shutil.rmtree(scratch, ignore_errors=True)


def pytest_sessionfinish(session, exitstatus):
    session.config.keeps_scratch = exitstatus == pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Return a test process per core and one more, if the memory allows it.

    Tests wait a third of the time: for epochs, for restarts, for something not to happen.
    """
    cores = os.cpu_count() or 1
    return max(1, min(cores + 1, psutil.virtual_memory().available // WORKER_MEMORY))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Start with the longest tests, so that none of them runs alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    until = item.config.getoption("until")
    if until and time.time() > until:
        pytest.skip(TIME_IS_UP)


def pytest_report_header():
    return f"machine: {calibration()}"


def calibration():
    """Return how fast the machine is now; durations are comparable only with this number."""
    seconds = REFERENCE_SECONDS * machine_slowness(at_least=0)
    return f"ten million additions take {seconds:.1f} s (reference: {REFERENCE_SECONDS} s)"


def pytest_terminal_summary(terminalreporter, config):
    skipped = terminalreporter.stats.get("skipped", ())
    missed = [report.nodeid for report in skipped if TIME_IS_UP in str(report.longrepr)]
    if missed:
        terminalreporter.section(f"the time limit was reached before {len(missed)} tests")
        for name in missed:
            terminalreporter.line(name)
    if getattr(config, "keeps_scratch", False):
        terminalreporter.line(f"temporary files of the failed tests: {config.scratch}")
    terminalreporter.line(f"machine: {calibration()}")


def communicate(process, text, timeout):
    """Send text to a process and return its output; kill it and its children after the timeout.

    The timeout grows with the slowness of the machine, as in ``wait_until``.
    """
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(text, timeout)
    try:
        return process.communicate(timeout=timeout * (machine_slowness() - 1))
    except subprocess.TimeoutExpired:
        kill_children(process)
        process.kill()
        process.communicate()
        raise


def default_signals():
    """Restore SIGINT and SIGHUP, which a shell may have ignored with ``nohup`` or ``&``."""
    for sign in (signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)


@dataclass
class Cli:
    """Calls ``eagre`` in a separate folder with separate state."""

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
            preexec_fn=default_signals,  # noqa: PLW1509  (no thread forks while it runs)
        )

    def __call__(self, *args, given="", timeout=120, **env):
        process = self.start(*args, **env)
        out, err = communicate(process, given, timeout)
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


@pytest.fixture
def call(tmp_path, monkeypatch, capfd):
    """Call ``eagre`` in this process; return its exit code and its output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("EAGRE_BROKERS", raising=False)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["eagre", *map(str, args)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            package.main()
        output = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=output.out, err=output.err)

    yield run
    console.set_verbosity(console.Verbosity.NORMAL)


class InProcess:
    """Runs a pipeline as the Spark child process does, in a thread and in the tests' session."""

    def __init__(self, spec, brokers, spark):
        self.spark = spark
        self.events = []
        self.failure = None
        self._parent = Parent(self)
        self._parent.orders.put(brokers)
        self._thread = threading.Thread(target=self._run, args=(spec,), daemon=True)
        self._thread.start()

    def _run(self, spec):
        try:
            child.run(spec, self._parent)
        except EagreError as error:
            self.failure = error

    def write(self, line):
        self.events.append(json.loads(line))

    def flush(self):
        pass

    def has(self, event, **data):
        return any(
            seen["event"] == event and all(seen.get(key) == data[key] for key in data)
            for seen in self.events
        )

    def wait_for(self, event, timeout=60):
        def reported():
            assert self._thread.is_alive() or self.has(event), self.failure
            return self.has(event)

        wait_until(reported, timeout, f"{event!r} was never reported: {self.events}")
        return self

    def start_drain(self):
        self._parent.draining.set()

    def drain(self, timeout=60):
        self.start_drain()
        self.join(timeout)
        assert self.failure is None, self.failure

    def cut(self):
        """Stop the query without a drain."""
        for query in self.spark.streams.active:
            query.stop()
        self.join()

    def join(self, timeout=60):
        wait_until(
            lambda: not self._thread.is_alive(), timeout, f"the run does not end: {self.events}"
        )


@pytest.fixture
def in_process(eagre_spark, eagre_broker, cli, monkeypatch):
    """Start a pipeline file in the Spark of the tests; ``cut`` ends its query without a drain."""
    runs = []

    def start(app, **options):
        options = {"checkpoint": str(cli.folder / "checkpoint"), **options}
        session = eagre_spark.newSession()  # separate settings, as in a separate process
        monkeypatch.setattr(child, "session", lambda *_, **__: session)
        runs.append(InProcess(RunSpec(app=str(app), **options), eagre_broker.address, session))
        return runs[-1]

    def cut():
        for run in runs:
            run.cut()

    start.cut = cut
    yield start
    cut()


def processes_of(folder, word=None):
    """Return the processes that run in a folder or name it, optionally by a word of the command."""
    matches = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd", "status"]):
        words = process.info["cmdline"] or []
        description = " ".join(words) + f" {process.info['cwd']}"
        alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if str(folder) in description and alive and (word is None or word in words):
            matches.append(process)
    return matches


def kill_children(process):
    """Kill all children of a process."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()


@pytest.fixture(scope="module")
def eagre_broker(eagre_broker):
    """The broker of the session; its topics are deleted, so that modules can use the same names."""
    yield eagre_broker
    topics = Topics(eagre_broker.address)
    if names := topics.names():
        topics.delete(names)


@pytest.fixture(scope="module")
def check_setup(eagre_broker, eagre_spark, tmp_path_factory):
    """Topics and a session for queries in plain PySpark."""
    from queries import CheckSetup

    topics = Topics(eagre_broker.address)
    for name, partitions in (("corpus", 3), ("corpus-2", 1), ("corpus-out", 1)):
        topics.create(name, partitions)
    return CheckSetup(eagre_spark, eagre_broker.address, tmp_path_factory.mktemp("corpus"))
