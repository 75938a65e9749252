"""Slow clusters: requests are repeated with longer timeouts before a cluster is unreachable."""

import contextlib
import socket
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from eagre import waiting
from eagre.broker import EmbeddedBroker, Topics
from eagre.broker.server import free_port
from eagre.errors import BrokerError

DELAY_SECONDS = 1.3


class Admin:
    """A fake admin client: returns the given answers, one per request.

    ``asked`` has the topics of each request, ``waited`` the timeout of each request for metadata.
    """

    def __init__(self, *answers, seconds=0.0):
        self.answers = list(answers)
        self.seconds = seconds
        self.asked = []
        self.waited = []

    def list_topics(self, timeout):
        self.waited.append(timeout)
        if timeout < self.seconds:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
        return SimpleNamespace(topics={"here": 1}, brokers={1: "one"})

    def poll(self, timeout):
        pass

    def create_topics(self, new, **_):
        return self._futures([topic.topic for topic in new])

    def delete_topics(self, names, **_):
        return self._futures(names)

    def _futures(self, names):
        self.asked.append(list(names))
        return {name: self._future(self.answers.pop(0)) for name in names}

    def _future(self, code):
        future = Future()
        if code is None:
            future.set_result(None)
        else:
            future.set_exception(KafkaException(KafkaError(code)))
        return future


@pytest.fixture
def topics(monkeypatch):
    def to(admin):
        monkeypatch.setattr(Topics, "admin", admin)
        monkeypatch.setattr(Topics, "ends", lambda *_: {"new": {0: 0}})
        monkeypatch.setattr(waiting, "machine_slowness", lambda: 1.0)
        return Topics("nowhere:1", timeout=4)

    return to


def test_each_metadata_request_has_a_longer_timeout(topics):
    admin = Admin(seconds=3)
    assert topics(admin).names() == ["here"]
    assert admin.waited == [1, 2, 4]


def test_a_late_answer_is_accepted(topics):
    assert topics(Admin(seconds=3)).answers()
    assert not topics(Admin(seconds=5)).answers()


TIMED_OUT, EXISTS = KafkaError._TIMED_OUT, KafkaError.TOPIC_ALREADY_EXISTS  # noqa: SLF001
UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    "answers", [(None,), (TIMED_OUT, None), (KafkaError.REQUEST_TIMED_OUT, TIMED_OUT, EXISTS)]
)
def test_a_topic_created_by_a_timed_out_request_counts_as_created(topics, answers):
    admin = Admin(*answers)
    topics(admin).create("new", 1)
    assert len(admin.asked) == len(answers)
    assert len(admin.waited) == len(answers) - 1, "librdkafka learns about a dead broker"


@pytest.mark.parametrize("answers", [(EXISTS,), (TIMED_OUT, KafkaError.INVALID_PARTITIONS)])
def test_a_refused_topic_is_an_error(topics, answers):
    with pytest.raises(BrokerError, match="KAFKA_REFUSED: topic 'new' could not be created"):
        topics(Admin(*answers)).create("new", 1)


def test_only_remaining_topics_are_deleted_again(topics):
    admin = Admin(None, TIMED_OUT, UNKNOWN)
    topics(admin).delete(["one", "two"])
    assert admin.asked == [["one", "two"], ["two"]]
    with pytest.raises(BrokerError, match="KAFKA_REFUSED: topic 'two' could not be deleted"):
        topics(Admin(UNKNOWN)).delete(["two"])


def test_a_cluster_that_never_creates_a_topic_is_reported(topics):
    with pytest.raises(BrokerError, match=r"BROKER_UNREACHABLE: .* 'new' could not be created"):
        topics(Admin(*[TIMED_OUT] * 1000)).create("new", 1)


class Proxy:
    """A proxy that delays each answer of a broker."""

    def __init__(self):
        self.port = free_port()
        self.target = 0
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                for pair in ((near, far, 0), (far, near, DELAY_SECONDS)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source, target, delay):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(delay)
                target.sendall(data)
        for end in (source, target):
            end.close()

    def close(self):
        self._listener.close()


@pytest.mark.e2e
def test_topic_commands_work_on_a_cluster_that_answers_after_seconds():
    """The broker advertises the proxy's address, so every request passes through it."""
    with contextlib.closing(Proxy()) as proxy:
        proxy.target = free_port()
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        with EmbeddedBroker(port=proxy.target, settings=advertised):
            topics = Topics(f"127.0.0.1:{proxy.port}", timeout=6)
            assert topics.answers()
            topics.create("late", 2)
            assert topics.names() == ["late"]
            assert topics.ends(["late"]) == {"late": {0: 0, 1: 0}}
            topics.delete(["late"])
            assert topics.names() == []
