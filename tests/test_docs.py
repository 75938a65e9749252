"""The documentation is correct: its code runs, its commands exist, its tables are current."""

import doctest
import importlib
import inspect
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import partial
from importlib import import_module
from pathlib import Path

import click
import pytest

import eagre
import eagre_bench
from eagre.cli import eagre as command_line
from eagre.cli.reference import reference
from eagre.preflight.reference import reference as rules_page
from eagre.profile import GC_OPTIONS, PROFILE
from test_run import Run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
RUN, SHELL, SHOWN = {"python"}, {"", "console", "sh"}, {"json", "properties", "text", "yaml"}
FILE = re.compile(r"^`(\w+\.py)`:\n+```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(.*)\n", re.MULTILINE)


def blocks(language="", text=README):
    """Return the code blocks of a language."""
    fenced = FENCE.split(text)
    opened = zip(fenced[1::4], fenced[2::4], strict=True)
    return [code for name, code in opened if name == language]


def prose(text):
    """Return a page without its code blocks."""
    return "".join(FENCE.split(text)[::4])


def test_every_block_has_a_known_language():
    for name, text in PAGES.items():
        languages = set(FENCE.split(text)[1::4])
        assert languages <= RUN | SHELL | SHOWN, name


@pytest.fixture
def given(eagre_harness, tmp_path, monkeypatch):
    """The variables that code blocks of a page may use; stops the queries that they start."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for topic in {"payments", "large"} - set(eagre_harness.topics.names()):
        eagre_harness.topics.create(topic, 1)
    yield {
        "spark": eagre_harness.spark,
        "brokers": eagre_harness.brokers,
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    for query in eagre_harness.spark.streams.active:
        query.stop()


@pytest.mark.parametrize(
    "page", [name for name, text in PAGES.items() if name != "README.md" and blocks("python", text)]
)
def test_the_python_of_every_page_runs(page, given, eagre_harness):
    files = dict(FILE.findall(PAGES[page]))
    for name, code in files.items():
        Path(name).write_text(code)
        sys.modules.pop(name.removesuffix(".py"), None)
    importlib.invalidate_caches()
    scope = dict(given)
    for code in blocks("python", PAGES[page]):
        exec(code, scope)  # noqa: S102  (our own pages)
    tests = [test for name, test in scope.items() if name.startswith("test_")]
    assert bool(tests) == any(name.startswith("test_") for name in files)
    for test in tests:
        call(test, eagre_harness)


def call(test, harness):
    """Call a page's test with the fixture that it asks for."""
    modes = {"run_pipeline": ["real-time"], "run_in_both_modes": ["micro-batch", "real-time"]}
    [fixture] = inspect.signature(test).parameters
    for mode in modes[fixture]:
        test(partial(harness.run, mode=mode))


@pytest.mark.e2e
def test_the_first_pipeline_of_the_tutorial_runs(cli):
    page = PAGES["docs/tutorials/first-pipeline.md"]
    cli.app(dict(FILE.findall(page))["score.py"], "score.py")
    [send] = re.findall(r"^\$ echo '(.+)' \| eagre (topic produce .+)$", page, re.MULTILINE)
    [tail] = re.findall(r"^\$ eagre (topic tail .+)$", page, re.MULTILINE)
    run = Run(cli, "score.py", "--every", "5 seconds", "--no-dashboard")
    try:
        run.wait_for("running in real-time")
        cli.ok(*shlex.split(send[1]), given=send[0])
        assert cli.ok(*shlex.split(tail)).stdout == blocks("json", page)[0]
        assert run.end() == 0, run.output
    finally:
        run.process.kill()
        run.process.wait()
        for stream in (run.process.stdin, run.process.stdout, run.process.stderr):
            stream.close()


@pytest.mark.e2e
def test_the_readme_pipeline_passes_the_readme_test(tmp_path):
    pipeline, *_, test = blocks("python")
    (tmp_path / "score.py").write_text(pipeline)
    (tmp_path / "test_score.py").write_text(test)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_score.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout
    assert len(test.strip().splitlines()) <= 12


def test_the_readmes_function_runs(eagre_spark):
    df = eagre_spark.createDataFrame(
        [(5000.0, "DE"), (5000.0, "CH")], "amount DOUBLE, country STRING"
    )
    scope = {"df": df}
    exec(blocks("python")[1], scope)  # noqa: S102  (our own README)
    assert [row.risk for row in scope["scored"].collect()] == [0.9, 0.1]


