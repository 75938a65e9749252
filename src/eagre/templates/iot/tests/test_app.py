"""The pipeline with a real broker and Spark, in micro-batch and real-time mode."""

import time
from datetime import UTC, datetime, timedelta
from random import Random

from app import judge, readings
from archive import archive
from generate import events, expects

import eagre as eg

START = datetime(2026, 1, 1, tzinfo=UTC)


def reading(number, value=20.0, device="d", **fields):
    at = (START + timedelta(seconds=number)).isoformat()
    return {"id": number, "device": device, "value": value, "at": at, "sent_us": number, **fields}


def steady(count, **fields):
    return [reading(n, 20.0 + n % 2, **fields) for n in range(count)]


def verdicts_of(results):
    return [row["verdict"] for row in results]


def with_silence(silence_ms):
    """Return the pipeline with another limit of silence."""

    @eg.pipeline(source=readings, sink=eg.Kafka(f"verdicts-{silence_ms}", key="device"))
    def judged(df):
        return judge(df, silence_ms)

    return judged


def test_a_reading_is_compared_with_earlier_ones(run_in_both_modes):
    rows = [*steady(30), reading(30, 26.0), reading(31, 21.0), reading(32, -9.0)]
    results = run_in_both_modes(judge, rows)
    assert verdicts_of(results) == ["learning"] * 20 + ["usual"] * 10 + [
        "unusual",
        "usual",
        "unusual",
    ]
    assert results[30]["sent_us"] == 30
    assert abs(results[30]["mean"] - 20.5) < 0.01
    assert abs(results[30]["deviation"] - 0.5) < 0.01


def test_a_new_level_becomes_usual_over_time(run_in_both_modes):
    rows = [*steady(50), *(reading(50 + n, 30.0 + n % 2) for n in range(150))]
    verdicts = verdicts_of(run_in_both_modes(judge, rows))
    assert set(verdicts[50:54]) == {"unusual"}
    assert set(verdicts[-20:]) == {"usual"}


def test_each_reading_counts_once_even_if_late(run_in_both_modes):
    rows = steady(25)
    results = run_in_both_modes(judge, [*rows[:20], rows[19], *rows[22:], rows[21], rows[20]])
    assert [row["sent_us"] for row in results] == [*range(20), 22, 23, 24, 21, 20]
    assert results[-1]["verdict"] == "usual"


def test_a_silent_device_is_reported_once_and_when_it_returns(run_in_both_modes, tmp_path):
    pipeline = with_silence(700)
    results = run_in_both_modes(
        pipeline,
        steady(3),
        checkpoint=tmp_path / "c",
        until=lambda results: "silent" in verdicts_of(results),
    )
    assert verdicts_of(results) == ["learning"] * 3 + ["silent"]
    assert (results[-1]["device"], results[-1].get("sent_us")) == ("d", None)
    again = [reading(9), reading(9, device="e")]
    results = run_in_both_modes(
        pipeline, again, checkpoint=tmp_path / "c", until=lambda results: len(results) == 4
    )
    by_device = {name: [r["verdict"] for r in results if r["device"] == name] for name in "de"}
    assert by_device == {"d": ["back", "silent"], "e": ["learning", "silent"]}


def test_a_pause_of_the_query_is_not_silence_of_devices(run_pipeline, tmp_path):
    pipeline = with_silence(20_000)
    both = [reading(1), reading(1, device="e")]
    assert verdicts_of(run_pipeline(pipeline, both, checkpoint=tmp_path / "c")) == ["learning"] * 2
    time.sleep(20.5)
    results = run_pipeline(pipeline, [reading(2)], checkpoint=tmp_path / "c")
    assert [(row["device"], row["verdict"]) for row in results] == [("d", "learning")]


def test_generated_events_give_the_expected_results(run_in_both_modes):
    rows, expected = [], 0
    for number, (_, event) in zip(range(3_000), events(Random(3)), strict=False):
        late = timedelta(milliseconds=event["late_ms"] - number)
        rows.append({**event, "at": (START - late).isoformat(), "sent_us": number})
        expected += expects(event)
    results = run_in_both_modes(judge, rows)
    assert len([row for row in results if row["verdict"] != "silent"]) == expected < 3_000
    faulty = {row["sent_us"] for row in rows if row["fault"]}
    unusual = {row["sent_us"] for row in results if row["verdict"] == "unusual"}
    assert unusual
    assert len(unusual - faulty) <= len(unusual) / 10


def test_the_archive_contains_every_judged_reading(eagre_harness, tmp_path):
    rows = [reading(n, device="archived") for n in range(10)]
    rows[4]["value"] = "n/a"
    judged = eagre_harness.run(judge, rows)
    places = (str(tmp_path / "archive"), str(tmp_path / "checkpoint"))
    for _ in range(2):
        now = {"availableNow": True}
        query = archive(eagre_harness.spark, eagre_harness.brokers, *places, now)
        assert query.awaitTermination(60)
    archived = eagre_harness.spark.read.parquet(places[0]).where("device = 'archived'").collect()
    assert sorted(row.id for row in archived) == sorted(row["sent_us"] for row in judged)
    assert {(row.value, str(row.day)) for row in archived} == {(20.0, "2026-01-01")}
