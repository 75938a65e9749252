"""The pipeline with a real broker and Spark, in micro-batch and real-time mode."""

from datetime import UTC, datetime, timedelta
from random import Random

from app import incidents
from generate import events, expects

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(second, **fields):
    at = (START + timedelta(seconds=second)).isoformat()
    usual = {"cluster": "eu", "service": "checkout", "host": "h1", "level": "ERROR"}
    return {**usual, "message": "timeout after 7 ms", "sent_us": 1, "at": at, **fields}


def messages(results):
    return [(row["service"], row["alert"], row["news"], row["records"]) for row in results]


def test_a_thousand_errors_are_one_incident(run_in_both_modes):
    rows = [record(n, message=f"timeout after {n} ms", host=f"h{n % 3}") for n in range(101)]
    results = run_in_both_modes(incidents, rows)
    assert messages(results) == [
        ("checkout", "timeout after # ms", news, records)
        for news, records in [("opened", 1), ("worse", 10), ("worse", 100)]
    ]
    assert [row["hosts"] for row in results] == [1, 3, 3]
    assert {row["since"][:19] for row in results} == {"2026-01-01T00:00:00"}


def test_late_and_duplicate_records_are_not_reported_twice(run_in_both_modes):
    rows = [record(n) for n in range(12)]
    Random(1).shuffle(rows)
    results = run_in_both_modes(incidents, [*rows, *rows[:3]])
    assert [(row["news"], row["records"]) for row in results] == [("opened", 1), ("worse", 10)]


def test_an_incident_ends_after_a_gap_and_a_new_one_opens(run_in_both_modes):
    rows = [record(0), record(1), record(400)]
    results = sorted(run_in_both_modes(incidents, rows), key=lambda row: row["since"])
    assert [(row["news"], row["records"]) for row in results if row["news"] == "over"] == [
        ("over", 2)
    ]
    assert [row["since"][14:19] for row in results if row["news"] == "opened"] == ["00:00", "06:40"]
    assert {row["news"]: row.get("sent_us") for row in results} == {"opened": 1, "over": None}


def test_services_and_errors_are_separate_incidents(run_in_both_modes):
    rows = [record(0), record(1, service="search"), record(2, message="no such session: 9")]
    rows += [record(3, level="FATAL", message="worker 3 is out of memory")]
    results = run_in_both_modes(incidents, rows)
    assert len({row[:2] for row in messages(results)}) == 4
    assert {row["news"] for row in results} == {"opened"}
    severe = [row["alert"] for row in results if row["severity"] == "critical"]
    assert severe == ["worker # is out of memory"]


def test_metrics_above_their_limit_are_reported(run_in_both_modes):
    metric = {"level": None, "message": None, "metric": "cpu"}
    rows = [record(n, **metric, value=value) for n, value in enumerate([0.5, 0.9, 0.95])]
    rows += [record(5, level="INFO"), record(6, **metric, value="n/a")]
    [row] = run_in_both_modes(incidents, rows)
    assert (row["alert"], row["worst"], row["since"][17:19]) == ("cpu above 0.9", 0.95, "02")


def test_generated_events_give_the_expected_results(run_in_both_modes):
    rows, expected = [], 0
    for number, (_, event) in zip(range(3_000), events(Random(3)), strict=False):
        late = timedelta(milliseconds=event["late_ms"] - number)
        rows.append({**event, "at": (START - late).isoformat(), "sent_us": number})
        expected += expects(event)
    results = run_in_both_modes(incidents, rows)
    assert len(results) == expected
    assert {row["news"] for row in results} == {"opened", "worse"}
