"""The live meter against the benchmark's: two measurements of one run, with a delay injected."""

import sys

import pytest

from eagre.bench.systems.base import Command
from eagre.bench.trial import Trial, starter
from eagre.broker import Topics
from eagre.dashboard.tap import Tap
from eagre.latency import Meter

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
        _, one = waiting.popleft()
        place = f"{one.topic()}/{one.partition()}/{one.offset()} {one.timestamp()[1]}"
        producer.produce(sink, one.value(), one.key(), headers={"eagre-origin": place.encode()})
    producer.poll(0)
"""


@pytest.mark.parametrize("delay_ms", [20, 80])
def test_with_a_delay_both_meters_agree(eagre_broker, tmp_path, delay_ms):
    at = eagre_broker.address
    source, sink = f"agree-in-{delay_ms}", f"agree-out-{delay_ms}"
    topics = Topics(at)
    for name in (source, sink):
        topics.create(name, 1)
    script = tmp_path / "forwarder.py"
    script.write_text(FORWARDER)
    command = Command([sys.executable, str(script), at, source, sink, str(delay_ms)])
    meter = Meter()
    tap = Tap(topics.client_settings, {sink: 1}, [source], meter)
    try:
        trial = Trial("field", source, sink, 400, 0, 6, forwards=True)
        told = trial.run(at, starter(command, tmp_path, tmp_path / "log"), lambda _: None)
    finally:
        tap.close()
    meter.second()
    own = meter.total()
    assert (told["lost"], told["wrong"]) == (0, 0)
    assert own["records"] >= told["records"]
    assert own["p50_ms"] >= delay_ms
    assert own["p50_ms"] == pytest.approx(told["p50_ms"], rel=0.10)
    assert own["p99_ms"] == pytest.approx(told["p99_ms"], rel=0.10)
