"""What the documentation says is so: its code runs, its commands exist, its tables are current."""

import doctest
import pkgutil
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import eagre
from eagre.cli import eagre as command_line
from eagre.cli.reference import reference
from eagre.preflight.reference import page as rules_page
from eagre.profile import COLLECTOR, PROFILE

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language="", text=README):
    """The code blocks of a language; every other part between fences is code."""
    fenced = re.split(r"^```(.*)\n", text, flags=re.MULTILINE)
    opened = zip(fenced[1::4], fenced[2::4], strict=True)
    return [code for name, code in opened if name == language]


def test_the_readme_pipeline_passes_the_readme_test(tmp_path):
    pipeline, _, _, test, _ = blocks("python")
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


def test_the_page_about_operators_runs(run_pipeline):
    scope = {}
    for code in blocks("python", (ROOT / "docs" / "operators.md").read_text()):
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
    found = run("sprees", payment, later)
    assert [(row["status"], row["count"]) for row in found] == [
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


def test_the_page_about_python_runs(run_in_both_modes):
    scope = {}
    for code in blocks("python", (ROOT / "docs" / "python.md").read_text()):
        exec(code, scope)  # noqa: S102  (our own page)
    rows = [{"card": "c", "amount": 5000.0, "country": "DE"}]
    assert run_in_both_modes(scope["score"], rows)[0]["risk"] == 0.9
    assert scope["inference"].function([5000.0, 1.0]) == [0.9, 0.1]
    visits = run_in_both_modes(scope["visits"], [{"user": "u", "page": "p"}] * 2)
    assert [row["n"] for row in visits] == [1, 2]


def test_the_page_about_the_page_promises():
    scope = {}
    for code in blocks("python", (ROOT / "docs" / "page.md").read_text()):
        exec(code, scope)  # noqa: S102  (our own page)
    assert (scope["score"].slo.percentile, scope["score"].slo.within_ms) == (99.0, 100)


def test_the_page_about_databases_declares_pipelines(eagre_spark):
    scope = {}
    for code in blocks("python", (ROOT / "docs" / "databases.md").read_text()):
        exec(code, scope)  # noqa: S102  (our own page)
    for name in ("last_payment", "totals"):
        writer = scope[name].writer(eagre_spark, checkpoint="c", brokers="127.0.0.1:9092")
        assert scope[name].sink.keys == ("card",)
        assert writer is not None


def test_the_readmes_plain_pyspark_runs(eagre_harness, tmp_path):
    for topic in ("payments", "large"):
        if topic not in eagre_harness.topics.names():
            eagre_harness.topics.create(topic, 1)
    scope = {"brokers": eagre_harness.brokers, "checkpoint": str(tmp_path)}
    exec(blocks("python")[4], scope)  # noqa: S102  (our own README)
    try:
        assert scope["query"].isActive
    finally:
        scope["query"].stop()


def commands():
    for block in blocks():
        for line in block.splitlines():
            for part in line.split("#")[0].split("|"):
                if part.strip().startswith("eagre "):
                    yield part.strip()


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_the_readmes_commands_exist(line):
    words = shlex.split(line)[1:]
    command = command_line
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(line, words)


def test_the_command_reference_is_current():
    assert (ROOT / "docs" / "cli.md").read_text() == reference(), "run `make docs`"


def test_the_page_of_the_rules_is_current():
    assert (ROOT / "docs" / "check.md").read_text() == rules_page(), "run `make docs`"


def test_the_profile_page_holds_the_profile():
    page = (ROOT / "docs" / "profile.md").read_text()
    for setting in (*PROFILE, COLLECTOR):
        row = f"| `{setting.key}` | `{setting.shown}` | {setting.reason} |"
        assert row in page, "run `make profile`"


MODULES = [
    module.name
    for module in pkgutil.walk_packages(eagre.__path__, "eagre.")
    if "__main__" not in module.name
    and not re.search(
        r"templates\.|plugin|_job$|transforms$|eagre_(python|operators)$", module.name
    )
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    failed, _ = doctest.testmod(import_module(name))
    assert failed == 0
