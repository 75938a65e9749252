"""What the dashboard derives from measurements: SLOs, the meter, the causes, the sampler."""

import threading
import time
from collections import deque
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from eagre.broker import Topics
from eagre.cli.pipelines.dashboard import judge_slo
from eagre.dashboard.causes import CauseContext, causes
from eagre.dashboard.result_sampler import MOST_PER_SECOND, SLICE_SECONDS, ResultSampler
from eagre.dashboard.view import SECONDS, View
from eagre.errors import SettingsError
from eagre.latency import Meter, Result
from eagre.runtime.runs import RETAINED
from eagre.slo import Slo
from eagre.waiting import wait_until
from test_dashboard import ABOUT, JVM_METRICS, run_of


@pytest.mark.parametrize("text", ["p99 < 100ms", "p99.9 < 1 second", "p50<5ms", "p999 < 2 s"])
def test_an_slo_is_parsed(text):
    assert Slo.parse(text).text == text


@pytest.mark.parametrize(
    "text", ["", "p99", "fast", "p0 < 1ms", "99 < 1ms", "p99 > 1ms", "p99 < ms"]
)
def test_a_malformed_slo_is_refused(text):
    with pytest.raises(SettingsError, match=r"SLO_MALFORMED|INTERVAL_MALFORMED"):
        Slo.parse(text)


@pytest.mark.parametrize(
    ("slo", "slow", "code", "message"),
    [
        ("p99 < 100ms", 1, 0, "SLO p99 < 100ms met: p99 was"),
        ("p99 < 100ms", 3, 3, "SLO p99 < 100ms missed: p99 was"),
        ("p99 < 100ms", None, 3, "nothing was measured"),
        ("", 0, 3, "no pipeline has an SLO"),
    ],
)
def test_the_exit_code_reports_whether_the_slo_was_met(capsys, slo, slow, code, message):
    view = View(run := run_of(about={}), run.pipelines["score"])
    if slo:
        view.slo = Slo.parse(slo)
        view.meter = Meter(view.slo.within_ms)
    if slow is not None:
        quick = [Result(b"t/0", 1000, 1001)] * (200 - slow)
        view.meter.take(quick, 1_005_000)
        view.meter.take([Result(b"t/0", 1000, 1001)] * slow, 1_300_000)
        view.meter.second()
    view.gone()
    assert judge_slo(SimpleNamespace(views=[view])) == code
    assert message in capsys.readouterr().err


def test_the_meter_counts_unmeasured_records():
    meter = Meter(slow_ms=100)
    late = [Result(b"t/0", 1_000_000, 1_000_010)] * 3
    meter.take(late, 1_000_150_000, unmeasured=2)
    meter.take([Result(b"t/1", 1_000_000, 1_000_000)], 999_990_000)
    figures = meter.second()
    assert (figures["records"], figures["unmeasured"], figures["slow"], figures["negative"]) == (
        4,
        2,
        3,
        1,
    )
    assert figures["partitions"]["t/0"] == [3, 150.0, 150.0]
    assert figures["max_ms"] == pytest.approx(150, rel=0.001)
    assert meter.second()["records"] == 0
    assert meter.total()["records"] == 4
    assert sum(meter.buckets) == 4


def second(at, **changes):
    usual = {
        "p50_ms": 2.0,
        "max_ms": 4.0,
        "mean_ms": 2.0,
        "records": 100,
        "after_sent_ms": 0.5,
        "wait_ms": 0.5,
        "pipeline_ms": 1.0,
    }
    return {"t": float(at), **usual, **changes}


SLOW = {"max_ms": 200.0, "mean_ms": 40.0}


