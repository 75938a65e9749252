"""The pipeline on a real broker and a real Spark, in micro-batches and in real time."""

from datetime import UTC, datetime, timedelta
from random import Random

from app import signals
from generate import events, expects

START = datetime(2026, 1, 1, tzinfo=UTC)


def tick(number, second, price=100.0, **fields):
    at = (START + timedelta(seconds=second)).isoformat()
    usual = {"id": number, "symbol": "S", "size": 10, "side": "buy", "sent_us": number}
    return {**usual, "price": price, "at": at, **fields}


def minutes(found):
    """The bars as they were told last, by their minute."""
    first = round(START.timestamp() * 1000)
    return {(row["bar"]["start"] - first) // 60_000: row["bar"] for row in found}


def told(found):
    return [row["signal"] for row in found if row.get("signal")]


def test_a_bar_is_that_of_its_ticks_whatever_their_order(run_in_both_modes):
    pick = Random(5)
    rows = [
        tick(n, 3 * n, pick.randrange(90, 110), size=pick.randrange(1, 9), side=side)
        for n, side in enumerate(pick.choices(["buy", "sell"], k=60))
    ]
    came = sorted(rows, key=lambda row: 3 * row["id"] + pick.uniform(0, 9))
    assert came != rows
    found = run_in_both_modes(signals, came)
    assert sorted(row["sent_us"] for row in found) == list(range(60))
    for minute, bar in minutes(found).items():
        traded = rows[20 * minute : 20 * minute + 20]
        prices = [row["price"] for row in traded]
        assert (bar["open"], bar["close"]) == (prices[0], prices[-1])
        assert (bar["high"], bar["low"]) == (max(prices), min(prices))
        assert bar["volume"] == sum(row["size"] for row in traded)
        assert bar["bought"] == sum(row["size"] for row in traded if row["side"] == "buy")
    assert set(minutes(found)) == {0, 1, 2}


def test_averages_cross_once_for_each_turn(run_in_both_modes):
    prices = [100.0] * 60 + [100.0 + n for n in range(30)] + [130.0 - n for n in range(60)]
    rows = [tick(n, n / 10, price) for n, price in enumerate(prices)]
    found = run_in_both_modes(signals, rows)
    assert told(found) == ["buy", "sell"]
    bought = next(row for row in found if row.get("signal"))
    assert bought["sent_us"] == 61


def test_a_late_tick_moves_its_bar_and_no_average(run_in_both_modes):
    prices = [100.0] * 60
    rows = [tick(n, 60 + n / 10, price) for n, price in enumerate(prices)]
    rows += [tick(60, 58, 500.0), tick(61, 59, 400.0), tick(62, 67)]
    found = run_in_both_modes(signals, rows)
    assert told(found) == []
    assert minutes(found)[0]["open"] == 500.0
    assert minutes(found)[0]["close"] == 400.0
    assert minutes(found)[1]["high"] == 100.0


def test_each_tick_counts_once(run_in_both_modes):
    rows = [tick(n, n) for n in range(5)]
    found = run_in_both_modes(signals, [*rows, rows[2], rows[4], tick(5, 6, side="sell", size=50)])
    assert [row["bar"]["volume"] for row in found] == [10, 20, 30, 40, 50, 100]
    assert [row["imbalance"] for row in found] == [1.0] * 5 + [0.0]


def test_what_is_too_late_or_cannot_be_read_does_not_stop_it(run_in_both_modes):
    rows = [tick(0, 30), tick(1, 19), tick(2, 20), tick(3, 31, "n/a"), tick(4, 32, size=0)]
    found = run_in_both_modes(signals, [*rows, tick(5, 33), tick(6, 33, symbol="T")])
    assert sorted(row["sent_us"] for row in found) == [0, 2, 5, 6]


def test_what_is_generated_gives_what_it_says(run_in_both_modes):
    rows, expected = [], 0
    for number, (_, event) in zip(range(3_000), events(Random(3)), strict=False):
        late = timedelta(milliseconds=event["late_ms"] - number)
        rows.append({**event, "at": (START - late).isoformat(), "sent_us": number})
        expected += expects(event)
    found = run_in_both_modes(signals, rows)
    assert len(found) == expected < 3_000
    assert set(told(found)) == {"buy", "sell"}