def test_the_readmes_operators_can_be_planned(eagre_harness):
    schemas = {
        "df": "id STRING, card STRING, country STRING, user STRING, game STRING, player STRING, "
        "amount DOUBLE, points BIGINT",
        "orders": "order STRING, item STRING",
        "payments": "order STRING, paid DOUBLE",
        "bids": "user STRING, site STRING",
        "profiles": "user STRING, age INT",
    }
    rows = {
        name: eagre.Kafka(name, schema=schema).read(eagre_harness.spark, eagre_harness.brokers)
        for name, schema in schemas.items()
    }
    [block] = [code for code in blocks("python") if code.startswith("eg.deduplicate(")]
    calls = block.splitlines()
    assert len(calls) == 6
    for call_ in calls:
        planned = eval(call_, {"eg": eagre, **rows})  # noqa: S307  (our own README)
        assert planned.isStreaming, call_


@pytest.mark.e2e
def test_the_operators_page_runs(run_pipeline):
    scope = {}
    for code in blocks("python", (ROOT / "docs" / "reference" / "operators.md").read_text()):
        exec(code, scope)  # noqa: S102  (our own page)
    at = "2026-01-01T00:00:00Z"
    payment = {"id": "p", "card": "c", "amount": 9.0, "country": "CH", "at": at}
    later = {**payment, "id": "q", "at": "2026-01-01T01:00:00Z"}
    score = {"game": "g", "player": "p", "points": 3, "at": at}

    def run(name, *rows, topic=None):
        return run_pipeline(
            scope[name], {topic: list(rows)} if topic else list(rows), mode="available-now"
        )

    assert [row["id"] for row in run("once", payment, payment)] == ["p"]
    [row] = run("features", payment)
    assert (row["count_1_minute"], row["sum_amount_1_minute"], row["usual"]) == (1, 9.0, 9.0)
    assert (row["max_amount_1_hour"], row["distinct_country_1_hour"]) == (9.0, 1)
    assert [(r["rank"], r["player"], r["score"]) for r in run("leaderboard", score)] == [
        (1, "p", 3)
    ]
    sessions = run("sprees", payment, later)
    assert [(row["status"], row["count"]) for row in sessions] == [
        ("open", 1),
        ("open", 1),
        ("final", 1),
    ]
    assert [row["spent"] for row in run("minutes", payment, later)] == [9.0]
    order, pays = {"order": "o", "item": "hat"}, {"order": "o", "amount": 5.0}
    [row] = run_pipeline(
        scope["settled"], {"orders": [order], "paid": [pays]}, mode="available-now"
    )
    assert (row["item"], row["amount"]) == ("hat", 5.0)
    [row] = run_pipeline(
        scope["judged"],
        {"payments": [payment], "limits": [{"card": "c", "limit": 7.0}]},
        mode="available-now",
    )
    assert (row["id"], row["limit"]) == ("p", 7.0)


@pytest.mark.e2e
def test_the_python_page_runs(run_in_both_modes):
    scope = {}
    for code in blocks("python", (ROOT / "docs" / "reference" / "python.md").read_text()):
        exec(code, scope)  # noqa: S102  (our own page)
    rows = [{"card": "c", "amount": 5000.0, "country": "DE"}]
    assert run_in_both_modes(scope["score"], rows)[0]["risk"] == 0.9
    assert scope["inference"].function([5000.0, 1.0]) == [0.9, 0.1]
    visits = run_in_both_modes(scope["visits"], [{"user": "u", "page": "p"}] * 2)
    assert [row["n"] for row in visits] == [1, 2]
    words = run_in_both_modes(scope["split"], [{"id": "m", "text": "Ahoy, there"}])
    assert [(row["word"], row["length"]) for row in words] == [("ahoy", 4), ("there", 5)]


def test_the_dashboard_page_declares_an_slo():
    scope = {}
    for code in blocks("python", (ROOT / "docs" / "how-to" / "dashboard.md").read_text()):
        exec(code, scope)  # noqa: S102  (our own page)
    assert (scope["score"].slo.percentile, scope["score"].slo.within_ms) == (99.0, 100)