@pytest.mark.parametrize(
    ("changes", "known", "expected"),
    [
        ({}, {"commits": [49.8]}, "commit"),
        ({"pause_ms": 90}, {}, "gc"),
        ({"partitions": {"t/0": [50, 90.0, 200.0], "t/1": [50, 2.0, 4.0]}}, {}, "hot"),
        ({"lags": {"t/0": 5000, "t/1": 3, "t/2": 4}}, {}, "hot"),
        ({"after_sent_ms": 35.0}, {}, "sink"),
        ({"wait_ms": 35.0}, {}, "source"),
        ({"wait_ms": 35.0}, {"mode": "micro-batch"}, "trigger"),
        ({"pipeline_ms": 35.0}, {}, "pipeline"),
        ({}, {"starved": ["t/3"]}, "starved"),
        ({}, {"starts": [44.0]}, "start"),
        ({}, {"starts": [20.0]}, "elsewhere"),
        ({}, {}, "elsewhere"),
    ],
)
def test_causes_are_distinguished(changes, known, expected):
    seconds = [second(at) for at in range(60)]
    seconds[50] |= {**SLOW, **changes}
    nothing = {"commits": [], "mode": "real-time", "starved": [], "starts": []}
    [cause] = causes(seconds, CauseContext(**{**nothing, **known}))
    assert (cause["id"], cause["seconds"], cause["worst_ms"]) == (expected, 1, 200.0)
    assert cause["evidence"]


def test_a_quiet_stream_has_no_cause():
    seconds = [second(at, pause_ms=3) for at in range(60)]
    assert causes(seconds, CauseContext([30.0], "real-time", [], [5.0])) == []


def test_before_its_first_second_a_pipeline_has_no_causes():
    assert causes([], CauseContext([], "real-time", [], [])) == []


