"""The judge of the benchmark: correct, wrong and missing results; the workloads."""

import json
from itertools import islice

import pytest

from eagre.trial.load import Load
from eagre.trial.meter import Measurement, Meter
from eagre_bench.campaign import problems
from eagre_bench.errors import BenchError
from eagre_bench.results import links
from eagre_bench.workload import MERCHANTS, merchants, names, workload

BEGIN_US = 1_794_700_000_000_000
RATE, WARMUP, SECONDS = 100, 1, 2
LATENCY_US = 5_000


def measurement(name, **more):
    load = Load("", "events", workload(name).reference, RATE, WARMUP + SECONDS, BEGIN_US)
    from_us = BEGIN_US + WARMUP * 1_000_000
    return Measurement(load, "results", {0: 0}, from_us, from_us + SECONDS * 1_000_000, **more)


def answers(what):
    """Yield the results of a correct system, each with the time of its receipt."""
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
def test_correct_results_pass(name):
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
    ("cheat", "count"),
    [("drops", "lost"), ("repeats", "repeated"), ("alters", "wrong"), ("invents", "wrong")],
)
def test_wrong_results_are_detected(name, cheat, count):
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
    assert verdict[count] == 1
    assert problems({**verdict, "late_p99_ms": 0}) != []


def test_a_result_before_its_event_is_counted():
    what = measurement("field")
    early = [(result, received - 2 * LATENCY_US) for result, received in answers(what)]
    verdict = judged(what, early).verdict()
    assert verdict["negative"] == RATE * SECONDS
    assert "results came before their event" in problems({**verdict, "late_p99_ms": 0})[0]


def test_invalid_json_is_a_wrong_result():
    judge = measurement("field").judge()
    judge.take(b"\xff{", BEGIN_US, 0)
    judge.take(b"[1]", BEGIN_US, 0)
    assert judge.wrong == 2
    assert len(judge.verdict()["wrong_examples"]) == 2


def test_a_newer_result_covers_the_older_ones_of_its_key():
    """Micro-batches write them so: each event's latency ends with the result that covers it."""
    what = measurement("count")
    newest = {result["card"]: result for result, _ in answers(what)}
    end = what.until_us + 1_000_000
    verdict = judged(what, [(result, end) for result in newest.values()]).verdict()
    assert (verdict["lost"], verdict["wrong"], verdict["repeated"]) == (0, 0, 0)
    assert verdict["records"] == RATE * SECONDS
    assert verdict["max_ms"] == pytest.approx(3000, rel=0.01)
    assert verdict["p50_ms"] == pytest.approx(2000, rel=0.02)


def test_a_stale_result_is_a_duplicate():
    what = measurement("count")
    given = list(answers(what))
    assert judged(what, [*given, given[0]]).repeated == 1


def test_every_window_of_an_event_is_required():
    what = measurement("features")
    given = list(answers(what))
    assert len(given) == 3 * RATE * (WARMUP + SECONDS)
    assert judged(what, given[:-1]).verdict()["lost"] == 1


def test_only_changed_ranks_are_expected():
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


def test_the_floor_is_judged_by_the_sent_events():
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


def test_recovery_is_the_time_to_the_first_new_result():
    what = measurement("field", kill_us=BEGIN_US + 2_000_000)
    given = list(answers(what))
    on_its_way = [g for g in given if g[1] <= what.kill_us + 100_000]
    later = [(r, t + 1_500_000) for r, t in given[len(on_its_way) - 20 :]]
    verdict = judged(what, [*on_its_way, *later]).verdict()
    assert verdict["recovery_ms"] == pytest.approx(1600, abs=30)
    assert (verdict["repeated"], verdict["lost"]) == (20, 0)


def test_the_parts_of_the_latency_add_up():
    what = measurement("field")
    judge = what.judge()
    for result, received in answers(what):
        judge.take(json.dumps(result).encode(), received, (received - 1_500) // 1000)
    appended = [(what.load.due_us(n) + 1_500) // 1000 for n in range(what.load.records)]
    spans = judge.links(appended)
    assert sum(spans.values()) == pytest.approx(5, abs=0.01)
    assert spans["topic"] == pytest.approx(1.5, abs=0.3)
    summed = links([{"links": spans, "late_p50_ms": 0.2}])
    assert list(summed) == ["producer", "topic", "engine", "sink", "reader"]
    assert sum(summed.values()) == pytest.approx(5, abs=0.01)


def test_results_that_arrive_during_judging_are_judged():
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


def test_the_workloads_match_their_statements():
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