def test_the_databases_page_declares_pipelines(eagre_spark):
    scope = {}
    for code in blocks("python", (ROOT / "docs" / "how-to" / "databases.md").read_text()):
        exec(code, scope)  # noqa: S102  (our own page)
    for name in ("last_payment", "totals"):
        writer = scope[name].writer(eagre_spark, checkpoint="c", brokers="127.0.0.1:9092")
        assert scope[name].sink.keys == ("card",)
        assert writer is not None


def test_the_readme_is_short_and_all_of_its_code_is_run():
    assert len(README.splitlines()) <= 180
    assert len(blocks("python")) == 6
    scope = {"eg": eagre}
    for block in blocks("python")[3:5]:
        exec(block, scope)  # noqa: S102  (our own README)
    assert scope["scores"].delivery == "exactly-once"
    assert scope["alerts"].url.startswith("https://")


def shell_lines():
    """Yield the lines of all shell blocks, without prompts and comments."""
    for text in PAGES.values():
        for language in sorted(SHELL):
            for line in "".join(blocks(language, text)).splitlines():
                yield language, line.removeprefix("$ ").split(" #")[0].strip()


def commands(program):
    for _, line in shell_lines():
        for part in line.split(" | "):
            words = re.sub(r"^(\w+=\S+ )+", "", part)
            if words.startswith(f"{program} "):
                yield words


@pytest.mark.parametrize("line", sorted(set(commands("eagre"))))
def test_the_commands_exist(line):
    words = shlex.split(line)[1:]
    command = command_line
    while isinstance(command, click.Group):
        command = command.get_command(None, words.pop(0))
    try:
        command.make_context(line, words)
    except click.BadParameter as error:
        assert "does not exist" in error.message, "only the reader's files may be missing"  # noqa: PT017


def everything(command, path="eagre"):
    """Yield a command and its subcommands, each with its path."""
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            yield from everything(command.get_command(None, name), f"{path} {name}")


@pytest.mark.parametrize(("path", "command"), list(everything(command_line)))
def test_commands_and_options_have_help(path, command):
    assert command.help, path
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert [param.opts for param in options if not param.help] == []


def test_the_targets_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for line in commands("make") for word in shlex.split(line)[1:] if "=" not in word}
    assert {"demo", "setup"} <= named <= targets


def test_shell_blocks_use_known_programs():
    begun = {line.split()[0] for language, line in shell_lines() if language and line}
    assert begun <= {"eagre", "make", "echo", "export", "pip", "python", "python3", "source"}


def mentioned():
    """Yield commands in running text: ``eagre dlq list|show``, ``eagre run APP.py --every``."""
    for text in PAGES.values():
        for line in re.findall(r"`(eagre [a-z][^`]*)`", prose(text)):
            yield " ".join(line.replace("\\|", "|").split())


@pytest.mark.parametrize("line", sorted(set(mentioned())))
def test_the_commands_in_the_text_exist(line):
    words = line.split()[1:]
    matches = [command_line]
    while words and isinstance(matches[0], click.Group):
        matches = [matches[0].get_command(None, name) for name in words.pop(0).split("|")]
    groups = [match for match in matches if isinstance(match, click.Group)]
    some = [
        *matches,
        *(g.get_command(None, name) for g in groups for name in g.list_commands(None)),
    ]
    known = {option for command in some for param in command.params for option in param.opts}
    assert {word for word in words if word.startswith("--")} <= known | {"--help"}


def test_the_codes_in_the_text_exist():
    folders = [(ROOT / "src", "*.py"), (ROOT / "jvm-companion", "*.java")]
    code = "".join(path.read_text() for folder, kind in folders for path in folder.rglob(kind))
    for name, text in PAGES.items():
        codes = set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", prose(text)))
        assert {missing for missing in codes if missing not in code} == set(), name


SHOWN_BY = re.compile(r"`(tests/\w+\.py)::(test_\w+)`")


def missing_tests(text):
    """Return the tests that a text names and that do not exist."""
    return {
        f"{file}::{name}"
        for file, name in SHOWN_BY.findall(text)
        if not (path := ROOT / file).exists()
        or not re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE)
    }


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if "tests/" in text])
def test_the_tests_named_in_the_docs_exist(page):
    assert missing_tests(PAGES[page]) == set()


def test_a_missing_test_is_detected():
    exists = "`tests/test_docs.py::test_a_missing_test_is_detected`"
    renamed = "`tests/test_docs.py::test_a_missing_test`"
    moved = "`tests/test_nothing.py::test_a_missing_test_is_detected`"
    assert missing_tests(f"{exists} {renamed} {moved}") == {renamed.strip("`"), moved.strip("`")}


