"""Judge each reading by what is usual for its device, and miss the devices that fall silent."""

import math
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import eagre as eg

readings = eg.Kafka(
    "readings", schema="id BIGINT, device STRING, value DOUBLE, at TIMESTAMP, sent_us BIGINT"
)
verdicts = eg.Kafka("verdicts", key="device")

SILENCE_MS, DAY_MS = 30_000, 86_400_000
LEARNING, PACE, LIMIT, RESOLUTION, REMEMBERED = 20, 0.01, 6.0, 0.01, 16
KNOWN = "n LONG, mean DOUBLE, variance DOUBLE, heard LONG, silent BOOLEAN, ids ARRAY<LONG>"
RESULT = (
    "device STRING, verdict STRING, value DOUBLE, mean DOUBLE, deviation DOUBLE, ms LONG, "
    "sent_us LONG"
)


@eg.pipeline(source=readings, sink=verdicts, slo="p99 < 300ms")
def judge(df: DataFrame, silence_ms: int = SILENCE_MS) -> DataFrame:
    """Each reading with a verdict: learning, usual, unusual or back; and silent, by a timer."""
    devices = df.where("value IS NOT NULL").withColumn("ms", F.unix_millis("at")).groupBy("device")
    made = eg.transform_with_state(devices, Watch(silence_ms), RESULT, "processing-time")
    return made.withColumn("at", F.timestamp_millis("ms")).drop("ms")


class Watch(StatefulProcessor):
    """A device's running mean and deviation, and a timer that rings when it says nothing."""

    def __init__(self, silence_ms: int) -> None:
        self.silence_ms = silence_ms

    def init(self, handle: Any) -> None:
        """Ask for the state, and note since when devices can be heard."""
        self.handle, self.began = handle, time.time_ns() // 1_000_000
        self.known = handle.getValueState("known", KNOWN)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Judge each reading once by those before it, then learn from it."""
        now = timerValues.getCurrentProcessingTimeInMs()
        n, mean, variance, heard, silent, ids = self.known.get() or (0, 0.0, 0.0, 0, False, [])
        if silent or not heard:
            self.handle.registerTimer(now + self.silence_ms)
        for row in rows:
            if row.id in ids:
                continue
            n, ids = n + 1, [*ids, row.id][-REMEMBERED:]
            deviation, off = max(math.sqrt(variance), RESOLUTION), row.value - mean
            verdict = "learning" if n <= LEARNING else "usual"
            if n > LEARNING and abs(off) > LIMIT * deviation:
                verdict, off = "unusual", math.copysign(LIMIT * deviation, off)
            verdict, silent = "back" if silent else verdict, False
            yield key[0], verdict, row.value, mean, deviation, row.ms, row.sent_us
            pace = max(1 / n, PACE)
            mean += pace * off
            variance = (1 - pace) * (variance + pace * off * off)
        self.known.update((n, mean, variance, now, False, ids))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        """Tell of a silent device, and forget it after a day; a standstill here is no silence."""
        known, now = self.known.get(), timerValues.getCurrentProcessingTimeInMs()
        wait = DAY_MS if known and known.silent else self.silence_ms
        due = max(known.heard, self.began) + wait if known else 0
        if now < due:
            self.handle.registerTimer(due)
        elif known and known.silent:
            self.known.clear()
        elif known:
            self.handle.registerTimer(now + DAY_MS)
            self.known.update((*known[:4], True, known.ids))
            yield key[0], "silent", None, known.mean, math.sqrt(known.variance), known.heard, None
