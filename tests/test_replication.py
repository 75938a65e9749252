"""The fence of an exactly-once run: what a leader holds and consumers cannot see yet."""

import contextlib
import threading

import pytest
from confluent_kafka import Producer

import eagre as eg
from eagre.broker import EmbeddedCluster, Topics, replication
from eagre.broker.replication import replicated_ends
from eagre.delivery import Outputs
from eagre.errors import BrokerError

SLOW_FOLLOWERS = {
    "replica.fetch.min.bytes": "1000000",
    "replica.fetch.wait.max.ms": "8000",
}
"""Followers fetch a megabyte at once, or what there is after eight seconds."""


@pytest.fixture
def slow_cluster(tmp_path):
    with EmbeddedCluster(3, 0, tmp_path, SLOW_FOLLOWERS) as cluster:
        yield cluster


def outputs(topics, name):
    return Outputs((), eg.Kafka(name, delivery="exactly-once"), topics, topics)


@pytest.mark.e2e
def test_the_fence_waits_for_slow_followers(slow_cluster, monkeypatch):
    """Records of a dead process would appear after it: their results would be repeated."""
    topics = Topics(slow_cluster.address)
    topics.create("out", 1)
    fenced = outputs(topics, "out")
    assert fenced.stable()[0] == {"out": {0: 0}}
    dead = Producer({"bootstrap.servers": slow_cluster.address, "acks": "all"})
    for n in range(5):
        dead.produce("out", str(n))
    assert dead.flush(0.5) == 5, "the followers are too fast for this test"
    dead.purge()
    assert fenced.results() == {"out": {0: 0}}, "the high watermark hides what the leader holds"
    with monkeypatch.context() as patch:
        patch.setattr(replication, "REPLICATION_SECONDS", 0)
        patch.setattr(replication, "wait_until", once)
        with pytest.raises(BrokerError, match="OUTPUT_NOT_REPLICATED: the leader of out/0"):
            replicated_ends(topics, ["out"])
    assert fenced.stable()[0] == {"out": {0: 5}}


def once(condition, *_):
    """Ask once: a limit of time would grow with the slowness of the machine."""
    answer = condition()
    if not answer:
        raise TimeoutError
    return answer


@contextlib.contextmanager
def writing(address, name):
    """Write all the time, as another pipeline with the same output."""
    producer, over = Producer({"bootstrap.servers": address, "linger.ms": 0}), threading.Event()

    def write():
        while not over.is_set():
            producer.produce(name, b"x")
            producer.poll(0.001)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        producer.flush()


def test_the_fence_does_not_wait_for_other_writers(eagre_broker):
    topics = Topics(eagre_broker.address)
    topics.create("shared-out", 2)
    with writing(eagre_broker.address, "shared-out"):
        before = topics.ends(["shared-out"])["shared-out"]
        after = replicated_ends(topics, ["shared-out"])["shared-out"]
    assert all(after[p] >= before[p] for p in before)
    assert replicated_ends(topics, []) == {}


class Log:
    """A partition whose leader is ahead of its followers, as a client sees it."""

    def __init__(self, visible, held, *, copied=0, written=0):
        self.visible, self.held = visible, held
        self.copied, self.written = copied, written

    def ends(self, _):
        self.held += self.written
        self.visible = min(self.held - (1 if self.written else 0), self.visible + self.copied)
        return {"out": {0: self.visible}}

    def beyond(self, _, offsets):
        return {at for at, offset in offsets.items() if offset > self.held}


@pytest.mark.parametrize("following", [{}, {"copied": 2}, {"copied": 40, "written": 40}])
def test_nothing_that_was_held_at_the_start_is_left_out(following, monkeypatch):
    """Also if the high watermark never meets the end of the log, because others write."""
    log = Log(5, 12 if following else 5, **following)
    held = log.held
    monkeypatch.setattr(replication, "beyond_log", log.beyond)
    rounds = replication._Rounds(log, ["out"], None)  # noqa: SLF001
    answers = [rounds.next() for _ in range(100)]
    end = next(answer for answer in answers if answer)["out"][0]
    assert end >= held