WITHOUT_GUARANTEES = {
    *("docs/index.md", "docs/how-to/index.md", "docs/reference/api.md"),
    *(name for name in PAGES if name.startswith(("docs/internals/", "docs/tutorials/use-cases/"))),
}
"""They link to other pages, or are for contributors; the links of use cases are their own."""


@pytest.mark.parametrize("page", sorted(PAGES.keys() - WITHOUT_GUARANTEES))
def test_pages_with_guarantees_name_the_tests_behind_them(page):
    assert SHOWN_BY.search(PAGES[page])


def test_the_names_in_the_text_exist():
    for name, text in PAGES.items():
        assert set(re.findall(r"\beg\.(\w+)", text)) <= set(eagre.__all__), name


def test_the_python_reference_has_every_name():
    page = PAGES["docs/reference/api.md"]
    headings = re.findall(r"^ +heading: eg\.(\w+)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(set(eagre.__all__) - {"__version__"})


def test_the_index_of_decisions_is_complete():
    files = {path.name for path in (ROOT / "docs" / "internals" / "decisions").glob("0*.md")}
    index = PAGES["docs/internals/decisions/README.md"]
    assert set(re.findall(r"\((0\S+\.md)\)", index)) == files


def test_the_animation_of_the_readme_is_the_recording(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    animation = import_module("laboratory.readme_animation")
    picture = (ROOT / animation.PICTURE).read_text()
    recording = json.loads(animation.RECORDED.read_text())
    assert picture == animation.drawn(recording), "run `python -m laboratory.readme_animation`"
    assert f"]({animation.PICTURE})" in README
    texts = ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314  (ours)
    assert any("micro-batch ÷ real-time" in (text.text or "") for text in texts)
    assert re.findall('https?://[^"]+', picture) == ["http://www.w3.org/2000/svg"]
    assert len(picture) < 30_000


OUTSIDE = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//
      | <link\b[^>]*\bhref=["']?(?:https?:)?//
      | url\(["']?(?:https?:)?// | @import""",
    re.VERBOSE,
)


@pytest.mark.e2e
def test_the_site_builds_and_loads_nothing_from_outside(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = [path for kind in ("*.html", "*.css") for path in tmp_path.rglob(kind)]
    assert len(files) > len(PAGES)
    assert [path.name for path in files if OUTSIDE.search(path.read_text())] == []
    assert "<pre>" in (tmp_path / "reference" / "api.html").read_text()


@pytest.mark.parametrize(
    "line",
    [
        '<script async src="https://cdn.example/a.js">',
        "<link rel=stylesheet href=//fonts.example/css>",
        "src: url(https://fonts.example/a.woff2)",
    ],
)
def test_a_request_to_outside_is_detected(line):
    assert OUTSIDE.search(line)


def test_the_command_reference_is_current():
    assert (ROOT / "docs" / "reference" / "cli.md").read_text() == reference(), "run `make docs`"


def test_the_check_reference_is_current():
    assert (ROOT / "docs" / "reference" / "check.md").read_text() == rules_page(), "run `make docs`"


def test_the_profile_page_contains_the_profile():
    page = (ROOT / "docs" / "reference" / "profile.md").read_text()
    for setting in (*PROFILE, GC_OPTIONS):
        row = f"| `{setting.key}` | `{setting.shown}` | {setting.reason} |"
        assert row in page, "run `make docs`"


@pytest.mark.parametrize("page", ["reference/profile.md", "internals/ablations.md"])
def test_the_tables_of_the_profile_are_current(page, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    ablation = import_module("laboratory.ablation")
    text = (ROOT / "docs" / page).read_text()
    recorded = json.loads(ablation.RECORDED.read_text())
    assert "spark.sql.shuffle.partitions` |" in text
    assert text == ablation.written(text, recorded), "run `make docs`"


MODULES = [
    module.name
    for package in (eagre, eagre_bench)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if "__main__" not in module.name
    and not re.search(
        r"templates\.|plugin|_job$|transforms$|eagre_(python|operators)$", module.name
    )
]


LABORATORY = ["laboratory.ablation", "laboratory.boundary", "laboratory.readme_animation"]


@pytest.mark.parametrize("name", [*MODULES, *LABORATORY])
def test_docstring_examples(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    failed, _ = doctest.testmod(import_module(name))
    assert failed == 0
