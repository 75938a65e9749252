"""The benchmark's machinery. Its reports show speed; these tests do not judge it."""

import json
import time
from importlib.resources import files

import jsonschema
import pytest

from eagre.trial.process import Command
from eagre_bench import sweep
from eagre_bench.campaign import Campaign, Options, control_of, gaps_ms
from eagre_bench.compare import compare
from eagre_bench.errors import BenchError
from eagre_bench.publish import publish
from eagre_bench.rates import find_rate
from eagre_bench.results import document, load_document, summary
from eagre_bench.systems import OPERATORS, SYSTEMS, Job, System
from eagre_bench.workload import names, workload

SCHEMA = json.loads((files("eagre_bench") / "schema.json").read_text())


class IdleSystem(System):
    """A system that is never started."""

    title = "idle"

    def __init__(self, name, *, forwards=False):
        self.name, self.forwards = name, forwards

    def settings(self, _: Job) -> dict[str, str]:
        return {"jars": "/a/b/one.jar,/c/two.jar"}

    def command(self, job: Job) -> Command:
        raise NotImplementedError


def figures(p50, **more):
    names_ = ("p50_ms", "p95_ms", "p99_ms", "p999_ms", "p9999_ms", "max_ms", "mean_ms")
    return {
        **dict.fromkeys(names_, p50),
        **dict.fromkeys(("lost", "repeated", "wrong", "negative"), 0),
        **dict.fromkeys(("cpu_s_per_million", "rss_mb", "start_s"), 10.0),
        "late_p99_ms": 1.0,
        "recovery_ms": None,
        "records": 100,
        "curve": [p50] * 3,
        "gaps_ms": [],
        "problems": [],
        **more,
    }


class Silent:
    """An observer that prints nothing."""

    def say(self, text):
        pass

    def begin(self, turn, number, of):
        pass

    second = end = say


def run_of(medians, rounds=2):
    """Return a run whose systems have these figures, round by round."""
    systems = [IdleSystem(name, forwards=name == "floor") for name in medians]
    left = {name: list(values) for name, values in medians.items()}
    campaign = Campaign([workload("count")], systems, rounds, Silent())
    trials = campaign.run(lambda _, system: figures(left[system.name].pop(0)))
    return document(Options(rounds), [workload("count")], systems, trials, {})


def test_a_run_is_interleaved_with_a_control():
    systems = [IdleSystem("floor", forwards=True), IdleSystem("eagre"), IdleSystem("flink")]
    campaign = Campaign([workload("count")], systems, 2, Silent())
    assert [(t.round, t.system.name, t.control) for t in campaign.turns()] == [
        (1, "floor", False),
        (1, "eagre", False),
        (1, "flink", False),
        (2, "flink", False),
        (2, "eagre", False),
        (2, "floor", False),
    ]
    once = Campaign([workload("count")], systems, 1, Silent())
    assert [(t.system.name, t.control) for t in once.turns()][-1] == ("eagre", True)
    assert len(list(once.turns(control=False))) == 3
    assert control_of([IdleSystem("floor", forwards=True), IdleSystem("quix")]).name == "quix"


def test_differences_within_the_control_do_not_count():
    run = run_of(
        {
            "floor": [1, 1],
            "eagre": [4, 6],
            "spark-micro-batch": [500, 700],
            "flink": [6, 6],
            "quix": [5.5, 5.5],
        }
    )
    jsonschema.validate(run, SCHEMA)
    assert run["control"]["count"]["noise"]["p50_ms"] == 1.5
    ratios = run["ratios"]["count"]["eagre"]
    assert ratios["spark-micro-batch"]["p50_ms"] == {
        "ratio": pytest.approx(120, 0.01),
        "differs": True,
    }
    assert ratios["flink"]["p50_ms"]["differs"] is False
    assert ratios["floor"]["p50_ms"]["differs"] is True
    assert run["results"]["count"]["eagre"]["p50_ms"] == 5
    assert run["results"]["count"]["eagre"]["spread"]["p50_ms"] == [4, 6]
    assert run["systems"]["flink"]["settings"] == {"jars": "one.jar, two.jar"}


