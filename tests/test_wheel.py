"""The wheel for a new user: a new environment, an empty folder, the commands of the docs."""

import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eagre.waiting import wait_until

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parent.parent
PATIENCE = 900
"""Seconds for one command: PySpark may have to be downloaded, and the machine may be busy."""
BLOCK = re.compile(r"(?:^`(\w+\.py)`:\n+)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """Return the code blocks of a page in order: file name (or empty), language, text."""
    return BLOCK.findall((ROOT / "docs" / "tutorials" / page).read_text())


def typed(text):
    """The commands of a console block, without their comments."""
    return [line[2:].split("  #")[0].strip() for line in text.splitlines() if line[:2] == "$ "]


@dataclass
class Command:
    """A command line in a shell; its output is in two files."""

    line: str
    log: Path
    process: subprocess.Popen = field(repr=False)

    @property
    def printed(self):
        return (self.log / "stdout").read_text()

    @property
    def output(self):
        """The command and its output so far, for messages."""
        return f"$ {self.line}\n{self.printed}\n{(self.log / 'stderr').read_text()}"

    def wait_for(self, words):
        def printed_words():
            ended = self.process.poll() is not None
            assert not ended or words in self.output, f"ended before {words!r}:\n{self.output}"
            return words in self.output

        try:
            wait_until(printed_words, PATIENCE, words)
        except TimeoutError:
            pytest.fail(f"never printed {words!r}:\n{self.output}")

    def ended(self):
        """Wait for the end, with exit code 0."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"not done within {PATIENCE} s:\n{self.output}")
        assert code == 0, f"exit code {code}:\n{self.output}"
        return self.printed

    def kill(self):
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Shell:
    """A terminal in a folder."""

    folder: Path
    env: dict[str, str]
    started: list[Command] = field(default_factory=list)

    def start(self, line):
        log = self.folder.parent / f"{self.folder.name}-logs" / str(len(self.started))
        log.mkdir(parents=True)
        with (log / "stdout").open("w") as out, (log / "stderr").open("w") as err:
            process = subprocess.Popen(
                ["/bin/bash", "-ec", line],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.started.append(Command(line, log, process))
        return self.started[-1]

    def run(self, line):
        return self.start(line).ended()

    def close(self):
        for command in self.started:
            if command.process.poll() is None:
                command.kill()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source distribution, built as ``make wheel`` does."""
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder, "sdist", "wheel")
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def build(source, target, *kinds):
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    for kind in kinds:
        command += ["--target", kind]
    done = subprocess.run(
        command, cwd=source, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def outside():
    """Return this environment without the repository's virtual environment and settings."""
    ours = ("EAGRE_", "PYTHON", "PYTEST_", "PYSPARK_", "SPARK_", "VIRTUAL_ENV", "MAKE")
    env = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    base = Path(sys.base_prefix) / "bin"
    binaries = Path(sys.executable).parent
    others = [part for part in env["PATH"].split(os.pathsep) if part != str(binaries)]
    return {**env, "PATH": os.pathsep.join([str(base), *others])}


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The environment that tutorials/install.md creates, as variables for a shell."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copy(built[0], folder)
    env = {**outside(), "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}
    shell = Shell(folder, env)
    first = typed(next(text for _, language, text in blocks("install.md") if language == "console"))
    assert first[-2:] == [f"pip install {built[0].name}", "eagre doctor"]
    printed = shell.run("\n".join([*first, "pip check"]))
    checks = [line.split()[0] for line in printed.splitlines() if re.match("ok|FAIL", line)]
    assert set(checks) == {"ok"}, printed
    return {**env, "PATH": f"{folder / '.venv' / 'bin'}{os.pathsep}{env['PATH']}"}


@pytest.fixture
def shell(installed, tmp_path):
    """A shell in an empty folder; ends the commands that still run."""
    folder = tmp_path / "empty"
    folder.mkdir()
    shell = Shell(folder, installed)
    yield shell
    shell.close()
    subprocess.run(
        ["/bin/bash", "-c", "eagre broker stop --all"],
        cwd=folder,
        env=installed,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


class Walk:
    """Follows tutorials/first-pipeline.md, command by command, with two terminals.

    A run continues in the first terminal until the page starts the next one.
    """

    def __init__(self, shell):
        self.shell = shell
        self.printed = ""
        self.send = self.read = ""
        self.running = None
        self.modes = []

    def file(self, name, text):
        (self.shell.folder / name).write_text(text)

    def json(self, text):
        assert self.printed == text

    def command(self, line):
        if line.startswith("eagre run"):
            self.run(line)
            return
        if " | eagre topic produce " in line:
            self.send = line
        if line.startswith("eagre topic tail "):
            self.read = line
        self.printed = self.shell.run(line)

    def run(self, line):
        self.drain()
        [mode] = re.findall(r"--mode (\S+)", line) or ["real-time"]
        self.modes.append(mode)
        if mode == "available-now":
            self.shell.run("eagre broker start --port 0")
            self.shell.run(self.send)
            self.shell.run(line)
            self.arrived(len(self.modes))
            self.shell.run("eagre broker stop")
        else:
            self.forever(line, mode)

    def forever(self, line, mode):
        """Start a run that does not end by itself; a second record must arrive through it too."""
        named = ""
        if "host:9092" in line:
            cluster = self.shell.run("eagre broker start --port 0 --data ../cluster").strip()
            line, named = line.replace("host:9092", cluster), f" --brokers {cluster}"
        self.running = self.shell.start(f"exec {line}")
        self.running.wait_for(f"running in {mode}")
        if len(self.modes) > 1:
            self.shell.run(self.send + named)
            self.arrived(1 if named else len(self.modes), named)

    def arrived(self, count, named=""):
        """Wait for so many identical results."""
        read = re.sub(r"-n 1\b", f"-n {count}", self.read)
        lines = self.shell.run(read + named).splitlines()
        assert len(lines) == count
        assert len(set(lines)) == 1

    def drain(self):
        """Ctrl-C in the first terminal."""
        if self.running:
            self.running.process.send_signal(signal.SIGINT)
            self.running.ended()
            self.running = None


def test_the_first_pipeline_tutorial_works_with_the_wheel(shell):
    walk = Walk(shell)
    for name, language, text in blocks("first-pipeline.md"):
        if name:
            walk.file(name, text)
        elif language == "console":
            for line in typed(text):
                walk.command(line)
        else:
            assert language == "json"
            walk.json(text)
    walk.drain()
    assert walk.modes == ["real-time", "micro-batch", "available-now", "real-time"]
    [tested] = [c for c in shell.started if c.line.startswith("python -m pytest")]
    assert "2 passed" in tested.printed


def test_a_project_passes_its_tests_with_its_stated_dependencies(shell):
    shell.run("eagre init leaderboard proj")
    text = shell.started[-1].output
    for step in ('pip install -e ".[test]"', "make test"):
        assert step in text
        printed = shell.run(f"cd proj && {step}")
    assert re.search(r"\d+ passed", printed), printed


def test_the_source_distribution_builds_the_same_wheel(built, tmp_path):
    wheel, sdist = built
    shutil.unpack_archive(sdist, tmp_path / "unpacked")
    [source] = (tmp_path / "unpacked").iterdir()
    build(source, tmp_path / "again", "wheel")
    assert contents(tmp_path / "again" / wheel.name) == contents(wheel)


def contents(wheel):
    """Return each file with its checksum."""
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}
