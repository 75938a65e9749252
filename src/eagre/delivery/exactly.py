"""Exactly once by fenced provenance replay: rows go out at once, and replays are harmless.

Each record carries the position of the row that triggered it. A run that begins finds in the output
what the run before delivered since the last commit, and leaves exactly that out when Spark reads
those rows again. ``docs/exactly-once.md`` has the rule for readers, and what is assumed.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from eagre.config import counted
from eagre.delivery.ledger import Ledger
from eagre.errors import BrokerError, CheckpointError
from eagre.jvm import gateway
from eagre.sinks import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from eagre.broker import Topics
    from eagre.broker.topics import Offsets
    from eagre.delivery.checkpoint import Checkpoint
    from eagre.delivery.ledger import Mark
    from eagre.sources import Kafka

FENCE_HEADER = "eagre-fence"
STABLE_SECONDS = 0.2
STABLE_TRIES = 10
CONTROL = "EAGRE_DELIVERY_CONTROL"
"""For the chaos suite: ``off`` or ``maximum`` break exactly once, and the verifier must notice."""


def begin(  # noqa: PLR0913, PLR0917  (what a run is made of)
    spark: SparkSession,
    sink: Kafka,
    outputs: Topics,
    checkpoint: Checkpoint,
    brokers: str | None,
    position: Offsets,
    say: Callable[[str], None],
) -> tuple[Gate, Ledger]:
    """Fence off the run before, and find what it delivered since the last commit.

    The caller holds the checkpoint's lock, so that no other process of this pipeline writes.

    Args:
        spark: The session that will run the query.
        sink: The topic, which asks for exactly once.
        outputs: The topics of the sink's cluster.
        checkpoint: The checkpoint.
        brokers: The cluster, if not the sink's own.
        position: The source offsets from which Spark will read.
        say: Hears what takes time.

    Raises:
        CheckpointError: The output no longer holds what was delivered since the last commit.
    """
    ledger = Ledger.read(checkpoint.path)
    batch, _ = checkpoint.committed()
    first = not ledger.marks
    ledger.begin()
    ends = _stable(outputs, sink.topics)
    if sink.fence == "in-band":
        write_fences(outputs, ends, ledger)
        ends = outputs.ends(sink.topics)
    if first and batch >= 0:
        say("exactly once begins now: what came since the last commit may be repeated this once")
    if first:
        ledger.mark(batch - 1, ends)
        delivered = gateway.nothing_delivered(spark)
    else:
        mark = ledger.before(batch)
        delivered = _scanned(spark, sink, outputs, brokers, mark, ends, ledger, position, say)
        ledger.mark(batch, ends)
    return Gate(f"{ledger.id} {ledger.incarnation}", delivered), ledger


def _scanned(  # noqa: PLR0913, PLR0917
    spark: SparkSession,
    sink: Kafka,
    outputs: Topics,
    brokers: str | None,
    mark: Mark,
    ends: Offsets,
    ledger: Ledger,
    position: Offsets,
    say: Callable[[str], None],
) -> object:
    """Read the output from a mark to the fence."""
    begins = outputs.begins(sink.topics)
    starts = {
        topic: {p: mark.ends.get(topic, {}).get(p, begins[topic][p]) for p in partitions}
        for topic, partitions in ends.items()
    }
    for topic, partitions in starts.items():
        for p, start in partitions.items():
            if begins[topic][p] > start:
                raise CheckpointError(
                    "OUTPUT_EXPIRED",
                    f"{topic}/{p} begins at offset {begins[topic][p]}, and what was delivered "
                    f"since the last commit at {start}: the topic's retention took it away.",
                    hint="keep the output longer than a downtime. To go on and repeat once what "
                    f"came since the last commit, remove {ledger.path}.",
                )
    waiting = sum(ends[t][p] - starts[t][p] for t in ends for p in ends[t])
    control = os.environ.get(CONTROL, "set")
    if not waiting or control == "off":
        return gateway.nothing_delivered(spark)
    say(f"looking at {counted(waiting, 'record')} of the output for what was delivered")
    options = {
        **{k: v for k, v in sink.connector_options(brokers).items() if k.startswith("kafka.")},
        "subscribe": ",".join(sink.topics),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }
    fenced = mark.incarnation if sink.fence == "in-band" else 0
    delivered = gateway.scan_delivered(
        spark, options, ledger.id, fenced, json.dumps(position), control
    )
    found = gateway.delivered_size(spark, delivered)
    say(f"{counted(found, 'result')} since the last commit will not be repeated")
    return delivered


def _stable(outputs: Topics, names: tuple[str, ...]) -> Offsets:
    """Wait until the output ends where it ended a moment ago: the broker may still be writing.

    Not for ever: others may write to the topic all the time.
    """
    ends = outputs.ends(names)
    for _ in range(STABLE_TRIES):
        time.sleep(STABLE_SECONDS)
        again = outputs.ends(names)
        if again == ends:
            break
        ends = again
    return ends


def write_fences(outputs: Topics, ends: Offsets, ledger: Ledger) -> None:
    """Write a fence into each partition of the output: what an older run writes after it is void.

    Raises:
        BrokerError: The cluster did not take them.
    """
    from confluent_kafka import Producer

    producer = Producer({**outputs.client_settings, "enable.idempotence": True})
    failed: list[str] = []
    told = {"eagre": "fence", "pipeline": ledger.id, "incarnation": ledger.incarnation}

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    for topic, partitions in ends.items():
        for partition in partitions:
            producer.produce(
                topic,
                json.dumps(told).encode(),
                partition=partition,
                headers={FENCE_HEADER: f"{ledger.id} {ledger.incarnation}".encode()},
                on_delivery=delivered,
            )
    left = producer.flush(30)
    if failed or left:
        raise BrokerError(
            "FENCE_REFUSED",
            f"the fences could not be written: {failed[0] if failed else 'no answer within 30 s'}.",
            hint="check that the pipeline may write to its output topic.",
        )
