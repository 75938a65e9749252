"""What the tests share: the command line as a user calls it, a scratch folder, a time box."""

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
"""A test process has a Spark and a broker of its own."""
NO_TIME = "no time was left for it"
REFERENCE_SECONDS = 0.6


def pytest_addoption(parser):
    parser.addoption(
        "--until",
        type=float,
        metavar="TIME",
        help="skip tests that would begin after this time (seconds since 1970), and name them",
    )


def pytest_configure(config):
    """Keep all temporary files in one folder, which goes when the tests have passed.

    Runs, brokers and checkpoints of the tests are registered there too, not with the user's own.
    Every JVM of a test compiles with its first compiler only: none lives long enough for more.
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
    """One test process for each core, as far as the memory goes."""
    return max(1, min(os.cpu_count() or 1, psutil.virtual_memory().available // WORKER_MEMORY))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Begin with what takes longest: else one test process could be at it when all else is done."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    until = item.config.getoption("until")
    if until and time.time() > until:
        pytest.skip(NO_TIME)


def pytest_report_header():
    return f"machine: {calibration()}"


def calibration():
    """How fast the machine is now; times of test runs mean something only beside it."""
    seconds = REFERENCE_SECONDS * machine_slowness(at_least=0)
    return f"ten million additions take {seconds:.1f} s (reference: {REFERENCE_SECONDS} s)"


def pytest_terminal_summary(terminalreporter, config):
    skipped = terminalreporter.stats.get("skipped", ())
    missed = [report.nodeid for report in skipped if NO_TIME in str(report.longrepr)]
    if missed:
        terminalreporter.section(f"no time was left for {len(missed)} tests")
        for name in missed:
            terminalreporter.line(name)
    if getattr(config, "keeps_scratch", False):
        terminalreporter.line(f"temporary files of the failed tests: {config.scratch}")
    terminalreporter.line(f"machine: {calibration()}")


def communicate(process, given, timeout):
    """Give what a process says until it ends; one that outlasts its limit is killed with its own.

    The limit grows with the slowness of the machine, as that of ``wait_until`` does.
    """
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(given, timeout)
    try:
        return process.communicate(timeout=timeout * (machine_slowness() - 1))
    except subprocess.TimeoutExpired:
        kill_children(process)
        process.kill()
        process.communicate()
        raise


def default_signals():
    """Let a command hear Ctrl-C and a hang-up, also where the tests run with nohup or behind &."""
    for sign in (signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)


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
    """Call ``eagre`` in this process; give what a shell would see of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("EAGRE_BROKERS", raising=False)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["eagre", *map(str, args)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            package.main()
        told = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=told.out, err=told.err)

    yield run
    console.set_verbosity(console.Verbosity.NORMAL)


class InProcess:
    """A run as the Spark child does it, in a thread of the tests and in their Spark session."""

    def __init__(self, spec, brokers, spark):
        self.spark = spark
        self.heard = []
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
        self.heard.append(json.loads(line))

    def flush(self):
        pass

    def has(self, event, **data):
        return any(
            heard["event"] == event and all(heard.get(key) == data[key] for key in data)
            for heard in self.heard
        )

    def wait_for(self, event, timeout=60):
        def there():
            assert self._thread.is_alive() or self.has(event), self.failure
            return self.has(event)

        wait_until(there, timeout, f"{event!r} was never told: {self.heard}")
        return self

    def drain(self, timeout=60):
        self._parent.draining.set()
        self.join(timeout)
        assert self.failure is None, self.failure

    def cut(self):
        """Stop the query without a drain."""
        for query in self.spark.streams.active:
            query.stop()
        self.join()

    def join(self, timeout=60):
        wait_until(lambda: not self._thread.is_alive(), timeout, f"it goes on: {self.heard}")


@pytest.fixture
def in_process(eagre_spark, eagre_broker, cli, monkeypatch):
    """Start a pipeline file in the Spark of the tests; ``cut`` ends its query without a drain."""
    runs = []

    def start(app, **options):
        options = {"checkpoint": str(cli.folder / "checkpoint"), **options}
        own = eagre_spark.newSession()  # with settings of its own, as in a process of its own
        monkeypatch.setattr(child, "session", lambda *_, **__: own)
        runs.append(InProcess(RunSpec(app=str(app), **options), eagre_broker.address, own))
        return runs[-1]

    def cut():
        for one in runs:
            one.cut()

    start.cut = cut
    yield start
    cut()


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
