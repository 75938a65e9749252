"""The benchmark's machinery; its speed is shown by its reports, never judged here."""

import json
import subprocess
import sys
import time
from importlib.resources import files
from itertools import islice

import jsonschema
import psutil
import pytest

from eagre.errors import TrialError
from eagre.trial.load import Load
from eagre.trial.meter import Measurement, Meter
from eagre.trial.process import Command, ProcessUnderTest
from eagre.waiting import machine_slowness, wait_until
from eagre_bench import sweep
from eagre_bench.campaign import Campaign, Options, control_of, gaps_ms, problems
from eagre_bench.compare import compare
from eagre_bench.errors import BenchError
from eagre_bench.publish import publish
from eagre_bench.rates import find_rate
from eagre_bench.results import document, links, load_document, summary
from eagre_bench.systems import OPERATORS, SYSTEMS, Job, System
from eagre_bench.workload import MERCHANTS, merchants, names, workload

SCHEMA = json.loads((files("eagre_bench") / "schema.json").read_text())
BEGIN_US = 1_794_700_000_000_000
RATE, WARMUP, SECONDS = 100, 1, 2
LATENCY_US = 5_000


def measurement(name, **more):
    load = Load("", "events", workload(name).reference, RATE, WARMUP + SECONDS, BEGIN_US)
    from_us = BEGIN_US + WARMUP * 1_000_000
    return Measurement(load, "results", {0: 0}, from_us, from_us + SECONDS * 1_000_000, **more)


def answers(what):
    """What a right system answers, each with the time it would be received."""
    semantics, states = what.load.source.semantics, {}
    for key, event, due in what.load.feed():
        for result in semantics.step(states.setdefault(key, {}), event, merchants()):
            yield result, due + LATENCY_US