def test_the_schema_rejects_an_incomplete_run():
    run = run_of({"eagre": [4, 4]})
    del run["results"]["count"]["eagre"]["p99_ms"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(run, SCHEMA)


def test_an_invalid_trial_is_excluded_from_the_medians():
    late = figures(50, problems=["the load generator was 40 ms late at p99"])
    medians = summary([figures(4), late, figures(6)])
    assert medians["p50_ms"] == 5
    assert medians["valid"]
    assert medians["problems"] == late["problems"]
    assert not summary([late])["valid"]
    wrong = figures(1, wrong=3, problems=["3 results were wrong"])
    assert not summary([figures(4), wrong])["valid"]
    assert not summary([{"failed": "it ended", "problems": ["it ended"]}])["valid"]


def test_a_gap_is_the_longest_wait_around_a_measured_checkpoint():
    waits = [4.0, 90.0, 5.0, 6.0, 7.0, 80.0, 8.0]
    series = [{"second": at, "max_ms": ms} for at, ms in enumerate(waits)]
    assert gaps_ms(series, [2.0, 2.999], 7) == [90.0, 90.0]
    assert gaps_ms(series, [3.0], 7) == [7.0]
    assert gaps_ms(series, [4.0, 6.9], 7) == [80.0, 80.0]
    assert gaps_ms(series, [0.0, -0.001, 7.0, 300.0], 7) == [90.0]
    assert gaps_ms([], [2.0], 7) == gaps_ms(series, [], 7) == []


def test_the_gap_is_the_median_over_the_boundaries_of_valid_trials():
    late = figures(9, gaps_ms=[900.0], problems=["the load generator was 40 ms late at p99"])
    medians = summary([figures(4, gaps_ms=[10.0, 30.0]), late, figures(4, gaps_ms=[70.0])])
    assert (medians["gap_ms"], medians["boundaries"]) == (30, 3)
    assert medians["spread"]["gap_ms"] == [10, 70]
    none = summary([figures(4)])
    assert (none["gap_ms"], none["boundaries"]) == (None, 0)
    assert "gap_ms" not in none["spread"]


def test_a_trial_with_a_late_generator_is_repeated_a_few_times():
    late = figures(5, problems=["the load generator was 40 ms late at p99"])
    asked = []
    campaign = Campaign([workload("count")], [IdleSystem("eagre"), IdleSystem("quix")], 2, Silent())
    campaign.run(lambda _, system: asked.append(system.name) or late)
    assert len(asked) == len(list(campaign.turns())) + 2


def test_runs_differ_only_beyond_their_controls():
    before = run_of({"eagre": [4, 5], "quix": [5, 5]})
    after = run_of({"eagre": [4.2, 4.2], "quix": [1, 1]})
    differences = compare(before, after)["count"]
    assert differences["eagre"]["p50_ms"]["verdict"] == "no difference"
    assert differences["quix"]["p50_ms"] == {
        "before": 5,
        "after": 1,
        "ratio": 0.2,
        "verdict": "better",
    }


def test_tables_are_published_between_their_markers(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- bench:count -->\nold\n<!-- /bench -->\nafter\n")
    run = run_of({"eagre": [4, 4], "spark-micro-batch": [400, 400]})
    assert publish(run, [readme, tmp_path / "missing.md"]) == [readme]
    text = readme.read_text()
    assert "old" not in text
    assert text.startswith("before\n<!-- bench:count -->\n| latency in ms |")
    assert text.endswith("<!-- /bench -->\nafter\n")
    assert "| `eagre` | 4.0 |" in text
    assert "100x / 100x" in text
    assert publish(run, [readme]) == []
    with pytest.raises(BenchError, match="NOWHERE_TO_PUBLISH"):
        publish(run, [tmp_path / "missing.md"])


def test_the_highest_rate_is_found():
    def system(limit):
        def measure(chosen):
            return figures(1 if chosen.rate <= limit else 200)

        return measure

    result = find_rate(workload("count"), system(10_000))
    assert 8000 <= result["max_rate"] <= 10_000
    assert [t["held"] for t in result["rates"]] == [True, True, True, *[False] * 4, True]
    assert result["generator_bound"] is False
    slow = find_rate(workload("count"), system(10))
    assert slow["max_rate"] == 0
    assert "not even" in slow["problems"][0]


def test_a_rate_that_fails_once_is_tried_again():
    stalls = iter([True, False])

    def measure(chosen):
        return figures(200 if chosen.rate > 2000 or next(stalls, False) else 1)

    result = find_rate(workload("count"), measure)
    assert [t["held"] for t in result["rates"][:4]] == [False, True, False, False]
    assert result["max_rate"] == 2000


def test_every_system_lists_its_settings():
    job = Job("count", "b", "in", "out", "g", 5000, 500, ".", "m.csv")
    for system in SYSTEMS.values():
        assert all(isinstance(value, str) for value in system.settings(job).values())


def test_every_operator_runs_its_workloads():
    for operator in OPERATORS.values():
        able = [name for name in names() if not operator.refusal(name)]
        assert sorted(able) == sorted(operator.workloads)
        assert {workload(name).rate for name in ("count", operator.workloads[0])} == {2000}


class FakeBench:
    """A bench that returns the figures of a function."""

    def __init__(self, measure):
        self._measure = measure

    def __call__(self, *_):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def measure(self, chosen, system, *, kill):
        assert not kill
        return self._measure(chosen, system)


def test_operators_are_compared_with_count_in_the_same_run(monkeypatch, tmp_path):
    asked, medians = [], {"eagre": [2, 4], "eagre-rolling": [4, 5], "eagre-lookup": [6, 6]}

    def measure(chosen, system):
        asked.append((chosen.name, system.name))
        assert chosen.warmup == 90
        wrong = system.name == "eagre-lookup"
        errors = {"wrong": 1, "problems": ["1 results were wrong"]} if wrong else {}
        return figures(medians[system.name].pop(0), **errors)

    monkeypatch.setattr(sweep, "Testbed", FakeBench(measure))
    plan = sweep.Sweep("operators", Options(rounds=2), "count", ["rolling", "lookup"])
    document = plan.run(tmp_path, Silent())
    jsonschema.validate(document, SCHEMA)
    order = [("count", "eagre"), ("count", "eagre-rolling"), ("enrich", "eagre-lookup")]
    assert asked == [*order, *order[::-1]]
    rolling, lookup = document["points"]
    assert (document["baseline"]["label"], document["baseline"]["p50_ms"]) == ("count", 3)
    assert (rolling["workload"], rolling["p50_ratio"], rolling["p99_ratio"]) == ("count", 1.5, 1.5)
    assert not lookup["valid"]
    assert "p50_ratio" not in lookup
    assert set(document["workloads"]) == {"count", "enrich"}
    assert set(document["systems"]) == set(medians)


def test_boundaries_are_compared_with_flink_in_the_same_run(monkeypatch, tmp_path):
    asked, prepared = [], []
    gaps = {"eagre": [30.0, 60.0, 90.0], "flink": [20.0]}

    def measure(chosen, system):
        asked.append((chosen.name, chosen.epoch, system.name))
        assert chosen.warmup == 45
        assert chosen.seconds == {"1 s": 30, "10 s": 210}[chosen.epoch]
        none = chosen.epoch == "1 s" and system.name == "flink"
        p50 = 6 if system.name == "eagre" else 4
        return figures(p50, gaps_ms=[] if none else gaps[system.name])

    monkeypatch.setattr(sweep, "Testbed", FakeBench(measure))
    monkeypatch.setattr(type(SYSTEMS["flink"]), "prepare", lambda *_: prepared.append("flink"))
    plan = sweep.Sweep("boundary", Options(rounds=2), None, ["10 s", "1 s"])
    document = plan.run(tmp_path, Silent())
    jsonschema.validate(document, SCHEMA)
    pairs = [(name, epoch) for name in ("stateless", "count") for epoch in ("10 s", "1 s")]
    order = [(*pair, name) for pair in pairs for name in ("eagre", "flink")]
    assert asked == [*order, *order[::-1]]
    assert prepared == ["flink"]
    assert [(p["workload"], p["label"], p["system"]) for p in document["points"]] == order
    ours, theirs, without, _ = document["points"][:4]
    assert (ours["gap_ms"], ours["boundaries"], theirs["gap_ms"]) == (60, 6, 20)
    assert [ours[name] for name in ("p50_ratio", "p99_ratio", "gap_ratio")] == [1.5, 1.5, 3.0]
    assert without["p50_ratio"] == 1.5
    assert "gap_ratio" not in without
    assert "p50_ratio" not in theirs
    assert document["workload"] == "stateless, count"


def test_boundaries_can_be_measured_longer(monkeypatch, tmp_path):
    asked = []

    def measure(chosen, _):
        asked.append((chosen.name, chosen.epoch, chosen.warmup, chosen.seconds))
        return figures(1)

    monkeypatch.setattr(sweep, "Testbed", FakeBench(measure))
    monkeypatch.setattr(type(SYSTEMS["flink"]), "prepare", lambda *_: None)
    options = Options(rounds=1, warmup=45.0, seconds=500.0)
    sweep.Sweep("boundary", options, "field", []).run(tmp_path, Silent())
    assert asked == [("field", "10 s", 45, 500)] * 2


@pytest.mark.long
def test_the_results_of_every_operator_are_correct(cli, tmp_path):
    cli.ok(
        *("bench", "sweep", "operators", "--rate", "300", "--warmup", "2", "--seconds", "4"),
        *("--out", str(tmp_path / "out")),
        timeout=900,
    )
    document = load_document(tmp_path / "out")
    jsonschema.validate(document, SCHEMA)
    assert [point["label"] for point in document["points"]] == list(OPERATORS)
    for point in (document["baseline"], *document["points"]):
        assert point["records"] > 0, point
        assert [point[n] for n in ("lost", "wrong", "repeated", "negative")] == [0] * 4, point


@pytest.mark.e2e
def test_a_run_from_the_command_line(cli, tmp_path):
    """A smoke test: two systems, a few seconds, everything from the load to the report."""
    began = time.time()
    done = cli.ok(
        *("bench", "run", "count", "--systems", "floor,eagre", "--rounds", "1", "--rate", "300"),
        *("--warmup", "2", "--seconds", "4", "--epoch", "5 s", "--out", str(tmp_path / "out")),
        *("--json", str(tmp_path / "run.json")),
        timeout=300,
    )
    document = load_document(tmp_path / "out")
    assert document == json.loads((tmp_path / "run.json").read_text())
    jsonschema.validate(document, SCHEMA)
    results = document["results"]["count"]
    for figures_ in results.values():
        assert figures_["records"] == 1200
        assert [figures_[n] for n in ("lost", "wrong", "repeated", "negative")] == [0] * 4
        assert figures_["cpu_s_per_million"] > 0
        assert figures_["rss_mb"] > 5
        assert figures_["p50_ms"] <= figures_["p99_ms"] <= figures_["max_ms"]
        assert set(figures_["links"]) == {"producer", "topic", "engine", "sink", "reader"}
    assert results["eagre"]["trials"][0]["checkpoints"]
    assert document["control"]["count"]["system"] == "eagre"
    assert document["options"]["epoch"] == "5 s"
    report = tmp_path / "out" / "report.html"
    assert report.stat().st_mtime >= began
    assert "<svg" in report.read_text()
    assert "eagre again (A/A control)" in done.stderr
    assert "about" in done.stderr
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["bench.json", "logs", "report.html"]


@pytest.mark.parametrize("left", ["bench.json", "logs", "state"])
def test_the_output_of_another_run_is_not_overwritten(call, tmp_path, left):
    (tmp_path / "out" / left).mkdir(parents=True)
    again = call("bench", "run", "count", "--out", str(tmp_path / "out"))
    assert again.code == 1
    assert "OUT_TAKEN" in again.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("run", "nonsense"), "WORKLOAD_UNKNOWN"),
        (("run", "field", "--systems", "nonsense"), "SYSTEM_UNKNOWN"),
        (("run", "python-map", "--systems", "flink"), "NOTHING_TO_MEASURE"),
        (("run", "field", "--epoch", "often"), "INTERVAL_MALFORMED"),
        (("run", "field", "--rate", "0"), "--rate must be above zero"),
        (("compare", "no.json", "none.json"), "REPORT_UNREADABLE"),
        (("publish",), "NO_RUN"),
        (("sweep", "trigger", "--points", "soon"), "INTERVAL_MALFORMED"),
        (("sweep", "operators", "--points", "sort"), "OPERATOR_UNKNOWN"),
        (("sweep", "boundary", "--points", "soon"), "INTERVAL_MALFORMED"),
        (("sweep", "boundary", "--workload", "nonsense"), "WORKLOAD_UNKNOWN"),
        (("sweep", "boundary", "--workload", "python-map"), "NOTHING_TO_MEASURE"),
        (("sweep", "operators", "--workload", "field"), "each operator has its own workload"),
    ],
)
def test_invalid_arguments_are_refused(call, args, message):
    done = call("bench", *args)
    assert done.code != 0
    assert message in done.err
    assert "starting Kafka" not in done.err


def test_the_list_shows_which_system_runs_which_workload(cli):
    listed = json.loads(cli.ok("bench", "list", "--json", "-").stdout)
    assert set(listed) == set(names())
    assert listed["python-map"]["flink"]
    assert listed["field"]["flink"] == ""
    text = cli.ok("bench", "list").stdout
    assert all(name in text for name in (*names(), *SYSTEMS))
