"""The wheel contains the files of git and the companion jar; its command starts quickly."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from eagre.config import cache_dir

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run(
        [*command, "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)], check=True
    )
    [path] = folder.glob("eagre-*.whl")
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


@pytest.mark.e2e
def test_the_wheel_contains_the_files_of_git(wheel):
    done = subprocess.run(
        ["git", "ls-files", "src/eagre", "src/eagre_bench"],  # noqa: S607  (whatever git the user has)
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    tracked = {line.removeprefix("src/") for line in done.stdout.splitlines()}
    packed = {name for name in wheel if not name.split("/")[0].endswith(".dist-info")}
    assert packed == tracked | {"eagre/jvm/lib/eagre-companion.jar"}
    assert {name.split("/")[0] for name in packed} == {"eagre", "eagre_bench"}


def test_help_starts_no_jvm_and_imports_nothing_heavy(cli, tmp_path):
    """This keeps it below half a second on a typical machine."""
    done = cli.ok("--help", JAVA_HOME=str(tmp_path), PATH=str(tmp_path))
    heavy = "pyspark py4j confluent_kafka psutil hdrh pandas matplotlib"
    code = (
        "import sys\nfrom eagre.cli import main\n"
        "sys.argv = ['eagre', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print([m for m in '{heavy}'.split() if m in sys.modules], file=sys.stderr)"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stderr == "[]\n"
    for command in ("broker", "checkpoint", "demo", "doctor", "jars", "run", "topic"):
        assert f"  {command} " in done.stdout


def test_doctor_finds_everything(cli):
    lines = cli.ok("doctor").stdout.splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}


@pytest.fixture
def first_use(tmp_path):
    """Return the settings of a new user: an empty cache, the jars in a folder, no network."""
    return {"EAGRE_CACHE": str(tmp_path / "cache"), "EAGRE_JARS": str(cache_dir() / "jars")}


def test_doctor_fetches_missing_jars(cli, first_use):
    done = cli.ok("doctor", **first_use)
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"ok"}
    assert "eagre: copying 5 spark jars" in done.stderr
    assert "eagre: copying 46 broker jars" in done.stderr
    assert "copying" not in cli.ok("doctor", **first_use).stderr


@pytest.mark.e2e
def test_the_check_reports_that_it_fetches_jars(cli, first_use):
    app = cli.app("raise SystemExit('loaded')")
    done = cli("check", app, **first_use)
    assert "eagre: copying 5 spark jars" in done.stderr


@pytest.mark.e2e
def test_the_test_kit_reports_that_it_fetches_jars(tmp_path, first_use):
    (tmp_path / "test_it.py").write_text("def test_it(eagre_broker): assert eagre_broker.address")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, **first_use},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout
    assert "eagre: copying 46 broker jars" in done.stderr


def test_doctor_names_missing_parts(cli, tmp_path):
    done = cli("doctor", JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "FAIL  java" in done.stdout