def judged(what, given):
    judge = what.judge()
    for result, received in given:
        judge.take(json.dumps(result).encode(), received, received // 1000)
    return judge


@pytest.mark.parametrize("name", names())
def test_right_answers_are_found_right(name):
    what = measurement(name)
    judge = judged(what, answers(what))
    verdict = judge.verdict()
    assert judge.complete()
    assert {n: verdict[n] for n in ("lost", "wrong", "repeated", "negative")} == {
        "lost": 0,
        "wrong": 0,
        "repeated": 0,
        "negative": 0,
    }
    assert 0 < verdict["records"] <= RATE * SECONDS
    assert verdict["p50_ms"] == pytest.approx(5, rel=0.01)
    assert sum(second["records"] for second in verdict["series"]) == verdict["records"]
    assert problems({**verdict, "late_p99_ms": 0}) == []


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(
    ("cheat", "told"),
    [("drops", "lost"), ("repeats", "repeated"), ("alters", "wrong"), ("invents", "wrong")],
)
def test_a_cheat_is_caught(name, cheat, told):
    what = measurement(name)
    given = list(answers(what))
    last = given[-1]
    value = next(n for n in reversed(last[0]) if n not in workload(name).semantics.slot)
    cheats = {
        "drops": given[:-1],
        "repeats": [*given, last],
        "alters": [*given[:-1], ({**last[0], value: "?"}, last[1])],
        "invents": [*given, ({**last[0], workload(name).semantics.slot[0]: "new"}, last[1])],
    }
    verdict = judged(what, cheats[cheat]).verdict()
    assert verdict[told] == 1
    assert problems({**verdict, "late_p99_ms": 0}) != []


def test_an_answer_before_its_event_is_counted():
    what = measurement("field")
    early = [(result, received - 2 * LATENCY_US) for result, received in answers(what)]
    verdict = judged(what, early).verdict()
    assert verdict["negative"] == RATE * SECONDS
    assert "results came before their event" in problems({**verdict, "late_p99_ms": 0})[0]


def test_no_json_is_no_answer():
    judge = measurement("field").judge()
    judge.take(b"\xff{", BEGIN_US, 0)
    judge.take(b"[1]", BEGIN_US, 0)
    assert judge.wrong == 2
    assert len(judge.verdict()["wrong_examples"]) == 2


def test_a_newer_result_stands_for_the_older_ones_of_its_key():
    """As a micro-batch gives them: each event counts until its effect has arrived."""
    what = measurement("count")
    newest = {result["card"]: result for result, _ in answers(what)}
    end = what.until_us + 1_000_000
    verdict = judged(what, [(result, end) for result in newest.values()]).verdict()
    assert (verdict["lost"], verdict["wrong"], verdict["repeated"]) == (0, 0, 0)
    assert verdict["records"] == RATE * SECONDS
    assert verdict["max_ms"] == pytest.approx(3000, rel=0.01)
    assert verdict["p50_ms"] == pytest.approx(2000, rel=0.02)


def test_a_stale_result_is_a_repetition():
    what = measurement("count")
    given = list(answers(what))
    assert judged(what, [*given, given[0]]).repeated == 1


def test_every_window_of_an_event_must_be_there():
    what = measurement("features")
    given = list(answers(what))
    assert len(given) == 3 * RATE * (WARMUP + SECONDS)
    assert judged(what, given[:-1]).verdict()["lost"] == 1


def test_only_the_ranks_that_change_are_given():
    step, state = workload("top").semantics.step, {}

    def paid(merchant, amount, at=0):
        event = {"card": "c", "merchant": merchant, "amount": amount, "event_time": at}
        return [(r["rank"], r["merchant"], r["spent"]) for r in step(state, event, {})]

    assert paid("b", 5) == [(1, "b", 5)]
    assert paid("a", 5) == [(1, "a", 5), (2, "b", 5)]
    assert paid("b", 2) == [(1, "b", 7), (2, "a", 5)]
    for n in range(8):
        assert paid(f"m{n}", 4) == [(n + 3, f"m{n}", 4)]
    assert paid("z", 3) == []
    assert paid("z", 3) == [
        (2, "z", 6),
        (3, "a", 5),
        *((n + 4, f"m{n}", 4) for n in range(7)),
    ]
    assert paid("a", 1, at=3_600_000) == [(1, "a", 1)]


def test_the_floor_is_judged_by_what_was_sent():
    for name in ("field", "dedup"):
        what = measurement(name, forwards=True)
        events = [(event, due + LATENCY_US) for _, event, due in what.load.feed()]
        verdict = judged(what, events).verdict()
        assert (verdict["lost"], verdict["wrong"], verdict["repeated"]) == (0, 0, 0)
        assert judged(what, events[1:]).verdict()["lost"] == 1


def test_probes_are_not_judged():
    what = measurement("count")
    probe = next(workload("count").events(0))
    judge = judged(what, [({"card": probe["card"], "n": 1, "total": 5}, BEGIN_US)])
    assert (judge.wrong, judge.results) == (0, 0)


def test_recovery_is_the_time_to_the_first_new_answer():
    what = measurement("field", kill_us=BEGIN_US + 2_000_000)
    given = list(answers(what))
    on_its_way = [g for g in given if g[1] <= what.kill_us + 100_000]
    later = [(r, t + 1_500_000) for r, t in given[len(on_its_way) - 20 :]]
    verdict = judged(what, [*on_its_way, *later]).verdict()
    assert verdict["recovery_ms"] == pytest.approx(1600, abs=30)
    assert (verdict["repeated"], verdict["lost"]) == (20, 0)


def test_the_links_add_up():
    what = measurement("field")
    judge = what.judge()
    for result, received in answers(what):
        judge.take(json.dumps(result).encode(), received, (received - 1_500) // 1000)
    appended = [(what.load.due_us(n) + 1_500) // 1000 for n in range(what.load.records)]
    spans = judge.links(appended)
    assert sum(spans.values()) == pytest.approx(5, abs=0.01)
    assert spans["topic"] == pytest.approx(1.5, abs=0.3)
    told = links([{"links": spans, "late_p50_ms": 0.2}])
    assert list(told) == ["producer", "topic", "engine", "sink", "reader"]
    assert sum(told.values()) == pytest.approx(5, abs=0.01)


def test_what_arrives_while_results_are_judged_is_judged_as_well():
    load = Load("127.0.0.1:1", "in", workload("field").reference, rate=10, seconds=1, begin_us=0)
    meter = Meter(Measurement(load, "out", {0: 0}, 0, 1))

    class Busy:
        def __init__(self):
            self.taken = []

        def take(self, value, *_):
            if len(self.taken) < 3:
                arrive(len(meter._values))  # noqa: SLF001
            self.taken.append(value)

    def arrive(number):
        meter._received.append(number)  # noqa: SLF001
        meter._appended.append(number)  # noqa: SLF001
        meter._values.append(b"%d" % number)  # noqa: SLF001

    arrive(0)
    busy, taken = Busy(), 0
    for _ in range(5):
        taken = meter._hand_over(busy, taken)  # noqa: SLF001
    assert busy.taken == [b"0", b"1", b"2", b"3"]


def test_the_workloads_are_what_they_say():
    assert len(merchants()) == MERCHANTS
    events = list(islice(workload("field").events(1), 3))
    assert [len(event["payload"]) for event in events] == [128] * 3
    assert len({event["event_id"] for event in events}) == 3
    twice = [event["id"] for event in islice(workload("dedup").events(1), 5000)]
    assert 350 < len(twice) - len(set(twice)) < 550
    for name in names():
        stated = workload(name)
        assert stated.statement.strip()
        assert list(islice(stated.events(5), 9)) == list(islice(stated.events(5), 9))
    with pytest.raises(BenchError, match="WORKLOAD_UNKNOWN"):
        workload("nonsense")


class Still(System):
    """A driver that is never started."""

    title = "still"

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
    """An observer that says nothing."""

    def say(self, text):
        pass

    def begin(self, turn, number, of):
        pass

    second = end = say


def run_of(medians, rounds=2):
    """A run whose systems have these figures, round by round."""
    systems = [Still(name, forwards=name == "floor") for name in medians]
    left = {name: list(values) for name, values in medians.items()}
    campaign = Campaign([workload("count")], systems, rounds, Silent())
    trials = campaign.run(lambda _, system: figures(left[system.name].pop(0)))
    return document(Options(rounds), [workload("count")], systems, trials, {})


def test_a_run_is_interleaved_with_a_control():
    systems = [Still("floor", forwards=True), Still("eagre"), Still("flink")]
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
    assert control_of([Still("floor", forwards=True), Still("quix")]).name == "quix"


def test_differences_within_the_control_are_none():
    found = run_of(
        {
            "floor": [1, 1],
            "eagre": [4, 6],
            "spark-micro-batch": [500, 700],
            "flink": [6, 6],
            "quix": [5.5, 5.5],
        }
    )
    jsonschema.validate(found, SCHEMA)
    assert found["control"]["count"]["noise"]["p50_ms"] == 1.5
    told = found["ratios"]["count"]["eagre"]
    assert told["spark-micro-batch"]["p50_ms"] == {
        "ratio": pytest.approx(120, 0.01),
        "differs": True,
    }
    assert told["flink"]["p50_ms"]["differs"] is False
    assert told["floor"]["p50_ms"]["differs"] is True
    assert found["results"]["count"]["eagre"]["p50_ms"] == 5
    assert found["results"]["count"]["eagre"]["spread"]["p50_ms"] == [4, 6]
    assert found["systems"]["flink"]["settings"] == {"jars": "one.jar, two.jar"}


def test_the_schema_refuses_what_is_not_a_run():
    found = run_of({"eagre": [4, 4]})
    del found["results"]["count"]["eagre"]["p99_ms"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, SCHEMA)


def test_a_trial_that_does_not_count_is_left_out_of_the_medians():
    behind = figures(50, problems=["the load generator was 40 ms late at p99"])
    told = summary([figures(4), behind, figures(6)])
    assert told["p50_ms"] == 5
    assert told["valid"]
    assert told["problems"] == behind["problems"]
    assert not summary([behind])["valid"]
    wrong = figures(1, wrong=3, problems=["3 results were wrong"])
    assert not summary([figures(4), wrong])["valid"]
    assert not summary([{"failed": "it ended", "problems": ["it ended"]}])["valid"]


def test_a_gap_is_the_longest_wait_around_a_checkpoint_of_the_measured_time():
    waits = [4.0, 90.0, 5.0, 6.0, 7.0, 80.0, 8.0]
    series = [{"second": at, "max_ms": ms} for at, ms in enumerate(waits)]
    assert gaps_ms(series, [2.0, 2.999], 7) == [90.0, 90.0]
    assert gaps_ms(series, [3.0], 7) == [7.0]
    assert gaps_ms(series, [4.0, 6.9], 7) == [80.0, 80.0]
    assert gaps_ms(series, [0.0, -0.001, 7.0, 300.0], 7) == [90.0]
    assert gaps_ms([], [2.0], 7) == gaps_ms(series, [], 7) == []


def test_the_gap_is_the_median_over_the_boundaries_of_what_counts():
    behind = figures(9, gaps_ms=[900.0], problems=["the load generator was 40 ms late at p99"])
    told = summary([figures(4, gaps_ms=[10.0, 30.0]), behind, figures(4, gaps_ms=[70.0])])
    assert (told["gap_ms"], told["boundaries"]) == (30, 3)
    assert told["spread"]["gap_ms"] == [10, 70]
    none = summary([figures(4)])
    assert (none["gap_ms"], none["boundaries"]) == (None, 0)
    assert "gap_ms" not in none["spread"]


def test_a_generator_that_fell_behind_is_asked_again_a_few_times():
    late = figures(5, problems=["the load generator was 40 ms late at p99"])
    asked = []
    campaign = Campaign([workload("count")], [Still("eagre"), Still("quix")], 2, Silent())
    campaign.run(lambda _, system: asked.append(system.name) or late)
    assert len(asked) == len(list(campaign.turns())) + 2


def test_runs_are_compared_beyond_their_controls():
    before = run_of({"eagre": [4, 5], "quix": [5, 5]})
    after = run_of({"eagre": [4.2, 4.2], "quix": [1, 1]})
    told = compare(before, after)["count"]
    assert told["eagre"]["p50_ms"]["verdict"] == "no difference"
    assert told["quix"]["p50_ms"] == {
        "before": 5,
        "after": 1,
        "ratio": 0.2,
        "verdict": "better",
    }


def test_tables_are_published_between_their_marks(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- bench:count -->\nold\n<!-- /bench -->\nafter\n")
    found = run_of({"eagre": [4, 4], "spark-micro-batch": [400, 400]})
    assert publish(found, [readme, tmp_path / "missing.md"]) == [readme]
    text = readme.read_text()
    assert "old" not in text
    assert text.startswith("before\n<!-- bench:count -->\n| latency in ms |")
    assert text.endswith("<!-- /bench -->\nafter\n")
    assert "| `eagre` | 4.0 |" in text
    assert "100x / 100x" in text
    assert publish(found, [readme]) == []
    with pytest.raises(BenchError, match="NOWHERE_TO_PUBLISH"):
        publish(found, [tmp_path / "missing.md"])


def test_the_highest_rate_is_found():
    def system(limit):
        def measure(chosen):
            return figures(1 if chosen.rate <= limit else 200)

        return measure

    found = find_rate(workload("count"), system(10_000))
    assert 8000 <= found["max_rate"] <= 10_000
    assert [t["held"] for t in found["rates"]] == [True, True, True, *[False] * 4, True]
    assert found["generator_bound"] is False
    slow = find_rate(workload("count"), system(10))
    assert slow["max_rate"] == 0
    assert "not even" in slow["problems"][0]


def test_a_rate_that_fails_once_is_tried_again():
    stands_still = iter([True, False])

    def measure(chosen):
        return figures(200 if chosen.rate > 2000 or next(stands_still, False) else 1)

    found = find_rate(workload("count"), measure)
    assert [t["held"] for t in found["rates"][:4]] == [False, True, False, False]
    assert found["max_rate"] == 2000


def test_a_subject_is_ended_with_all_it_started(tmp_path):
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    log = tmp_path / "log"
    subject = ProcessUnderTest([sys.executable, "-c", script], {}, tmp_path, log)
    wait_until(lambda: log.read_text().strip(), 10, "the child's number")
    child = int(log.read_text())
    assert subject.cost().rss_mb > 5
    subject.require_alive()
    subject.kill()
    assert not psutil.pid_exists(child)
    with pytest.raises(TrialError, match="SYSTEM_ENDED"):
        subject.require_alive()


def test_a_subject_ends_when_we_are_gone(tmp_path):
    log = tmp_path / "log"
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from eagre.trial.process import ProcessUnderTest\n"
        "print_pid = 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'\n"
        f"log = Path({str(log)!r})\n"
        "ProcessUnderTest([sys.executable, '-c', print_pid], {}, Path('.'), log)\n"
        "while not log.read_text().strip(): time.sleep(0.05)\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=30 * machine_slowness())
    pid = int(log.read_text())
    wait_until(lambda: not psutil.pid_exists(pid) or _zombie(pid), 10, "the subject's end")


def _zombie(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_every_system_says_what_it_sets():
    job = Job("count", "b", "in", "out", "g", 5000, 500, ".", "m.csv")
    for system in SYSTEMS.values():
        assert all(isinstance(value, str) for value in system.settings(job).values())


def test_every_operator_runs_what_it_says():
    for operator in OPERATORS.values():
        able = [name for name in names() if not operator.refusal(name)]
        assert sorted(able) == sorted(operator.workloads)
        assert {workload(name).rate for name in ("count", operator.workloads[0])} == {2000}


class Place:
    """A bench that gives what it is told."""

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


def test_operators_are_compared_with_the_count_of_the_same_run(monkeypatch, tmp_path):
    asked, medians = [], {"eagre": [2, 4], "eagre-rolling": [4, 5], "eagre-lookup": [6, 6]}

    def measure(chosen, system):
        asked.append((chosen.name, system.name))
        assert chosen.warmup == 90
        wrong = system.name == "eagre-lookup"
        told = {"wrong": 1, "problems": ["1 results were wrong"]} if wrong else {}
        return figures(medians[system.name].pop(0), **told)

    monkeypatch.setattr(sweep, "Bench", Place(measure))
    plan = sweep.Sweep("operators", Options(rounds=2), "count", ["rolling", "lookup"])
    found = plan.run(tmp_path, Silent())
    jsonschema.validate(found, SCHEMA)
    order = [("count", "eagre"), ("count", "eagre-rolling"), ("enrich", "eagre-lookup")]
    assert asked == [*order, *order[::-1]]
    rolling, lookup = found["points"]
    assert (found["baseline"]["label"], found["baseline"]["p50_ms"]) == ("count", 3)
    assert (rolling["workload"], rolling["p50_ratio"], rolling["p99_ratio"]) == ("count", 1.5, 1.5)
    assert not lookup["valid"]
    assert "p50_ratio" not in lookup
    assert set(found["workloads"]) == {"count", "enrich"}
    assert set(found["systems"]) == set(medians)


def test_boundaries_are_compared_with_flinks_of_the_same_run(monkeypatch, tmp_path):
    asked, prepared = [], []
    gaps = {"eagre": [30.0, 60.0, 90.0], "flink": [20.0]}

    def measure(chosen, system):
        asked.append((chosen.name, chosen.epoch, system.name))
        assert chosen.warmup == 45
        assert chosen.seconds == {"1 s": 30, "10 s": 210}[chosen.epoch]
        none = chosen.epoch == "1 s" and system.name == "flink"
        p50 = 6 if system.name == "eagre" else 4
        return figures(p50, gaps_ms=[] if none else gaps[system.name])

    monkeypatch.setattr(sweep, "Bench", Place(measure))
    monkeypatch.setattr(type(SYSTEMS["flink"]), "prepare", lambda *_: prepared.append("flink"))
    plan = sweep.Sweep("boundary", Options(rounds=2), None, ["10 s", "1 s"])
    found = plan.run(tmp_path, Silent())
    jsonschema.validate(found, SCHEMA)
    pairs = [(name, epoch) for name in ("stateless", "count") for epoch in ("10 s", "1 s")]
    order = [(*pair, name) for pair in pairs for name in ("eagre", "flink")]
    assert asked == [*order, *order[::-1]]
    assert prepared == ["flink"]
    assert [(p["workload"], p["label"], p["system"]) for p in found["points"]] == order
    ours, theirs, without, _ = found["points"][:4]
    assert (ours["gap_ms"], ours["boundaries"], theirs["gap_ms"]) == (60, 6, 20)
    assert [ours[name] for name in ("p50_ratio", "p99_ratio", "gap_ratio")] == [1.5, 1.5, 3.0]
    assert without["p50_ratio"] == 1.5
    assert "gap_ratio" not in without
    assert "p50_ratio" not in theirs
    assert found["workload"] == "stateless, count"


def test_boundaries_are_measured_longer_where_that_is_asked(monkeypatch, tmp_path):
    asked = []

    def measure(chosen, _):
        asked.append((chosen.name, chosen.epoch, chosen.warmup, chosen.seconds))
        return figures(1)

    monkeypatch.setattr(sweep, "Bench", Place(measure))
    monkeypatch.setattr(type(SYSTEMS["flink"]), "prepare", lambda *_: None)
    options = Options(rounds=1, warmup=45.0, seconds=500.0)
    sweep.Sweep("boundary", options, "field", []).run(tmp_path, Silent())
    assert asked == [("field", "10 s", 45, 500)] * 2


@pytest.mark.long
def test_the_results_of_every_operator_are_right(cli, tmp_path):
    cli.ok(
        *("bench", "sweep", "operators", "--rate", "300", "--warmup", "2", "--seconds", "4"),
        *("--out", str(tmp_path / "out")),
        timeout=900,
    )
    found = load_document(tmp_path / "out")
    jsonschema.validate(found, SCHEMA)
    assert [point["label"] for point in found["points"]] == list(OPERATORS)
    for point in (found["baseline"], *found["points"]):
        assert point["records"] > 0, point
        assert [point[n] for n in ("lost", "wrong", "repeated", "negative")] == [0] * 4, point


@pytest.mark.e2e
def test_a_run_from_the_command_line(cli, tmp_path):
    """The smoke test: two systems, seconds, everything from the load to the report."""
    began = time.time()
    done = cli.ok(
        *("bench", "run", "count", "--systems", "floor,eagre", "--rounds", "1", "--rate", "300"),
        *("--warmup", "2", "--seconds", "4", "--epoch", "5 s", "--out", str(tmp_path / "out")),
        *("--json", str(tmp_path / "run.json")),
        timeout=300,
    )
    found = load_document(tmp_path / "out")
    assert found == json.loads((tmp_path / "run.json").read_text())
    jsonschema.validate(found, SCHEMA)
    results = found["results"]["count"]
    for figures_ in results.values():
        assert figures_["records"] == 1200
        assert [figures_[n] for n in ("lost", "wrong", "repeated", "negative")] == [0] * 4
        assert figures_["cpu_s_per_million"] > 0
        assert figures_["rss_mb"] > 5
        assert figures_["p50_ms"] <= figures_["p99_ms"] <= figures_["max_ms"]
        assert set(figures_["links"]) == {"producer", "topic", "engine", "sink", "reader"}
    assert results["eagre"]["trials"][0]["checkpoints"]
    assert found["control"]["count"]["system"] == "eagre"
    assert found["options"]["epoch"] == "5 s"
    page = tmp_path / "out" / "report.html"
    assert page.stat().st_mtime >= began
    assert "<svg" in page.read_text()
    assert "eagre again (A/A control)" in done.stderr
    assert "about" in done.stderr
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["bench.json", "logs", "report.html"]


@pytest.mark.parametrize("left", ["bench.json", "logs", "state"])
def test_what_another_run_left_is_not_written_over(call, tmp_path, left):
    (tmp_path / "out" / left).mkdir(parents=True)
    again = call("bench", "run", "count", "--out", str(tmp_path / "out"))
    assert again.code == 1
    assert "OUT_TAKEN" in again.err


@pytest.mark.parametrize(
    ("args", "told"),
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
        (("sweep", "operators", "--workload", "field"), "each operator has a workload of its own"),
    ],
)
def test_a_bench_that_cannot_be(call, args, told):
    done = call("bench", *args)
    assert done.code != 0
    assert told in done.err
    assert "starting Kafka" not in done.err


def test_the_list_says_what_runs_where(cli):
    found = json.loads(cli.ok("bench", "list", "--json", "-").stdout)
    assert set(found) == set(names())
    assert found["python-map"]["flink"]
    assert found["field"]["flink"] == ""
    text = cli.ok("bench", "list").stdout
    assert all(name in text for name in (*names(), *SYSTEMS))
