"""Detect unusual readings of each device, and devices that fall silent."""

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
LEARNING, PACE, LIMIT, RESOLUTION, RETAINED_IDS = 20, 0.01, 6.0, 0.01, 16
KNOWN = "n LONG, mean DOUBLE, variance DOUBLE, heard LONG, silent BOOLEAN, ids ARRAY<LONG>"
RESULT = (
    "device STRING, verdict STRING, value DOUBLE, mean DOUBLE, deviation DOUBLE, ms LONG, "
    "sent_us LONG"
)


@eg.pipeline(source=readings, sink=verdicts, slo="p99 < 300ms")
def judge(df: DataFrame, silence_ms: int = SILENCE_MS) -> DataFrame:
    """Return a verdict for each reading (learning, usual, unusual, back), and silent by a timer."""
    devices = df.where("value IS NOT NULL").withColumn("ms", F.unix_millis("at")).groupBy("device")
    results = eg.transform_with_state(devices, DeviceMonitor(silence_ms), RESULT, "processing-time")
    return results.withColumn("at", F.timestamp_millis("ms")).drop("ms")


class DeviceMonitor(StatefulProcessor):
    """The state of a device: its running mean and deviation, and a timer that detects silence."""

    def __init__(self, silence_ms: int) -> None:
        self.silence_ms = silence_ms

    def init(self, handle: Any) -> None:
        """Declare the state, and record the start time of the pipeline."""
        self.handle, self.began = handle, time.time_ns() // 1_000_000
        self.known = handle.getValueState("known", KNOWN)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Compare each reading once with the earlier ones, then update the mean and deviation."""
        now = timerValues.getCurrentProcessingTimeInMs()
        n, mean, variance, heard, silent, ids = self.known.get() or (0, 0.0, 0.0, 0, False, [])
        if silent or not heard:
            self.handle.registerTimer(now + self.silence_ms)
        for row in rows:
            if row.id in ids:
                continue
            n, ids = n + 1, [*ids, row.id][-RETAINED_IDS:]
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
        """Report a silent device, and delete it after a day; ignore pauses of the pipeline."""
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
