"""Exactly-once delivery by fenced provenance replay: results are visible immediately.

Each result carries the position of the row that triggered it. When a run starts, it scans the
output for what the previous run delivered since the last commit. When Spark reads those rows again,
the replay filter drops exactly these results. ``docs/explanation/exactly-once.md`` describes the
rule for readers and the assumptions.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagre.broker.replication import replicated_ends
from eagre.broker.topics import offsets_of
from eagre.commit.delivery_log import DeliveryLog
from eagre.config import counted
from eagre.connectors import ReplayFilter
from eagre.connectors.error_policy import SUFFIX
from eagre.errors import BrokerError, CheckpointError
from eagre.jvm import gateway

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from eagre.broker import Topics
    from eagre.broker.topics import Offsets
    from eagre.commit.checkpoint import Checkpoint
    from eagre.commit.delivery_log import OutputSnapshot
    from eagre.connectors import KafkaSink, KafkaSource

FENCE_HEADER = "eagre-fence"
BY_KEY = "*"
"""Stands for the topic in the identity of a result that is identified by its key, not its row."""
STABLE_SECONDS = 0.2
STABLE_TRIES = 10
CONTROL = "EAGRE_DELIVERY_CONTROL"
"""For the chaos suite: ``off`` or ``maximum`` break exactly once; the verifier must detect it."""


@dataclass(frozen=True)
class Outputs:
    """The topics that a pipeline writes to, for results and for dead letters.

    Attributes:
        inputs: The pipeline's sources; their dead letters are on the same cluster.
        sink: The pipeline's exactly-once sink.
        sources: The topics of the sources' cluster.
        sinks: The topics of the sink's cluster.
        client_id: The client id of the sink's producers.
    """

    inputs: tuple[KafkaSource, ...]
    sink: KafkaSink
    sources: Topics
    sinks: Topics
    client_id: str = ""

    def results(self) -> Offsets:
        """Return the end offsets of the results."""
        return self.sinks.ends(self.sink.topics)

    def dead_letters(self) -> Offsets:
        """Return the end offsets of the dead letters, if there are any."""
        names = (t + SUFFIX for source in self.inputs for t in source.topics)
        existing = self.sources.describe(names)
        return self.sources.ends(existing) if existing else {}

    def reach(self, delivered: str) -> Offsets:
        """Return the highest source offsets among the delivered results.

        A result that is identified by its key does not name its row. It may come from any row that
        is in the sources now. Those of a source that the pipeline no longer reads never come again.
        """
        offsets = offsets_of(json.loads(delivered))
        topics = {topic for source in self.inputs for topic in source.topics}
        if BY_KEY not in offsets:
            return {topic: offsets[topic] for topic in topics & offsets.keys()}
        ends = self.sources.ends(topics)
        return {t: {p: end - 1 for p, end in ends[t].items() if end} for t in ends}

    def stable(self) -> tuple[Offsets, Offsets]:
        """Return the end offsets, with all that the leaders hold, when they no longer change.

        A broker may still be writing requests that it has received. The wait is limited, because
        other producers may write to the topics continuously.
        """
        now = self._replicated()
        for _ in range(STABLE_TRIES):
            time.sleep(STABLE_SECONDS)
            before, now = now, self._replicated()
            if now == before:
                break
        return now

    def _replicated(self) -> tuple[Offsets, Offsets]:
        return (
            replicated_ends(self.sinks, self.results()),
            replicated_ends(self.sources, self.dead_letters()),
        )


def begin(
    spark: SparkSession,
    outputs: Outputs,
    checkpoint: Checkpoint,
    position: Offsets,
    say: Callable[[str], None],
) -> tuple[ReplayFilter, DeliveryLog]:
    """Fence the previous run, and find what it delivered since the last commit.

    The caller holds the checkpoint's lock, so no other process of this pipeline writes.

    Args:
        spark: The session that will run the query.
        outputs: The topics that the pipeline writes to.
        checkpoint: The checkpoint.
        position: The source offsets from which Spark will read.
        say: Receives messages about progress.

    Raises:
        CheckpointError: The output no longer holds what was delivered since the last commit.
    """
    delivery_log = DeliveryLog.read(checkpoint.path)
    batch, _ = checkpoint.committed()
    first = not delivery_log.snapshots
    delivery_log.begin()
    gateway.flush_producers(spark, outputs.client_id)
    results, dead_letters = outputs.stable()
    if outputs.sink.fence == "in-band":
        write_fences(outputs.sinks, results, delivery_log)
        results = outputs.results()
    prefix = f"{delivery_log.id} {delivery_log.incarnation}"
    if first:
        if batch >= 0:
            say("exactly once starts now: results since the last commit may be duplicated once")
        delivery_log.add_snapshot(batch - 1, {**results, **dead_letters})
        return ReplayFilter(prefix, gateway.nothing_delivered(spark)), delivery_log
    scan = _Scan(spark, delivery_log, delivery_log.before(batch), json.dumps(position), say)
    delivered = scan.results(outputs, results)
    written = scan.dead_letters(outputs, dead_letters)
    delivery_log.reach = outputs.reach(gateway.reach(spark, delivered, written))
    if delivery_log.passed(position):
        delivery_log.add_snapshot(batch, {**results, **dead_letters})
    return ReplayFilter(prefix, delivered, written), delivery_log


@dataclass(frozen=True)
class _Scan:
    """Scans the output between a snapshot and the fence."""

    spark: SparkSession
    delivery_log: DeliveryLog
    since: OutputSnapshot
    position: str
    say: Callable[[str], None]

    def results(self, outputs: Outputs, ends: Offsets) -> object:
        """Collect the results since the last commit."""
        control = os.environ.get(CONTROL, "set")
        sink = outputs.sink
        part, waiting = self._part(outputs.sinks, ends, sink.client_settings())
        if not waiting or control == "off":
            return gateway.nothing_delivered(self.spark)
        self.say(f"scanning {counted(waiting, 'record')} of the output for delivered results")
        delivered = gateway.scan_delivered(
            self.spark,
            part,
            self.delivery_log.id,
            self.since.incarnation if sink.fence == "in-band" else 0,
            self.position,
            control,
        )
        count = gateway.delivered_size(self.spark, delivered)
        self.say(f"{counted(count, 'result')} since the last commit will not be repeated")
        return delivered

    def dead_letters(self, outputs: Outputs, ends: Offsets) -> str:
        """Collect the dead letters since the last commit."""
        settings = outputs.inputs[0].client_settings()
        part, waiting = self._part(outputs.sources, ends, settings)
        if not waiting:
            return ""
        self.say(f"scanning {counted(waiting, 'dead letter')}")
        return gateway.scan_dead_letters(self.spark, part, self.delivery_log.id, self.position)

    def _part(
        self, topics: Topics, ends: Offsets, settings: dict[str, str]
    ) -> tuple[gateway.OffsetRange, int]:
        """Return the part to scan and its number of records."""
        begins = topics.begins(ends) if ends else {}
        starts = {
            topic: {p: self.since.ends.get(topic, {}).get(p, begins[topic][p]) for p in partitions}
            for topic, partitions in ends.items()
        }
        for topic, partitions in starts.items():
            for p, start in partitions.items():
                if begins[topic][p] > start:
                    raise self._expired(f"{topic}/{p}", begins[topic][p], start)
        waiting = sum(ends[t][p] - starts[t][p] for t in ends for p in ends[t])
        return gateway.OffsetRange(settings, json.dumps(starts), json.dumps(ends)), waiting

    def _expired(self, partition: str, begins: int, start: int) -> CheckpointError:
        return CheckpointError(
            "OUTPUT_EXPIRED",
            f"{partition} starts at offset {begins}, but the results since the last commit start "
            f"at {start}: the topic's retention deleted them.",
            hint="set the retention of the output longer than any downtime. To continue, and "
            f"accept duplicates since the last commit once, remove {self.delivery_log.path}.",
        )


def write_fences(outputs: Topics, ends: Offsets, delivery_log: DeliveryLog) -> None:
    """Write a fence into each output partition: readers ignore what an older run writes after it.

    Raises:
        BrokerError: The cluster rejected a fence or did not respond.
    """
    from confluent_kafka import Producer

    producer = Producer({**outputs.client_settings, "enable.idempotence": True})
    failed: list[str] = []
    fence = {"eagre": "fence", "pipeline": delivery_log.id, "incarnation": delivery_log.incarnation}

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    for topic, partitions in ends.items():
        for partition in partitions:
            producer.produce(
                topic,
                json.dumps(fence).encode(),
                partition=partition,
                headers={FENCE_HEADER: f"{delivery_log.id} {delivery_log.incarnation}".encode()},
                on_delivery=delivered,
            )
    pending = producer.flush(30)
    if failed or pending:
        raise BrokerError(
            "FENCE_REFUSED",
            f"the fences could not be written: {failed[0] if failed else 'no answer within 30 s'}.",
            hint="check that the pipeline has permission to write to its output topic.",
        )
