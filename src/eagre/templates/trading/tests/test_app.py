"""The pipeline with a real broker and Spark, in micro-batch and real-time mode."""

from datetime import UTC, datetime, timedelta
from random import Random

from app import signals
from generate import events, expects

START = datetime(2026, 1, 1, tzinfo=UTC)


def tick(number, second, price=100.0, **fields):
    at = (START + timedelta(seconds=second)).isoformat()
    usual = {"id": number, "symbol": "S", "size": 10, "side": "buy", "sent_us": number}
    return {**usual, "price": price, "at": at, **fields}


def minutes(results):
    """Return the latest bar of each minute."""
    first = round(START.timestamp() * 1000)
    return {(row["bar"]["start"] - first) // 60_000: row["bar"] for row in results}


def signals_of(results):
    return [row["signal"] for row in results if row.get("signal")]


def test_bars_do_not_depend_on_the_order_of_ticks(run_in_both_modes):
    pick = Random(5)
    rows = [
        tick(n, 3 * n, pick.randrange(90, 110), size=pick.randrange(1, 9), side=side)
        for n, side in enumerate(pick.choices(["buy", "sell"], k=60))
    ]
    shuffled = sorted(rows, key=lambda row: 3 * row["id"] + pick.uniform(0, 9))
    assert shuffled != rows
    results = run_in_both_modes(signals, shuffled)
    assert sorted(row["sent_us"] for row in results) == list(range(60))
    for minute, bar in minutes(results).items():
        traded = rows[20 * minute : 20 * minute + 20]
        prices = [row["price"] for row in traded]
        assert (bar["open"], bar["close"]) == (prices[0], prices[-1])
        assert (bar["high"], bar["low"]) == (max(prices), min(prices))
        assert bar["volume"] == sum(row["size"] for row in traded)
        assert bar["bought"] == sum(row["size"] for row in traded if row["side"] == "buy")
    assert set(minutes(results)) == {0, 1, 2}


def test_each_turn_of_the_trend_gives_one_signal(run_in_both_modes):
    prices = [100.0] * 60 + [100.0 + n for n in range(30)] + [130.0 - n for n in range(60)]
    rows = [tick(n, n / 10, price) for n, price in enumerate(prices)]
    results = run_in_both_modes(signals, rows)
    assert signals_of(results) == ["buy", "sell"]
    bought = next(row for row in results if row.get("signal"))
    assert bought["sent_us"] == 61


def test_a_late_tick_changes_its_bar_but_no_average(run_in_both_modes):
    prices = [100.0] * 60
    rows = [tick(n, 60 + n / 10, price) for n, price in enumerate(prices)]
    rows += [tick(60, 58, 500.0), tick(61, 59, 400.0), tick(62, 67)]
    results = run_in_both_modes(signals, rows)
    assert signals_of(results) == []
    assert minutes(results)[0]["open"] == 500.0
    assert minutes(results)[0]["close"] == 400.0
    assert minutes(results)[1]["high"] == 100.0


def test_each_tick_counts_once(run_in_both_modes):
    rows = [tick(n, n) for n in range(5)]
    results = run_in_both_modes(
        signals, [*rows, rows[2], rows[4], tick(5, 6, side="sell", size=50)]
    )
    assert [row["bar"]["volume"] for row in results] == [10, 20, 30, 40, 50, 100]
    assert [row["imbalance"] for row in results] == [1.0] * 5 + [0.0]


def test_late_and_unparsable_ticks_do_not_stop_the_pipeline(run_in_both_modes):
    rows = [tick(0, 30), tick(1, 19), tick(2, 20), tick(3, 31, "n/a"), tick(4, 32, size=0)]
    results = run_in_both_modes(signals, [*rows, tick(5, 33), tick(6, 33, symbol="T")])
    assert sorted(row["sent_us"] for row in results) == [0, 2, 5, 6]


def test_generated_events_give_the_expected_results(run_in_both_modes):
    rows, expected = [], 0
    for number, (_, event) in zip(range(3_000), events(Random(3)), strict=False):
        late = timedelta(milliseconds=event["late_ms"] - number)
        rows.append({**event, "at": (START - late).isoformat(), "sent_us": number})
        expected += expects(event)
    results = run_in_both_modes(signals, rows)
    assert len(results) == expected < 3_000
    assert set(signals_of(results)) == {"buy", "sell"}
