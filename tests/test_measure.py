"""``eagre measure``: the latency of any topic's records."""

import json
import struct
import sys
import threading
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from eagre.broker import Topics
from eagre.latency.origin import Origin, parse_time
from eagre.trial.process import ProcessUnderTest
from eagre.trial.trial import Trial
from eagre.waiting import wait_until

LATE_MS = 200
NOW_US = 1_700_000_000_123_456


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_700_000_000, 1_700_000_000_000_000),
        (1_700_000_000.5, 1_700_000_000_500_000),
        (1_700_000_000_123, 1_700_000_000_123_000),
        (NOW_US, NOW_US),
        (NOW_US * 1000 + 789, NOW_US),
        ("1700000000123", 1_700_000_000_123_000),
        ("2023-11-14T22:13:20.123456+00:00", NOW_US),
        ("2023-11-14T23:13:20.123456+01:00", NOW_US),
        ("2023-11-14 22:13:20.123456", NOW_US),
        (struct.pack(">q", 1_700_000_000_123), 1_700_000_000_123_000),
        (b"1700000000", 1_700_000_000_000_000),
        (None, None),
        (True, None),
        (0, None),
        (-5, None),
        (float("nan"), None),
        ("yesterday", None),
        ("", None),
        ({"at": 1}, None),
    ],
)
def test_a_time_is_understood_in_every_form(value, expected):
    found = parse_time(value)
    assert found == expected or abs(found - expected) < 2


class Record:
    def __init__(self, value=None, headers=(), timestamp=5_000):
        self._value, self._headers, self._timestamp = value, list(headers), timestamp

    def value(self):
        return self._value

    def headers(self):
        return self._headers

    def timestamp(self):
        return 1, self._timestamp


def test_the_time_is_where_the_origin_says():
    nested = Record(b'{"payment": {"at": 1700000000}}', [("event", b"1700000001")])
    assert Origin("payment.at").time_us(nested) == 1_700_000_000_000_000
    assert Origin("payment.none").time_us(nested) is None
    assert Origin("at").time_us(Record(b"no json")) is None
    assert Origin("at").time_us(Record(None)) is None
    assert Origin(header="event").time_us(nested) == 1_700_000_001_000_000
    assert Origin(header="none").time_us(nested) is None
    assert Origin().time_us(nested) == 5_000_000
    assert Origin().time_us(Record(b"", [("eagre-origin", b"in/0/7 3000")])) == 3_000_000


@pytest.fixture
def writing(eagre_broker):
    """Write records into a topic until the test ends, as ``make`` builds them."""
    over = threading.Event()
    threads = []

    def start(topic, make):
        Topics(eagre_broker.address).create(topic, 2)
        producer = Producer({"bootstrap.servers": eagre_broker.address, "linger.ms": 0})

        def write():
            number = 0
            while not over.wait(0.01):
                producer.produce(topic, partition=number % 2, **make())
                producer.poll(0)
                number += 1
            producer.flush()

        threads.append(threading.Thread(target=write))
        threads[-1].start()

    yield start
    over.set()
    for thread in threads:
        thread.join()


def measured(call, *args):
    done = call("measure", *args, "--seconds", "1", "--json", "-")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_latency_begins_where_it_is_asked_to(call, eagre_broker, writing):
    def late():
        past = time.time() - LATE_MS / 1000
        value = {"event": {"at": datetime.fromtimestamp(past, UTC).isoformat()}, "n": 1}
        return {
            "value": json.dumps(value),
            "headers": [("happened", str(round(past * 1000)).encode())],
            "timestamp": round((past - 1) * 1000),
        }

    writing("measure-late", late)
    at = ("--brokers", eagre_broker.address)
    of_field = measured(call, "measure-late", "--time-field", "event.at", *at)
    of_header = measured(call, "measure-late", "--header", "happened", *at)
    of_record = measured(call, "measure-late", *at)
    assert of_field["p50_ms"] >= LATE_MS
    assert of_header["p50_ms"] >= LATE_MS
    assert of_record["p50_ms"] >= LATE_MS + 1000
    assert of_field["origin"] == "the field 'event.at'"
    assert of_field["records"] > 0
    assert of_field["unmeasured"] == of_field["negative"] == 0
    assert of_field["p50_ms"] <= of_field["p99_ms"] <= of_field["max_ms"]


def test_records_without_a_time_are_reported(call, eagre_broker, writing):
    writing("measure-none", lambda: {"value": b'{"n": 1}'})
    at = ("--brokers", eagre_broker.address, "--seconds", "1")
    done = call("measure", "measure-none", "--time-field", "at", *at)
    assert done.code == 1
    assert "TIME_MISSING" in done.err
    assert '{"n": 1}' in done.err


def test_a_silent_topic_is_reported(call, eagre_broker):
    Topics(eagre_broker.address).create("measure-silent", 1)
    done = call("measure", "measure-silent", "--brokers", eagre_broker.address, "--seconds", "1")
    assert done.code == 1
    assert "NO_RECORDS" in done.err


def test_one_time_is_enough(call):
    done = call("measure", "x", "--time-field", "a", "--header", "b")
    assert "TIME_TWICE" in done.err


FORWARDER = """
import heapq, random, sys, time
from confluent_kafka import Consumer, Producer, TopicPartition
brokers, source, results = sys.argv[1:]
random.seed(1)
consumer = Consumer({"bootstrap.servers": brokers, "group.id": "f", "fetch.queue.backoff.ms": 5})
consumer.assign([TopicPartition(source, 0, 0)])
producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0})
waiting, number = [], 0
while True:
    for record in consumer.consume(500, 0.002):
        if not record.error():
            delay = random.uniform(0.02, 0.03) if random.random() < 0.9 else 0.1
            heapq.heappush(waiting, (time.time() + delay, number, record.value()))
            number += 1
    while waiting and waiting[0][0] <= time.time():
        producer.produce(results, heapq.heappop(waiting)[2])
    producer.poll(0)
"""
EVENTS = """
TOPIC = "agree-in"
def events(random):
    n = 0
    while True:
        n += 1
        yield str(n % 7), {"n": n}
"""


@pytest.mark.e2e
def test_the_figures_agree_with_the_benchmarks_meter(cli, eagre_broker, tmp_path):
    """On the same run, within 5 % at p50 and p99."""
    at = eagre_broker.address
    events = tmp_path / "events.py"
    events.write_text(EVENTS)
    for topic in ("agree-in", "agree-out"):
        Topics(at).create(topic, 1)
    trial = Trial(str(events), "agree-in", "agree-out", rate=300, warmup=5, seconds=20)
    arguments = [sys.executable, "-c", FORWARDER, at, "agree-in", "agree-out"]
    beside = []

    def on_second(_):
        if not beside:
            options = ("--time-field", "sent_us", "--seconds", "18", "--brokers", at)
            beside.append(cli.start("measure", "agree-out", *options, "--json", "-"))

    theirs = trial.run(
        at, lambda: ProcessUnderTest(arguments, {}, tmp_path, tmp_path / "log"), on_second
    )
    [process] = beside
    wait_until(lambda: process.poll() is not None, 60, "the measurement does not end")
    ours = json.loads(process.stdout.read())
    process.stdout.close()
    process.stderr.close()
    process.stdin.close()
    assert ours["records"] > 1_000
    for percentile in ("p50_ms", "p99_ms"):
        assert abs(ours[percentile] / theirs[percentile] - 1) < 0.05, (ours, theirs)
