"""The shipped test kit: that it waits for timers, and says so when they do not ring."""

import pytest

import eagre as eg
from eagre.testing import harness


def visits(name):
    @eg.pipeline(source=eg.Kafka(f"{name}-in", schema="user STRING"), sink=eg.Kafka(f"{name}-out"))
    def sessions(df):
        return eg.session_windows(df, "user", "600 ms", ["count"], grace="300 ms")

    return sessions


def final(rows):
    return [row for row in rows if row["status"] == "final"]


def test_a_run_goes_on_until_timers_have_rung(run_in_both_modes, tmp_path):
    pipeline = visits("kit-until")
    rows = [{"user": "u"}] * 2
    found = run_in_both_modes(pipeline, rows, checkpoint=tmp_path / "c", until=final)
    assert [(row["status"], row["count"]) for row in found] == [
        ("open", 1),
        ("open", 2),
        ("final", 2),
    ]
    again = run_in_both_modes(pipeline, [{"user": "v"}], checkpoint=tmp_path / "c", until=final)
    assert {row["user"] for row in again} == {"v"}, "what was awaited is committed"


def test_what_never_comes_is_said(run_pipeline, monkeypatch):
    monkeypatch.setattr(harness, "TIMEOUT_SECONDS", 2)
    with pytest.raises(TimeoutError, match="results awaited did not come within 2 s"):
        run_pipeline(visits("kit-never"), [{"user": "u"}], until=lambda _: False)
