"""The features of cards in a real Redis server, at REDIS_URL, as a service reads them."""

import os

import pytest
from features import features

pytestmark = pytest.mark.skipif("REDIS_URL" not in os.environ, reason="REDIS_URL is not set")


def score(card, number, **fields):
    known = {"burst": number, "countries": 1, "payments": number, "usual": 9.5, "merchants": 1}
    return {"card": card, **known, "risk": 0.1, "verdict": "pass", **fields}


def test_a_service_reads_the_newest_features(run_in_both_modes, request):
    serve = pytest.importorskip("serve")
    card = request.node.name
    late = dict.fromkeys(("burst", "countries", "payments", "usual", "merchants"))
    run_in_both_modes(features, [score(card, 1), score(card, 2, risk=0.7), score(card, 3, **late)])
    assert serve.features(serve.connect(), card) == {
        "burst": 2,
        "countries": 1,
        "payments": 2,
        "usual": 9.5,
        "merchants": 1,
        "risk": 0.7,
        "verdict": "pass",
    }
    assert serve.features(serve.connect(), "never-seen") == {}
