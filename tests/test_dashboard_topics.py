"""What the dashboard reads of topics: dead letters once, and within a budget."""

import pytest
from confluent_kafka import Producer

from eagre.broker import Topics
from eagre.dashboard import cluster as module
from eagre.dashboard.cluster import Cluster
from eagre.delivery.dead_letters import DeadLetter
from eagre.waiting import wait_until

LETTER = b"x" * 100_000


@pytest.fixture
def polled(eagre_broker, request):
    """A cluster that is polled, with a topic of 30 dead letters of 100 kB."""
    name = f"{request.node.name}.dlq".replace("[", "-").replace("]", "")
    Topics(eagre_broker.address).create(name, 1)
    add(eagre_broker, name, 30)
    polled = Cluster(eagre_broker.address)
    polled.topic = name
    yield polled
    polled.close()


def add(broker, name, number):
    producer = Producer({"bootstrap.servers": broker.address})
    for _ in range(number):
        producer.produce(name, LETTER)
    producer.flush()


def counted(cluster):
    statuses = [entry["reasons"] for entry in cluster.describe() if entry["topic"] == cluster.topic]
    return sum(statuses[0].values()) if statuses else 0


def test_each_dead_letter_is_read_once(polled, eagre_broker, monkeypatch):
    decoded = []
    original = DeadLetter.of.__func__

    def of(cls, record):
        decoded.append(record.offset())
        return original(cls, record)

    monkeypatch.setattr(DeadLetter, "of", classmethod(of))
    polled.watch([polled.topic])
    wait_until(lambda: counted(polled) == 30, 20, "the dead letters were not counted")
    add(eagre_broker, polled.topic, 1)
    wait_until(lambda: counted(polled) == 31, 20, "the new dead letter was not counted")
    assert sorted(decoded) == list(range(31))


def test_a_poll_reads_within_its_budget(polled, monkeypatch):
    reader = getattr(module, "topic_reader", module)
    monkeypatch.setattr(reader, "READ_BYTES", 1_000_000)
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.1)
    sizes, original = [], reader.read

    def read(*args):
        records = original(*args)
        sizes.append(sum(len(record.value()) for record in records))
        return records

    monkeypatch.setattr(reader, "read", read)
    polled.watch([polled.topic])
    wait_until(lambda: counted(polled) == 30, 20, "the dead letters were not counted")
    assert max(sizes) <= 1_000_000
    assert sum(sizes) == 30 * len(LETTER)
