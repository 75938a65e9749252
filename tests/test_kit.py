"""The shipped test kit: waiting for timers, limits on slow machines, start-up messages."""

import subprocess
import sys

import pytest

import eagre as eg
from eagre import waiting
from eagre.testing import harness


def visits(name):
    @eg.pipeline(source=eg.Kafka(f"{name}-in", schema="user STRING"), sink=eg.Kafka(f"{name}-out"))
    def sessions(df):
        return eg.session_windows(df, "user", "600 ms", ["count"], grace="300 ms")

    return sessions


def final(rows):
    return [row for row in rows if row["status"] == "final"]


def test_a_run_waits_for_timers(run_in_both_modes, tmp_path):
    pipeline = visits("kit-until")
    rows = [{"user": "u"}] * 2
    results = run_in_both_modes(pipeline, rows, checkpoint=tmp_path / "c", until=final)
    assert [(row["status"], row["count"]) for row in results] == [
        ("open", 1),
        ("open", 2),
        ("final", 2),
    ]
    again = run_in_both_modes(pipeline, [{"user": "v"}], checkpoint=tmp_path / "c", until=final)
    assert {row["user"] for row in again} == {"v"}, "the awaited results are committed"


def test_missing_results_are_reported(run_pipeline, monkeypatch):
    monkeypatch.setattr(harness, "TIMEOUT_SECONDS", 2)
    with pytest.raises(TimeoutError, match="results awaited did not come within 2 s"):
        run_pipeline(visits("kit-never"), [{"user": "u"}], until=lambda _: False)


def test_every_limit_of_a_run_grows_on_a_slow_machine(run_pipeline, monkeypatch):
    """Writing rows, the end of the query, reading results."""
    monkeypatch.setattr(harness, "TIMEOUT_SECONDS", 0.001)
    monkeypatch.setattr(waiting, "machine_slowness", lambda: 100_000.0)

    @eg.pipeline(source=eg.Kafka("kit-slow-in", schema="n INT"), sink=eg.Kafka("kit-slow-out"))
    def same(df):
        return df

    rows = [{"n": n} for n in range(1000)]
    assert run_pipeline(same, rows, mode="available-now") == rows


@pytest.mark.e2e
def test_the_kits_broker_prints_its_progress(pytester_said):
    assert "eagre: starting Kafka on 127.0.0.1" in pytester_said


@pytest.fixture
def pytester_said(tmp_path):
    """Return the output of a test whose broker starts slowly."""
    (tmp_path / "test_one.py").write_text("def test_it(eagre_broker): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-c", "/dev/null", "test_one.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr
