"""The pipeline on a real broker and a real Spark, in micro-batches and in real time."""

import pytest
from app import personalise

PROFILE = {"user": "u", "interest": "sport", "value": 2.0, "budget": 5.0}


def ask(number, subject="sport", floor=0.5, hour=0, **fields):
    at = f"2026-01-01T{hour:02d}:00:00Z"
    asked = {"id": f"r{number}", "user": "u", "subject": subject, "floor": floor, "at": at}
    return {**asked, **fields}


@pytest.fixture
def answers(run_in_both_modes, tmp_path):
    """Answers to requests, by users whose profiles came before them."""

    def run(profiles, requests):
        checkpoint = tmp_path / "checkpoint"
        if profiles:
            run_in_both_modes(personalise, {"profiles": profiles}, checkpoint=checkpoint)
        return run_in_both_modes(personalise, {"requests": requests}, checkpoint=checkpoint)

    return run


def told(rows):
    return [(row["id"], row["price"], row["reason"]) for row in rows]


def test_the_users_value_is_bid_and_half_of_it_beside_the_interest(answers):
    found = answers([PROFILE], [ask(1), ask(2, "news"), ask(3, floor=2.5)])
    assert told(found) == [("r1", 2.0, "bid"), ("r2", 1.0, "bid"), ("r3", None, "floor")]
    assert [row["remaining"] for row in found] == [3.0, 2.0, 2.0]


def test_the_budget_lasts_an_hour(answers):
    found = answers([PROFILE], [ask(n) for n in range(3)] + [ask(3, hour=1), ask(4, hour=0)])
    assert [row["reason"] for row in found] == ["bid", "bid", "budget", "bid", "bid"]
    assert [row["remaining"] for row in found] == [3.0, 1.0, 1.0, 3.0, 1.0]


def test_a_repeated_request_is_answered_and_paid_once(answers):
    found = answers([PROFILE], [ask(1), ask(1), ask(2, "news"), ask(1)])
    assert told(found) == [("r1", 2.0, "bid"), ("r2", 1.0, "bid")]


def test_a_new_profile_keeps_the_account_and_none_forgets_the_user(answers):
    raised = {**PROFILE, "value": 3.0, "budget": 6.0}
    assert told(answers([PROFILE], [ask(1)])) == [("r1", 2.0, "bid")]
    assert told(answers([raised], [ask(2), ask(3)])) == [("r2", 3.0, "bid"), ("r3", None, "budget")]
    gone = {**PROFILE, "value": None}
    assert told(answers([gone], [ask(4)])) == [("r4", None, "unknown")]


def test_strangers_are_answered_and_what_cannot_be_read_is_not(answers):
    rows = [ask(1, user="who"), ask(2, floor="n/a"), {"user": "who"}, ask(3, user="x")]
    found = answers([], rows)
    assert told(found) == [("r1", None, "unknown"), ("r3", None, "unknown")]
