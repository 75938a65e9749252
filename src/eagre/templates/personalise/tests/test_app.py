"""The pipeline with a real broker and Spark, in micro-batch and real-time mode."""

import pytest
from app import personalise

PROFILE = {"user": "u", "interest": "sport", "value": 2.0, "budget": 5.0}


def bid_request(number, subject="sport", floor=0.5, hour=0, **fields):
    at = f"2026-01-01T{hour:02d}:00:00Z"
    usual = {"id": f"r{number}", "user": "u", "subject": subject, "floor": floor, "at": at}
    return {**usual, **fields}


@pytest.fixture
def answers(run_in_both_modes, tmp_path):
    """Send profiles, then requests; return the answers."""

    def run(profiles, requests):
        checkpoint = tmp_path / "checkpoint"
        if profiles:
            run_in_both_modes(personalise, {"profiles": profiles}, checkpoint=checkpoint)
        return run_in_both_modes(personalise, {"requests": requests}, checkpoint=checkpoint)

    return run


def bids(rows):
    return [(row["id"], row["price"], row["reason"]) for row in rows]


def test_the_bid_is_the_users_value_or_half_of_it_for_other_subjects(answers):
    results = answers(
        [PROFILE], [bid_request(1), bid_request(2, "news"), bid_request(3, floor=2.5)]
    )
    assert bids(results) == [("r1", 2.0, "bid"), ("r2", 1.0, "bid"), ("r3", None, "floor")]
    assert [row["remaining"] for row in results] == [3.0, 2.0, 2.0]


def test_the_budget_lasts_an_hour(answers):
    results = answers(
        [PROFILE],
        [bid_request(n) for n in range(3)] + [bid_request(3, hour=1), bid_request(4, hour=0)],
    )
    assert [row["reason"] for row in results] == ["bid", "bid", "budget", "bid", "bid"]
    assert [row["remaining"] for row in results] == [3.0, 1.0, 1.0, 3.0, 1.0]


def test_a_duplicate_request_is_answered_and_charged_once(answers):
    results = answers(
        [PROFILE], [bid_request(1), bid_request(1), bid_request(2, "news"), bid_request(1)]
    )
    assert bids(results) == [("r1", 2.0, "bid"), ("r2", 1.0, "bid")]


def test_a_new_profile_keeps_the_spending_and_a_deleted_one_removes_the_user(answers):
    raised = {**PROFILE, "value": 3.0, "budget": 6.0}
    assert bids(answers([PROFILE], [bid_request(1)])) == [("r1", 2.0, "bid")]
    assert bids(answers([raised], [bid_request(2), bid_request(3)])) == [
        ("r2", 3.0, "bid"),
        ("r3", None, "budget"),
    ]
    gone = {**PROFILE, "value": None}
    assert bids(answers([gone], [bid_request(4)])) == [("r4", None, "unknown")]


def test_unknown_users_are_answered_and_unparsable_requests_are_not(answers):
    rows = [
        bid_request(1, user="who"),
        bid_request(2, floor="n/a"),
        {"user": "who"},
        bid_request(3, user="x"),
    ]
    results = answers([], rows)
    assert bids(results) == [("r1", None, "unknown"), ("r3", None, "unknown")]
