"""When mid-epoch commits are requested, without a query."""

from types import SimpleNamespace

import pytest

from eagre.commit.schedule import CommitSchedule


class Query:
    """A query that has read up to an offset, and counts the commits requested of it."""

    def __init__(self, offset):
        self.offset, self.requests, self.under_way = offset, 0, False
        self.waits_for = "1 row is in flight"

    def read_position(self):
        return {"in": {"0": self.offset}}

    def request(self):
        self.requests += 1

    def result(self):
        return None


@pytest.fixture
def replaying():
    """A schedule whose run must first pass offset 9, which an earlier run delivered."""
    log = SimpleNamespace(passed=lambda position: position["in"][0] > 9)
    return CommitSchedule(Query(3), None, 0.0, {}, log, dict)


def test_no_commit_is_requested_before_earlier_results_are_passed(replaying):
    """Each request writes a version of the state, and Spark deletes old versions."""
    for _ in range(200):
        replaying.step()
    assert replaying.query.requests == 0
    assert "repeats records" in replaying.waits_for
    replaying.query.offset = 10
    replaying.step()
    assert replaying.query.requests == 1
    assert replaying.waits_for == "1 row is in flight"
