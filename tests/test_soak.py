"""The logic of ``make soak``: trends, verdicts, expectations, and the tracker of results."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from soak.delivery_tracker import RETAINED_SECONDS, SETTLING_SECONDS, DeliveryTracker
from soak.expectations import Incidents
from soak.faults import KINDS, plan
from soak.jvm import live_heap
from soak.record import SAMPLES, Record, read
from soak.report import report
from soak.trend import Point, trend
from soak.verdict import RESOURCES, judge

ROOT = Path(__file__).parents[1]
SECOND = 1_000_000
HOURS = 4
MINUTES = [minute / 60 for minute in range(1, HOURS * 60 + 1)]
COUNTS = {
    **dict.fromkeys(("sent", "expected", "answered", "results"), 9),
    **dict.fromkeys(("missing", "repeated", "unexplained"), 0),
    **dict.fromkeys(("broken", "dead_letters", "kills", "restarts"), 1),
    "examples": [],
}


HISTOGRAM = """\
 num     #instances         #bytes  class name (module)
-------------------------------------------------------
   1:        150000       30000000  [B (java.base@25.0.3)
   2:            12        7340032  [Ljdk.internal.vm.FillerElement; (java.base@25.0.3)
   3:            50           1600  jdk.internal.vm.FillerObject (java.base@25.0.3)
   4:         90000        2100000  java.lang.String (java.base@25.0.3)
Total        240062       39441632
"""


def test_what_a_collection_leaves_between_objects_is_not_alive():
    values, classes = live_heap(HISTOGRAM)
    assert values == {"jvm.live_heap_mb": 32_100_000 / (1 << 20)}
    assert classes == {"[B": 30_000_000, "java.lang.String": 2_100_000}
    assert live_heap("") == ({}, {})


def noisy(value, seed=1, noise=5.0):
    pick = random.Random(seed)
    return [Point(hour, value(hour) + pick.gauss(0, noise), "1") for hour in MINUTES]


def soaked(values, *, pipeline="iot", life=lambda _: "1", more=()):
    """Return the lines of a soak in which a pipeline's resources have these values."""
    samples = [
        {
            "kind": "sample",
            "hours": hour,
            "pipeline": pipeline,
            "values": {name: value(hour) for name, value in values.items()},
            "lives": dict.fromkeys(values, life(hour)),
        }
        for hour in MINUTES
    ]
    return [*samples, *more]


def verdict_on(name, value, **options):
    (growth,) = judge(soaked({name: value}, **options)).growths
    return growth.verdict


def test_a_slope_is_found_in_noise_and_outliers_do_not_move_it():
    points = noisy(lambda hour: 100 + 10 * hour)
    outliers = [p._replace(value=10_000) if n % 20 == 0 else p for n, p in enumerate(points)]
    for series in (points, outliers):
        found = trend(series)
        assert found.low < 10 < found.high
        assert found.slope == pytest.approx(10, abs=1.5)


def test_the_interval_holds_the_true_slope_of_noise_without_a_trend():
    misses = [
        not (found.low <= 0 <= found.high)
        for found in (trend(noisy(lambda _: 100, seed)) for seed in range(100))
    ]
    assert sum(misses) <= 4


def test_restarts_are_no_trend_and_hide_none():
    saw = [Point(hour, 500 + 30 * (hour % 1), str(int(hour))) for hour in MINUTES]
    falling = [Point(hour, 500 - 50 * int(hour), str(int(hour))) for hour in MINUTES]
    assert trend(saw).slope == pytest.approx(30)
    assert trend(falling).slope == 0


def test_a_season_is_no_trend_and_hides_none():
    sawtooth = [Point(hour, 100 * (hour % 1)) for hour in MINUTES]
    rising = [Point(hour, 100 * (hour % 1) + 7 * hour) for hour in MINUTES]
    assert trend(sawtooth, season_hours=1).slope == pytest.approx(0, abs=1e-6)
    assert trend(rising, season_hours=1).slope == pytest.approx(7)


def test_too_few_points_have_no_trend():
    assert trend([Point(hour, 1.0, str(hour)) for hour in MINUTES]) is None


def test_a_leak_fails_the_soak_with_its_name_and_its_value_after_a_month():
    verdict = judge(soaked({"jvm.threads": lambda hour: 80 + 3 * hour, "jvm.fds": lambda _: 200}))
    assert verdict.problems == ["iot jvm.threads grows by 3 /h"]
    growth = next(g for g in verdict.growths if g.verdict == "grows")
    assert growth.in_a_month == pytest.approx(80 + 3 * (720 + 4), rel=0.01)
    assert "FAILED" in report(verdict)
    assert "| iot | jvm.threads |" in report(verdict)


def test_the_warm_up_of_a_short_soak_is_no_leak():
    short = [line for line in soaked({"jvm.fds": lambda hour: 900 * hour}) if line["hours"] < 0.5]
    (growth,) = judge(short).growths
    assert (growth.verdict, round(growth.trend.slope)) == ("open", 900)


def test_growth_that_fades_is_not_called_a_leak():
    assert verdict_on("jvm.metaspace_mb", lambda hour: 100 - 50 * 0.2**hour) == "open"
    assert verdict_on("jvm.metaspace_mb", lambda hour: 100 - 50 * 0.001**hour) == "bounded"


def test_a_warm_up_after_each_restart_does_not_count():
    def value(hour):
        return 200 - 100 * max(0, 0.4 - hour % 2)

    assert verdict_on("jvm.native_mb", value, life=lambda hour: str(int(hour // 2))) == "bounded"


def test_state_that_an_hour_fills_and_drops_is_bounded():
    assert verdict_on("checkpoint.mb", lambda hour: hour % 1, pipeline="leaderboard") == "bounded"
    assert verdict_on("checkpoint.mb", lambda hour: hour % 1 + hour, pipeline="leaderboard") == (
        "grows"
    )


def test_logs_may_grow_up_to_their_limit():
    limit = next(r.limit for r in RESOURCES if r.name == "logs.mb")
    assert verdict_on("logs.mb", lambda hour: 10 * hour) == "bounded"
    assert verdict_on("logs.mb", lambda _: limit + 1) == "grows"


def test_latency_that_drifts_fails():
    assert verdict_on("latency.p50_ms", lambda hour: 10 + hour) == "grows"
    assert verdict_on("latency.p50_ms", lambda _: 10) == "bounded"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (
            {"missing": 2, "examples": [[0, 7], [0, 9]]},
            "2 results are missing, such as that of 0/7",
        ),
        ({"unexplained": 1}, "1 results were repeated although nothing was killed"),
        ({"broken": 3}, "2 dead letters are missing"),
        ({"restarts": 3}, "restarted 2 times more often than it was killed"),
        ({"answered": 0}, "no event had a result"),
    ],
)
def test_wrong_counts_fail(wrong, problem):
    counts = {"kind": "counts", "hours": 4, "pipeline": "iot", **COUNTS}
    assert judge(soaked({}, more=[counts])).problems == []
    (found,) = judge(soaked({}, more=[{**counts, **wrong}])).problems
    assert problem in found


def test_results_are_matched_with_events_in_any_order():
    tracker = DeliveryTracker()
    tracker.receive((0, 1), b"early", 5 * SECOND)
    tracker.deliver((0, 1), 4 * SECOND, expected=True)
    tracker.deliver((0, 2), 4 * SECOND, expected=True)
    tracker.deliver((0, 3), 4 * SECOND, expected=False, broken=True)
    assert (tracker.answered, tracker.expected, tracker.broken) == (1, 2, 1)
    assert tracker.missing() == [(0, 2)]
    assert tracker.waiting(8 * SECOND) == 0
    assert tracker.waiting(10 * SECOND) == 1
    window = tracker.window()
    assert (window.records, round(window.p50_ms)) == (1, 1000)


def test_several_results_of_an_event_are_no_repeats_but_equal_ones_are():
    tracker = DeliveryTracker()
    tracker.deliver((0, 1), SECOND, expected=True)
    for value in (b"rank 1", b"rank 2", b"rank 1"):
        tracker.receive((0, 1), value, 2 * SECOND)
    assert (tracker.repeated, tracker.unexplained) == (1, 1)


def test_a_kill_explains_repeats_until_the_pipeline_has_recovered():
    tracker = DeliveryTracker()
    tracker.deliver((0, 1), 100 * SECOND, expected=True)
    tracker.receive((0, 1), b"a", 101 * SECOND)
    tracker.disturb(102 * SECOND, explains_repeats=True)
    tracker.receive((0, 1), b"a", 120 * SECOND)
    assert (tracker.repeated, tracker.unexplained) == (1, 0)
    tracker.settle(130 * SECOND)
    tracker.receive((0, 1), b"a", (131 + SETTLING_SECONDS) * SECOND)
    assert (tracker.repeated, tracker.unexplained) == (2, 1)


def test_latencies_around_a_fault_do_not_count_and_the_first_result_after_it_is_noted():
    tracker = DeliveryTracker()
    tracker.disturb(100 * SECOND, explains_repeats=False)
    tracker.deliver((0, 1), 101 * SECOND, expected=True)
    tracker.receive((0, 1), b"a", 110 * SECOND)
    assert tracker.resumed_us == 110 * SECOND
    assert tracker.window().records == 0


def test_a_result_of_a_forgotten_event_is_repeated():
    tracker = DeliveryTracker()
    tracker.deliver((0, 1), SECOND, expected=True)
    tracker.deliver((0, 2), SECOND, expected=True)
    tracker.receive((0, 1), b"a", 2 * SECOND)
    later = (RETAINED_SECONDS + 10) * SECOND
    tracker.forget(later)
    assert tracker.missing() == [(0, 2)]
    tracker.receive((0, 1), b"a", later)
    tracker.forget(2 * later)
    assert tracker.repeated == 1


def test_an_incident_near_the_limit_of_silence_expects_nothing():
    rule = Incidents()
    ill = {"service": "a", "metric": None, "message": "worker 7 died", "value": None, "news": True}
    found = [rule({**ill, "at": f"2026-01-01T00:{at}Z"}) for at in ("00:00", "05:00", "05:01")]
    assert found == [True, False, False]


def test_a_seed_gives_the_same_faults_of_every_kind_on_every_pipeline():
    options = {"seconds": 7_200, "every": 300, "seed": 7}
    faults = plan(["a", "b", "c"], ["c"], **options)
    assert faults == plan(["a", "b", "c"], ["c"], **options)
    assert {fault.kind for fault in faults} == set(KINDS)
    assert {fault.pipeline for fault in faults} == {"a", "b", "c"}
    assert faults != plan(["a", "b", "c"], ["c"], **{**options, "seed": 8})
    assert plan(["a"], [], **{**options, "every": 0}) == []


def test_the_report_is_made_again_from_the_record(tmp_path):
    record = Record(tmp_path)
    for line in soaked({"jvm.fds": lambda hour: 100 + 5 * hour, "jvm.threads": lambda _: 50}):
        record.add(line.pop("kind"), line.pop("hours"), **line)
    record.close()
    with (tmp_path / SAMPLES).open("a") as file:
        file.write('{"kind": "sam')
    assert len(list(read(tmp_path))) == len(MINUTES)
    done = subprocess.run(
        [sys.executable, "-m", "soak", "--report", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "iot jvm.fds grows by 5 /h" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "soak.svg").exists()


@pytest.mark.long
def test_a_short_soak_with_a_kill(tmp_path):
    folder = tmp_path / "soak"
    options = ["--pipeline", "trading", "--hours", "0.04", "--sample", "5", "--inspect", "0.25"]
    options += ["--faults", "0.9", "--seed", "3", "--folder", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "soak", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    lines = list(read(folder))
    assert not [line for line in lines if line["kind"] == "problem"], done.stdout + done.stderr
    (counts,) = [line for line in lines if line["kind"] == "counts"]
    assert counts["missing"] == counts["unexplained"] == 0
    assert counts["answered"] == counts["expected"] > 1_000
    assert [line for line in lines if line["kind"] == "fault"]
    measured = {name for line in lines if line["kind"] == "sample" for name in line["values"]}
    assert measured >= {resource.name for resource in RESOURCES}
