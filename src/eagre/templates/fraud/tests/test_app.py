"""The pipeline with a real broker and Spark, in micro-batch and real-time mode."""

from app import fraud


def payment(number, second=0, **fields):
    at = f"2026-01-01T00:00:{second:02d}Z"
    usual = {"id": f"p{number}", "card": "c", "merchant": "m1", "amount": 10.0, "country": "FR"}
    return {**usual, "at": at, **fields}


def test_each_payment_is_scored_once(run_in_both_modes):
    rows = [payment(n, n) for n in range(5)]
    results = run_in_both_modes(fraud, [*rows, rows[2]])
    assert sorted(row["id"] for row in results) == [row["id"] for row in rows]
    assert sorted(row["burst"] for row in results) == [1, 2, 3, 4, 5]
    assert {row["verdict"] for row in results} == {"pass"}


def test_a_fraudulent_payment_is_refused(run_in_both_modes):
    rows = [payment(n, n) for n in range(5)] + [payment(9, 6, amount=5000.0, country="BR")]
    rows += [payment(10, 7, amount=9000.0, country="US", merchant="m2")]
    results = {row["id"]: row for row in run_in_both_modes(fraud, rows)}
    assert results["p9"]["broken"] == []
    last = results["p10"]
    assert last["broken"] == ["two places at once"]
    assert last["verdict"] == "refuse"
    assert last["risk"] > 0.5


def test_unparsable_payments_do_not_stop_the_pipeline(run_in_both_modes):
    rows = [payment(1), payment(2, amount="n/a"), payment(3)]
    assert sorted(row["id"] for row in run_in_both_modes(fraud, rows)) == ["p1", "p3"]
