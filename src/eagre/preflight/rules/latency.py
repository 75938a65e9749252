"""Settings that multiply the latency of a query that is otherwise well made."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eagre.config import interval_ms
from eagre.errors import SettingsError
from eagre.preflight.facts import number
from eagre.preflight.finding import Found, rule
from eagre.profile import CHOICE, COLLECTOR, DEFAULT, clients, java_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

BUFFER_WAIT = "spark.shuffle.streaming.networkBufferMaxWaitTimeMs"
BUFFER_WAIT_DEFAULT = 50
BUFFER_WAIT_MS = 5
LINGER_MS = 1
MINIMUM_EPOCH = "spark.sql.streaming.realTimeMode.minBatchDuration"
MINIMUM_EPOCH_MS = 5_000
LONG_EPOCH_MS = 300_000
SMALL_HEAP_MB = 512
NEW_CLIENTS = 4
"""From this release on the producer lingers for 5 ms by default."""


@rule(
    "EPOCH_SHORT",
    "error",
    "Spark refuses the query at its start.",
    "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL",
)
def epoch_short(facts: Facts) -> Iterator[Found]:
    """The interval of real time is its epoch, not its latency, and Spark wants at least 5 seconds.

    Rows leave at once whatever the epoch; at its end offsets and state are committed, and the query
    stands still for a moment. `spark.sql.streaming.realTimeMode.minBatchDuration` lowers the
    minimum for tests.
    """
    least = _ms(facts.setting(MINIMUM_EPOCH, ""), MINIMUM_EPOCH_MS)
    if 0 < facts.plan.every_ms < least:
        yield Found(
            "trigger",
            f"an epoch of {facts.plan.every_ms:,} ms is below the minimum of {least:,} ms.",
            "leave --every at its default of 1 minute; rows leave at once all the same.",
            numbers={"epoch_ms": facts.plan.every_ms, "minimum_ms": least},
        )


@rule(
    "EPOCH_LONG",
    "warning",
    "After a failure all results since the epoch began are computed and sent again.",
)
def epoch_long(facts: Facts) -> Iterator[Found]:
    """An epoch is what a restart repeats, and what a drain waits for.

    Ten minutes at 2,000 rows per second are 1.2 million rows to read again before the first new
    one. A minute is the default: its boundary stays below one row in a hundred.
    """
    if facts.plan.every_ms > LONG_EPOCH_MS:
        yield Found(
            "trigger",
            f"an epoch of {facts.plan.every_ms / 60_000:g} minutes is repeated after a failure.",
            "shorten it: --every '1 minute'.",
            numbers={"epoch_ms": facts.plan.every_ms},
        )


@rule("BUFFER_WAIT", "warning", "Each row waits that long in each shuffle, at low rates.")
def buffer_wait(facts: Facts) -> Iterator[Found]:
    """The streaming shuffle sends a buffer when it is full or this old, 50 ms by default.

    Measured at 2,000 rows per second: a median of 34 ms with 50, of 8 ms with 1. Eagre's profile
    sets 1.
    """
    waits = _ms(facts.setting(BUFFER_WAIT, ""), BUFFER_WAIT_DEFAULT)
    if facts.plan.exchanges and waits > BUFFER_WAIT_MS:
        yield Found(
            BUFFER_WAIT,
            f"rows wait up to {waits} ms in each of {len(facts.plan.exchanges)} shuffles.",
            "set it to 1.",
            line=facts.plan.exchanges[-1].line,
            numbers={"wait_ms": waits, "shuffles": len(facts.plan.exchanges)},
            settings={BUFFER_WAIT: "1"},
        )


@rule("LINGER", "warning", "Each result waits that long in the producer.")
def linger(facts: Facts) -> Iterator[Found]:
    """`linger.ms` lets the producer wait for more records to send together.

    Kafka's clients before 4.0 do not wait unless told to; from 4.0 on they wait 5 ms. Eagre sets 0,
    and 5 ms where the profile for throughput was asked for.
    """
    if facts.plan.format != "kafka":
        return
    version = str(facts.plan.jvm["kafka_clients"]).split(".")[0]
    unset = 5 if version.isdigit() and int(version) >= NEW_CLIENTS else 0
    waits = number(facts.plan.option("kafka.linger.ms"), unset)
    asked_for = number(clients(facts.setting(CHOICE, DEFAULT)).sink["kafka.linger.ms"], 0)
    if waits > max(LINGER_MS, asked_for):
        yield Found(
            "option kafka.linger.ms",
            f"the producer waits up to {waits} ms before it sends a record.",
            "set it to 0.",
            numbers={"linger_ms": waits},
            options={"kafka.linger.ms": "0"},
        )


@rule("FETCH_WAIT", "warning", "Rows wait in the broker until enough of them are there.")
def fetch_wait(facts: Facts) -> Iterator[Found]:
    """`fetch.min.bytes` lets the broker hold an answer back until so many bytes are there.

    It does so for at most `fetch.max.wait.ms`, 500 by default. With the default of 1 byte the
    answer goes out with the first record, and the wait does not matter.
    """
    for source in facts.plan.sources:
        least = number(source.option("kafka.fetch.min.bytes"), 1)
        longest = number(source.option("kafka.fetch.max.wait.ms"), 500)
        if least > 1 and longest > BUFFER_WAIT_MS:
            yield Found(
                "option kafka.fetch.min.bytes",
                f"the broker waits for {least:,} bytes, up to {longest} ms.",
                "take the option out.",
                numbers={"min_bytes": least, "max_wait_ms": longest},
                options={"kafka.fetch.min.bytes": "1"},
            )


@rule(
    "ACKS",
    "advice",
    "The latency of a write includes the slowest replica, or a record may be lost.",
)
def acks(facts: Facts) -> Iterator[Found]:
    """How many replicas must have a record before it counts as written.

    The default, `all`, is safe, and each write then waits for the slowest replica in sync; `1`
    waits for the leader alone and loses what the leader had not passed on when it died; `0` waits
    for nobody, so that an error is never seen. Keep `all` unless the results can be had again.
    """
    if facts.plan.option("kafka.acks") in ("0", "1"):
        value = facts.plan.option("kafka.acks")
        yield Found(
            "option kafka.acks",
            f"acks is {value}: a record that only the leader had is lost with it."
            if value == "1"
            else "acks is 0: a record that did not arrive is never noticed.",
            "keep `all` unless the results can be had again.",
            options={"kafka.acks": "all"},
        )


@rule("COLLECTOR", "warning", "Rows wait while the collector stops the JVM.")
def collector(facts: Facts) -> Iterator[Found]:
    """The JVM chose the serial collector, which stops everything on one thread.

    It does so by itself on machines it takes for small. On few cores the parallel collector is the
    quickest; Eagre sets it unless your own options name another.
    """
    if "Copy" in facts.plan.jvm["collectors"]:
        own = re.sub(r"-XX:\+Use\w+GC", "", facts.setting(COLLECTOR.key, "")).strip()
        better = f"{java_options(int(facts.plan.jvm['heap_mb']))} {own}".strip()
        yield Found(
            COLLECTOR.key,
            "the driver runs the serial collector.",
            f"set {better}.",
            settings={COLLECTOR.key: better},
        )


@rule("HEAP_SMALL", "warning", "Collections are frequent and long; state and buffers may not fit.")
def heap_small(facts: Facts) -> Iterator[Found]:
    """In local mode the driver's heap holds everything but RocksDB's own memory.

    A gigabyte, Spark's default, is enough for small state; each shuffle buffer may take 32 MB per
    partition.
    """
    heap = int(facts.plan.jvm["heap_mb"])
    if heap < SMALL_HEAP_MB and facts.slots is not None:
        yield Found(
            "spark.driver.memory",
            f"the driver's heap is {heap} MB.",
            "give it a gigabyte or more.",
            numbers={"heap_mb": heap},
            settings={"spark.driver.memory": "1g"},
        )


@rule("ADAPTIVE", "advice", "Nothing in real time; in micro-batches plans may change between runs.")
def adaptive(facts: Facts) -> Iterator[Found]:
    """Adaptive execution re-plans between the stages of a batch, and real time has no such moment.

    Real time plans its shuffles without it. A stateful micro-batch query on the same checkpoint
    does not use it either.
    """
    key = "spark.sql.adaptive.enabled"
    if key in facts.settings and facts.on(key) and facts.plan.exchanges:
        yield Found(
            key,
            "adaptive execution is asked for, and real time does not use it.",
            "leave the setting out.",
        )


def _ms(text: str, default: int) -> int:
    """Read a setting that Spark takes with or without a unit."""
    try:
        return int(text) if text.isdigit() else interval_ms(text)
    except SettingsError:
        return default
