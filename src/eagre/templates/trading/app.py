"""Compute bars, order imbalance and crossovers of moving averages from unordered ticks."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import eagre as eg

ticks = eg.Kafka(
    "ticks",
    schema="id BIGINT, symbol STRING, price DOUBLE, size BIGINT, side STRING, at TIMESTAMP, "
    "sent_us BIGINT",
)
bars = eg.Kafka("bars", key="symbol")

BAR_MS, LATE_MS = 60_000, 10_000
FAST, SLOW = 12, 48
RETAINED_IDS = 32

Bar = Row("start", "first", "open", "high", "low", "last", "close", "volume", "bought")
BAR = (
    "start LONG, first LONG, open DOUBLE, high DOUBLE, low DOUBLE, last LONG, close DOUBLE, "
    "volume LONG, bought LONG"
)
TAPE = f"newest LONG, n LONG, fast DOUBLE, slow DOUBLE, ids ARRAY<LONG>, bars ARRAY<STRUCT<{BAR}>>"
RESULT = f"symbol STRING, bar STRUCT<{BAR}>, imbalance DOUBLE, signal STRING, sent_us LONG"


@eg.pipeline(source=ticks, sink=bars, slo="p99 < 300ms")
def signals(df: DataFrame) -> DataFrame:
    """Return the current bar for each tick, with a signal if the fast average crosses the slow."""
    traded = df.where("size > 0").withColumn("ms", F.unix_millis("at"))
    return eg.transform_with_state(traded.groupBy("symbol"), Tape(), RESULT)


class Tape(StatefulProcessor):
    """The state of a symbol: its two newest bars, its averages, and the ids of the last ticks."""

    def init(self, handle: Any) -> None:
        """Declare the state."""
        self.tape = handle.getValueState("tape", TAPE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Add each tick once to its bar; only ticks in order change the averages."""
        newest, n, fast, slow, ids, bars = self.tape.get() or (0, 0, 0.0, 0.0, [], [])
        for tick in rows:
            if tick.id in ids:
                continue
            if tick.ms < newest - LATE_MS:
                raise ValueError(f"{newest - tick.ms} ms late: its bar may be closed")
            bar = counted(tick, bars)
            bars = sorted([bar, *(other for other in bars if other.start != bar.start)])[-2:]
            ids = [*ids, tick.id][-RETAINED_IDS:]
            signal = None
            if tick.ms >= newest:
                newest, n, above = tick.ms, n + 1, fast > slow
                fast += (tick.price - fast) * max(1 / n, 2 / (FAST + 1))
                slow += (tick.price - slow) * max(1 / n, 2 / (SLOW + 1))
                if n > SLOW and above != (fast > slow):
                    signal = "sell" if above else "buy"
            yield key[0], bar, round(2 * bar.bought / bar.volume - 1, 3), signal, tick.sent_us
        self.tape.update((newest, n, fast, slow, ids, bars))


def counted(tick: Any, bars: list[Any]) -> Any:
    """Return the bar with the tick; the earliest tick opens it, the latest closes it."""
    start, ms, price = tick.ms // BAR_MS * BAR_MS, tick.ms, tick.price
    empty = Bar(start, ms, price, price, price, ms, price, 0, 0)
    bar = next((bar for bar in bars if bar.start == start), empty)
    first, opened = min((bar.first, bar.open), (ms, price))
    last, closed = max((bar.last, bar.close), (ms, price))
    volume, bought = bar.volume + tick.size, bar.bought + tick.size * (tick.side == "buy")
    high, low = max(bar.high, price), min(bar.low, price)
    return Bar(start, first, opened, high, low, last, closed, volume, bought)
