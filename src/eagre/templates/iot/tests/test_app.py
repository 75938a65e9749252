"""The pipeline on a real broker and a real Spark, in micro-batches and in real time."""

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


def told(found):
    return [row["verdict"] for row in found]


def impatient(silence_ms):
    """The pipeline, with devices that may not be silent for as long."""

    @eg.pipeline(source=readings, sink=eg.Kafka(f"verdicts-{silence_ms}", key="device"))
    def hasty(df):
        return judge(df, silence_ms)

    return hasty


def test_a_reading_is_judged_by_those_before_it(run_in_both_modes):
    rows = [*steady(30), reading(30, 26.0), reading(31, 21.0), reading(32, -9.0)]
    found = run_in_both_modes(judge, rows)
    assert told(found) == ["learning"] * 20 + ["usual"] * 10 + ["unusual", "usual", "unusual"]
    assert found[30]["sent_us"] == 30
    assert abs(found[30]["mean"] - 20.5) < 0.01
    assert abs(found[30]["deviation"] - 0.5) < 0.01


def test_a_fault_does_not_become_usual_at_once_but_a_new_level_does(run_in_both_modes):
    rows = [*steady(50), *(reading(50 + n, 30.0 + n % 2) for n in range(150))]
    verdicts = told(run_in_both_modes(judge, rows))
    assert set(verdicts[50:54]) == {"unusual"}
    assert set(verdicts[-20:]) == {"usual"}


def test_each_reading_counts_once_and_late_ones_count(run_in_both_modes):
    rows = steady(25)
    found = run_in_both_modes(judge, [*rows[:20], rows[19], *rows[22:], rows[21], rows[20]])
    assert [row["sent_us"] for row in found] == [*range(20), 22, 23, 24, 21, 20]
    assert found[-1]["verdict"] == "usual"


def test_a_device_that_falls_silent_is_missed_once_and_comes_back(run_in_both_modes, tmp_path):
    pipeline = impatient(700)
    found = run_in_both_modes(
        pipeline, steady(3), checkpoint=tmp_path / "c", until=lambda found: "silent" in told(found)
    )
    assert told(found) == ["learning"] * 3 + ["silent"]
    assert (found[-1]["device"], found[-1].get("sent_us")) == ("d", None)
    again = [reading(9), reading(9, device="e")]
    found = run_in_both_modes(
        pipeline, again, checkpoint=tmp_path / "c", until=lambda found: len(found) == 4
    )
    by_device = {name: [r["verdict"] for r in found if r["device"] == name] for name in "de"}
    assert by_device == {"d": ["back", "silent"], "e": ["learning", "silent"]}


def test_a_standstill_of_the_query_is_no_silence_of_its_devices(run_pipeline, tmp_path):
    pipeline = impatient(20_000)
    both = [reading(1), reading(1, device="e")]
    assert told(run_pipeline(pipeline, both, checkpoint=tmp_path / "c")) == ["learning"] * 2
    time.sleep(20.5)
    found = run_pipeline(pipeline, [reading(2)], checkpoint=tmp_path / "c")
    assert [(row["device"], row["verdict"]) for row in found] == [("d", "learning")]


def test_what_is_generated_gives_what_it_says(run_in_both_modes):
    rows, expected = [], 0
    for number, (_, event) in zip(range(3_000), events(Random(3)), strict=False):
        late = timedelta(milliseconds=event["late_ms"] - number)
        rows.append({**event, "at": (START - late).isoformat(), "sent_us": number})
        expected += expects(event)
    found = run_in_both_modes(judge, rows)
    assert len([row for row in found if row["verdict"] != "silent"]) == expected < 3_000
    faulty = {row["sent_us"] for row in rows if row["fault"]}
    unusual = {row["sent_us"] for row in found if row["verdict"] == "unusual"}
    assert unusual
    assert len(unusual - faulty) <= len(unusual) / 10


def test_the_archive_holds_what_the_pipeline_judged(eagre_harness, tmp_path):
    rows = [reading(n, device="kept") for n in range(10)]
    rows[4]["value"] = "n/a"
    judged = eagre_harness.run(judge, rows)
    places = (str(tmp_path / "archive"), str(tmp_path / "checkpoint"))
    for _ in range(2):
        now = {"availableNow": True}
        query = archive(eagre_harness.spark, eagre_harness.brokers, *places, now)
        assert query.awaitTermination(60)
    kept = eagre_harness.spark.read.parquet(places[0]).where("device = 'kept'").collect()
    assert sorted(row.id for row in kept) == sorted(row["sent_us"] for row in judged)
    assert {(row.value, str(row.day)) for row in kept} == {(20.0, "2026-01-01")}
