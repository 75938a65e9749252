"""The dashboard's meter against the benchmark's: both measure one run with an injected delay."""

import sys

import pytest

from eagre.broker import ClientSettings, Topics
from eagre.dashboard.result_sampler import ResultSampler
from eagre.latency import Meter
from eagre.trial.process import Command
from eagre.trial.trial import Trial, starter

FORWARDER = """
import sys, time
from collections import deque
from confluent_kafka import Consumer, Producer

brokers, source, sink, delay_ms = sys.argv[1:]
base = {"bootstrap.servers": brokers, "log_level": 0, "socket.nagle.disable": True}
consumer = Consumer({**base, "group.id": "delayed", "auto.offset.reset": "earliest"})
producer = Producer({**base, "linger.ms": 0, "acks": 1})
consumer.subscribe([source])
waiting = deque()
while True:
    first = consumer.poll(0.001)
    for record in (first, *consumer.consume(500, 0)) if first else ():
        if not record.error():
            waiting.append((record.timestamp()[1] + float(delay_ms), record))
    while waiting and waiting[0][0] <= time.time() * 1000:
        _, record = waiting.popleft()
        place = f"{record.topic()}/{record.partition()}/{record.offset()} {record.timestamp()[1]}"
        headers = {"eagre-origin": place.encode()}
        producer.produce(sink, record.value(), record.key(), headers=headers)
    producer.poll(0)
"""


class RecordingMeter(Meter):
    """A meter that stores its results, so that probes before the load can be excluded."""

    def __init__(self):
        super().__init__()
        self.all = []

    def take(self, results, received_us, **_):
        self.all += [(result, received_us) for result in results]

    def since(self, from_us):
        only = Meter()
        for result, received_us in self.all:
            if result.origin_ms * 1000 >= from_us:
                only.take([result], received_us)
        only.second()
        return only.total()


@pytest.mark.long
@pytest.mark.parametrize("delay_ms", [20, 80])
def test_both_meters_agree_on_a_delayed_stream(eagre_broker, tmp_path, delay_ms):
    """Each has its own consumer, which the machine may delay: one of three runs must agree."""
    for attempt in range(3):
        dashboard, benchmark = both(
            eagre_broker.address, tmp_path / str(attempt), delay_ms, attempt
        )
        assert (benchmark["lost"], benchmark["wrong"]) == (0, 0)
        assert dashboard["records"] == pytest.approx(benchmark["records"], rel=0.01)
        assert dashboard["p50_ms"] >= delay_ms
        seen = {p: (dashboard[p], benchmark[p]) for p in ("p50_ms", "p99_ms")}
        if all(ours == pytest.approx(theirs, rel=0.10) for ours, theirs in seen.values()):
            return
    pytest.fail(f"the meters do not agree: {seen}")


def both(brokers, place, delay_ms, attempt):
    """Return the figures of the dashboard's meter and of the benchmark for the same results."""
    place.mkdir()
    source, sink = (f"agree-{end}-{delay_ms}-{attempt}" for end in ("in", "out"))
    topics = Topics(ClientSettings.to(brokers))
    for name in (source, sink):
        topics.create(name, 1)
    script = place / "forwarder.py"
    script.write_text(FORWARDER)
    command = Command([sys.executable, str(script), brokers, source, sink, str(delay_ms)])
    meter = RecordingMeter()
    sampler = ResultSampler(topics.client_settings, {sink: 1}, [source], meter)
    try:
        trial = Trial("eagre_bench.workloads:field", source, sink, 400, 0, 6, forwards=True)
        figures = trial.run(brokers, starter(command, place, place / "log"), lambda _: None)
    finally:
        sampler.close()
    return meter.since(figures["from_us"]), figures
