"""Settings that multiply the latency of an otherwise sound query."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eagre.config import interval_ms
from eagre.errors import SettingsError
from eagre.preflight.facts import number
from eagre.preflight.finding import Match, rule
from eagre.profile import CHOICE, DEFAULT, GC_OPTIONS, clients, java_options

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
"""The first Kafka release whose producer lingers for 5 ms by default."""


@rule(
    "EPOCH_SHORT",
    "error",
    "Spark refuses to start the query.",
    "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL",
)
def epoch_short(facts: Facts) -> Iterator[Match]:
    """The interval of a real-time trigger is its epoch, not its latency; the minimum is 5 seconds.

    Rows leave immediately, whatever the length of the epoch. At the epoch boundary, Spark commits
    offsets and state, and the query pauses for a moment. For tests,
    `spark.sql.streaming.realTimeMode.minBatchDuration` lowers the minimum.
    """
    least = _ms(facts.setting(MINIMUM_EPOCH, ""), MINIMUM_EPOCH_MS)
    if 0 < facts.plan.every_ms < least:
        yield Match(
            "trigger",
            f"an epoch of {facts.plan.every_ms:,} ms is below the minimum of {least:,} ms.",
            "keep --every at its default of 1 minute; the epoch does not delay rows.",
            numbers={"epoch_ms": facts.plan.every_ms, "minimum_ms": least},
        )


@rule(
    "EPOCH_LONG",
    "warning",
    "After a failure the query computes and sends all results since the start of the epoch again.",
)
def epoch_long(facts: Facts) -> Iterator[Match]:
    """A restart repeats the current epoch, and a drain waits for its end.

    Ten minutes at 2,000 rows per second are 1.2 million rows to read again before the first new
    one. The default is one minute: its boundary affects fewer than one row in a hundred.
    """
    if facts.plan.every_ms > LONG_EPOCH_MS:
        yield Match(
            "trigger",
            f"after a failure the query repeats up to {facts.plan.every_ms / 60_000:g} minutes.",
            "shorten it: --every '1 minute'.",
            numbers={"epoch_ms": facts.plan.every_ms},
        )


@rule("BUFFER_WAIT", "warning", "At low rates, each row waits that long in each shuffle.")
def buffer_wait(facts: Facts) -> Iterator[Match]:
    """The streaming shuffle sends a buffer when it is full, or after 50 ms by default.

    Measured at 2,000 rows per second, the median latency is 34 ms with a wait of 50 ms, and 8 ms
    with 1 ms. Eagre's profile sets 1 ms.
    """
    waits = _ms(facts.setting(BUFFER_WAIT, ""), BUFFER_WAIT_DEFAULT)
    if facts.plan.exchanges and waits > BUFFER_WAIT_MS:
        yield Match(
            BUFFER_WAIT,
            f"rows wait up to {waits} ms in each of {len(facts.plan.exchanges)} shuffles.",
            "set it to 1.",
            line=facts.plan.exchanges[-1].line,
            numbers={"wait_ms": waits, "shuffles": len(facts.plan.exchanges)},
            settings={BUFFER_WAIT: "1"},
        )


@rule("LINGER", "warning", "Each result waits up to that long in the producer.")
def linger(facts: Facts) -> Iterator[Match]:
    """With `linger.ms`, the producer waits for more records to send in one request.

    The default is 0 in Kafka clients before 4.0, and 5 ms since then. Eagre sets 0, or 5 ms with
    the throughput profile.
    """
    if facts.plan.format != "kafka":
        return
    version = str(facts.plan.jvm["kafka_clients"]).split(".")[0]
    default = 5 if version.isdigit() and int(version) >= NEW_CLIENTS else 0
    waits = number(facts.plan.option("kafka.linger.ms"), default)
    profile_linger = number(clients(facts.setting(CHOICE, DEFAULT)).sink["kafka.linger.ms"], 0)
    if waits > max(LINGER_MS, profile_linger):
        yield Match(
            "option kafka.linger.ms",
            f"the producer waits up to {waits} ms before it sends a record.",
            "set it to 0.",
            numbers={"linger_ms": waits},
            options={"kafka.linger.ms": "0"},
        )


@rule("FETCH_WAIT", "warning", "Records wait in the broker until there are enough of them.")
def fetch_wait(facts: Facts) -> Iterator[Match]:
    """With `fetch.min.bytes`, the broker delays a response until it has that many bytes.

    It waits for at most `fetch.max.wait.ms`, 500 by default. With the default of 1 byte the broker
    responds with the first record, and the wait does not matter.
    """
    for source in facts.plan.sources:
        least = number(source.option("kafka.fetch.min.bytes"), 1)
        longest = number(source.option("kafka.fetch.max.wait.ms"), 500)
        if least > 1 and longest > BUFFER_WAIT_MS:
            yield Match(
                "option kafka.fetch.min.bytes",
                f"the broker waits for {least:,} bytes, up to {longest} ms.",
                "remove the option.",
                numbers={"min_bytes": least, "max_wait_ms": longest},
                options={"kafka.fetch.min.bytes": "1"},
            )


@rule(
    "ACKS",
    "advice",
    "A record may be lost when the leader of its partition fails.",
)
def acks(facts: Facts) -> Iterator[Match]:
    """`acks` is the number of replicas that must have a record before Kafka confirms the write.

    The default, `all`, is safe: each write waits for the slowest in-sync replica. With `1`, a write
    waits only for the leader, and records that are not yet replicated are lost when the leader
    fails. With `0`, the producer never notices an error. Keep `all`, unless you can recompute the
    results.
    """
    if facts.plan.option("kafka.acks") in ("0", "1"):
        value = facts.plan.option("kafka.acks")
        yield Match(
            "option kafka.acks",
            f"acks is {value}: records that only the leader has are lost when it fails."
            if value == "1"
            else "acks is 0: the producer never notices a failed write.",
            "keep `all`, unless you can recompute the results.",
            options={"kafka.acks": "all"},
        )


@rule("GC", "warning", "Rows wait while the GC pauses the JVM.")
def serial_gc(facts: Facts) -> Iterator[Match]:
    """The JVM uses the serial GC, which pauses all threads and collects on one.

    The JVM chooses it by default on small machines. On few cores the parallel GC is the fastest.
    Eagre sets it, unless your own options choose another one.
    """
    if "Copy" in facts.plan.jvm["collectors"]:
        options = re.sub(r"-XX:\+Use\w+GC", "", facts.setting(GC_OPTIONS.key, "")).strip()
        better = f"{java_options(int(facts.plan.jvm['heap_mb']))} {options}".strip()
        yield Match(
            GC_OPTIONS.key,
            "the driver uses the serial GC.",
            f"set {better}.",
            settings={GC_OPTIONS.key: better},
        )


@rule("HEAP_SMALL", "warning", "GC pauses are frequent and long; state and buffers may not fit.")
def heap_small(facts: Facts) -> Iterator[Match]:
    """In local mode the driver's heap holds everything except RocksDB's memory.

    Spark's default of one gigabyte is enough for small state. Each shuffle buffer can take 32 MB
    per partition.
    """
    heap = int(facts.plan.jvm["heap_mb"])
    if heap < SMALL_HEAP_MB and facts.slots is not None:
        yield Match(
            "spark.driver.memory",
            f"the driver's heap is {heap} MB.",
            "set it to one gigabyte or more.",
            numbers={"heap_mb": heap},
            settings={"spark.driver.memory": "1g"},
        )


@rule("ADAPTIVE", "advice", "None in real time; in micro-batches, plans may change between runs.")
def adaptive(facts: Facts) -> Iterator[Match]:
    """Adaptive execution re-plans between stages, and in real time all stages run together.

    Real time does not use adaptive execution. A stateful micro-batch query on the same checkpoint
    does not use it either.
    """
    key = "spark.sql.adaptive.enabled"
    if key in facts.settings and facts.on(key) and facts.plan.exchanges:
        yield Match(
            key,
            "adaptive execution is on, and real time does not use it.",
            "remove the setting.",
        )


def _ms(text: str, default: int) -> int:
    """Parse a duration that Spark accepts with or without a unit."""
    try:
        return int(text) if text.isdigit() else interval_ms(text)
    except SettingsError:
        return default
