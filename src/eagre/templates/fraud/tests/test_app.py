"""The pipeline on a real broker and a real Spark, in micro-batches and in real time."""

from app import fraud


def payment(number, second=0, **fields):
    at = f"2026-01-01T00:00:{second:02d}Z"
    usual = {"id": f"p{number}", "card": "c", "merchant": "m1", "amount": 10.0, "country": "FR"}
    return {**usual, "at": at, **fields}


def test_each_payment_is_scored_once(run_in_both_modes):
    rows = [payment(n, n) for n in range(5)]
    found = run_in_both_modes(fraud, [*rows, rows[2]])
    assert sorted(row["id"] for row in found) == [row["id"] for row in rows]
    assert sorted(row["burst"] for row in found) == [1, 2, 3, 4, 5]
    assert {row["verdict"] for row in found} == {"pass"}


def test_a_thief_is_refused(run_in_both_modes):
    rows = [payment(n, n) for n in range(5)] + [payment(9, 6, amount=5000.0, country="BR")]
    rows += [payment(10, 7, amount=9000.0, country="US", merchant="m2")]
    found = {row["id"]: row for row in run_in_both_modes(fraud, rows)}
    assert found["p9"]["broken"] == []
    last = found["p10"]
    assert last["broken"] == ["two places at once"]
    assert last["verdict"] == "refuse"
    assert last["risk"] > 0.5


def test_what_cannot_be_read_does_not_stop_it(run_in_both_modes):
    rows = [payment(1), payment(2, amount="n/a"), payment(3)]
    assert sorted(row["id"] for row in run_in_both_modes(fraud, rows)) == ["p1", "p3"]
