"""The features of users in a real Redis server, at REDIS_URL, as a service reads them."""

import os

import pytest
from features import features

pytestmark = pytest.mark.skipif("REDIS_URL" not in os.environ, reason="REDIS_URL is not set")


def test_a_service_reads_the_newest_features(run_in_both_modes, request):
    serve = pytest.importorskip("serve")
    user = request.node.name
    known = {"user": user, "interest": "sport"}
    run_in_both_modes(
        features,
        [
            {**known, "remaining": 9.0, "price": 1.0, "reason": "bid"},
            {**known, "remaining": 9.0, "price": None, "reason": "floor"},
            {"user": f"stranger-{user}", "reason": "unknown"},
        ],
    )
    assert serve.features(serve.connect(), user) == {
        "interest": "sport",
        "remaining": 9.0,
        "reason": "floor",
    }
    assert serve.features(serve.connect(), f"stranger-{user}") == {}
