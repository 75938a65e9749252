"""Timeouts that grow on slow machines: waiting, and the start of a broker."""

import itertools
import time

import pytest

from eagre import waiting
from eagre.broker import EmbeddedBroker, server
from eagre.errors import BrokerError
from eagre.waiting import wait_until


def test_a_slow_machine_gets_more_time(monkeypatch):
    monkeypatch.setattr(waiting, "machine_slowness", lambda: 50.0)
    asked = itertools.count()
    began = time.monotonic()
    assert wait_until(lambda: time.monotonic() - began > 0.3 and next(asked) >= 0, 0.1, "never")


def test_a_typical_machine_gets_the_given_time(monkeypatch):
    measured = []
    monkeypatch.setattr(waiting, "machine_slowness", lambda: measured.append(1) or 1.0)
    with pytest.raises(TimeoutError, match="it did not come"):
        wait_until(lambda: False, 0.1, "it did not come")
    assert measured == [1]
    assert wait_until(lambda: "at once", 0.1, "never") == "at once"
    assert measured == [1], "the speed is only measured after the timeout"


def test_a_wait_that_cannot_succeed_is_not_extended(monkeypatch):
    monkeypatch.setattr(waiting, "machine_slowness", lambda: 1e9)
    with pytest.raises(TimeoutError, match="never true"):
        wait_until(lambda: False, 0.1, "never true", patient=lambda: False)


def test_waiting_for_a_slow_broker_prints_a_message(monkeypatch):
    monkeypatch.setattr(server, "START_SECONDS", 0.1)
    monkeypatch.setattr(server, "REMIND_SECONDS", 0.2)
    monkeypatch.setattr(waiting, "machine_slowness", lambda: 3000.0)
    messages = []
    with EmbeddedBroker(say=messages.append) as broker:
        assert broker.port
    assert any("still starting after 0.2 s" in line for line in messages), messages


def test_a_broker_that_never_answers_is_removed(monkeypatch):
    monkeypatch.setattr(server, "START_SECONDS", 0.1)
    monkeypatch.setattr(waiting, "machine_slowness", lambda: 1.0)
    monkeypatch.setattr(server.Topics, "answers", lambda _: False)
    broker = EmbeddedBroker()
    with pytest.raises(BrokerError, match=r"BROKER_FAILED: .* did not answer within"):
        broker.start()
    assert not broker.data.exists()
    with pytest.raises(BrokerError, match="BROKER_NOT_STARTED"):
        assert broker.pid


class Clock:
    """A fake ``time``: each reading takes a little, and sleeps may take too long."""

    def __init__(self, looks, oversleeps):
        self.now = 0.0
        self._looks = looks
        self._oversleeps = oversleeps

    def perf_counter(self):
        self.now += self._looks
        return self.now

    def sleep(self, seconds):
        self.now += seconds + self._oversleeps


@pytest.mark.parametrize(
    ("looks", "oversleeps", "slowness"), [(0.012, 0, 1), (0.036, 0, 3), (0.012, 0.0048, 5)]
)
def test_an_exhausted_cpu_quota_counts_as_slowness(monkeypatch, looks, oversleeps, slowness):
    """The additions are quick, but the process is paused in between."""
    monkeypatch.setattr(waiting, "time", Clock(looks, oversleeps))
    assert waiting.machine_slowness() == pytest.approx(slowness)