def test_an_unread_partition_is_reported_after_a_delay(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("eagre.dashboard.view.time.monotonic", lambda: now[0])
    run = run_of(about={**ABOUT, "sink": {"kind": "redis", "name": "redis", "topics": []}})
    status = run.pipelines["score"]
    view = View(run, status)
    ends = {0: 5, 1: 5, 2: 0}
    cluster = SimpleNamespace(watch=lambda _: None, ends=lambda _: ends)
    clusters = SimpleNamespace(of=lambda _: cluster)

    def starved_after(read, seconds):
        status.metrics = {**JVM_METRICS, "lag": read}
        view.follow(run, status, clusters)
        now[0] += seconds
        view.follow(run, status, clusters)
        return view.starved()

    assert starved_after({"metered-in/0": 0}, 5) == []
    assert starved_after({"metered-in/0": 0, "metered-in/1": 0}, 60) == []
    assert starved_after({"metered-in/0": 0}, 11) == ["metered-in/1"]
    assert starved_after({}, 11) == []


@pytest.fixture
def sampler(eagre_broker, request):
    topics = Topics(eagre_broker.address)
    name = f"sampled-{request.node.name[-12:]}".replace("[", "").replace("]", "")
    topics.create(name, 2)
    meter = Meter()
    result_sampler = ResultSampler(topics.client_settings, {name: 2}, ["metered-in"], meter)
    producer = Producer({"bootstrap.servers": eagre_broker.address, "linger.ms": 5})
    yield meter, producer, name
    result_sampler.close()


def seen(meter):
    meter.second()
    total = meter.total()
    return total["records"] + total["unmeasured"]


def send(producer, name, age_ms, header="eagre-origin", place="metered-in/0/7"):
    origin = round(time.time() * 1000) - age_ms
    words = f"id 1 {place}/0 {origin}" if header == "eagre" else f"{place} {origin}"
    producer.produce(name, b"{}", headers={header: words.encode()})


def settle(meter, producer, name):
    """Send until the sampler has reached the end of its topic and has seen a record."""

    def ready():
        send(producer, name, 0, place="metered-in/0/0")
        producer.flush()
        return seen(meter) > 0

    wait_until(ready, 20, "the sampler sees no records")
    time.sleep(0.5)
    seen(meter)


@pytest.mark.parametrize("header", ["eagre-origin", "eagre"])
def test_the_sampler_reads_both_headers(sampler, header):
    meter, producer, name = sampler
    began = time.monotonic()
    settle(meter, producer, name)
    before = meter.total()["records"]
    for _ in range(50):
        send(producer, name, 300, header)
    producer.produce(name, b"{}")
    producer.produce(name, b"{}", headers={"eagre-origin": b"garbage"})
    producer.produce(name, b"{}", headers={"eagre-fence": b"id 2"})
    send(producer, name, 300, place="others/0/7")
    producer.flush()
    took_ms = (time.monotonic() - began) * 1000
    wait_until(lambda: seen(meter) >= before + 52, 10, "not all were seen")
    total = meter.total()
    assert (total["records"], total["unmeasured"]) == (before + 50, 2)
    assert 290 <= total["p95_ms"] <= 1.1 * (300 + took_ms), "latency ends at the broker's timestamp"


class Flood:
    """A fake consumer of one partition and its clock: records arrive at a steady rate."""

    RATE = 8 * MOST_PER_SECOND
    SECONDS = 3

    def __init__(self, _):
        self.position = 0
        self.over = threading.Event()
        self.now = 0.0

    def monotonic(self):
        return self.now

    def assign(self, _):
        """Go to the end; by then the sampler's previous slice is over, if there was one."""
        self.now += SLICE_SECONDS if self.now else 0
        self.position = round(self.now * self.RATE)

    def unassign(self):
        pass

    def poll(self, _):
        if self.now > self.SECONDS:
            self.over.set()
            time.sleep(0.01)
            return None
        self.now += 0.001
        return self.consume(1, 0)[0]

    def consume(self, number, _):
        there = min(number, round(self.now * self.RATE) - self.position)
        self.position += there
        return [self._record(self.position - n) for n in range(there, 0, -1)]

    def _record(self, offset):
        headers = [("eagre-origin", b"metered-in/0/7 1")]
        return SimpleNamespace(
            error=lambda: None,
            headers=lambda: headers,
            timestamp=lambda: (1, 1),
            topic=lambda: "flood",
            partition=lambda: 0,
            offset=lambda: offset,
        )

    def close(self):
        pass


def test_above_its_rate_the_sampler_skips_records_and_counts_them(monkeypatch):
    """It reads a thousand records per 200 ms and counts those that it skips."""
    flood, meter = Flood(None), Meter()
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: flood)
    clock = SimpleNamespace(monotonic=flood.monotonic, time_ns=time.time_ns)
    monkeypatch.setattr("eagre.dashboard.result_sampler.time", clock)
    sampler = ResultSampler({}, {"flood": 1}, ["metered-in"], meter)
    assert flood.over.wait(60)
    sampler.close()
    sampled, skipped = seen(meter), meter.total()["skipped"]
    assert 0 < sampled <= flood.now * MOST_PER_SECOND * 1.5
    assert skipped > 4 * sampled
    assert flood.position - flood.RATE * SLICE_SECONDS <= sampled + skipped <= flood.position


def test_marks_of_a_month_are_added_once_and_forgotten():
    run = run_of(about={})
    status = run.pipelines["score"]
    status.mode, status.runs = "real-time", [1.0]
    view = View(run, status)
    clusters = SimpleNamespace(of=lambda _: None)
    for number in range(2 * SECONDS):
        epoch = {"batch": number, "ended": 10.0 + number, "phases": {"pause": 1}}
        status.epochs = [*status.epochs, epoch][-RETAINED:]
        view.follow(run, status, clusters)
    assert view.marks[-1]["text"] == f"epoch {2 * SECONDS - 1} ended"
    assert sum(mark["kind"] == "start" for mark in view.marks) <= 1
    assert len({mark["t"] for mark in view.marks}) == len(view.marks)
    sizes = [len(v) for v in vars(view).values() if isinstance(v, list | dict | set | deque)]
    assert max(sizes) <= SECONDS
