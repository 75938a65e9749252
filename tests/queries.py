"""Streaming queries in plain PySpark for the tests of the check."""

import contextlib
import json
import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from eagre.waiting import wait_until

SCHEMA = "id STRING, card STRING, amount DOUBLE, n INT, tags ARRAY<STRING>, at TIMESTAMP"
REAL_TIME = {"realTime": "5 seconds"}


@dataclass
class CheckSetup:
    """A session, sources and sinks for the queries of the corpus."""

    spark: Any
    brokers: str
    folder: Any
    checkpoints: list = field(default_factory=list)

    def read(self, topic="corpus", **options):
        reader = self.spark.readStream.format("kafka").options(
            **{"kafka.bootstrap.servers": self.brokers, "subscribe": topic, **options}
        )
        parsed = F.from_json(F.col("value").cast("string"), SCHEMA)
        return reader.load().select(
            *(parsed[name].alias(name) for name in ("id", "card", "amount", "n", "tags", "at"))
        )

    @property
    def rows(self):
        return self.read()

    @property
    def assigned(self):
        options = {"kafka.bootstrap.servers": self.brokers, "assign": '{"corpus": [0, 2]}'}
        return self.spark.readStream.format("kafka").options(**options).load().select("value")

    @property
    def matching(self):
        options = {"kafka.bootstrap.servers": self.brokers, "subscribePattern": "corpus(-2)?"}
        return self.spark.readStream.format("kafka").options(**options).load().select("value")

    @property
    def selected(self):
        self.rows.createOrReplaceTempView("corpus_rows")
        return self.spark.sql("SELECT card, amount * 2 AS double FROM corpus_rows WHERE n > 0")

    @property
    def timed(self):
        return self.rows.withWatermark("at", "10 seconds")

    @property
    def table(self):
        return self.spark.createDataFrame([("c1", "gold")], "card STRING, class STRING")

    def write(self, df, *, mode="update", trigger=None, encode=True, kind="kafka", **options):
        rows = df.select(F.to_json(F.struct("*")).alias("value")) if encode else df
        kafka = {"kafka.bootstrap.servers": self.brokers, "topic": "corpus-out"}
        writer = rows.writeStream.format(kind).outputMode(mode)
        options = {**(kafka if kind == "kafka" else {}), **options}
        self.checkpoints.append(self.folder / f"checkpoint-{len(self.checkpoints)}")
        return writer.options(checkpointLocation=str(self.checkpoints[-1]), **options).trigger(
            **(trigger or REAL_TIME)
        )


def outcome(spark, writer):
    """Start the query: return an empty text if its tasks run, or the reason why they do not."""
    try:
        query = writer.start()
    except (PySparkException, Py4JJavaError) as error:
        return str(error)
    tracker = spark.sparkContext.statusTracker()
    running = 0

    def decided():
        nonlocal running
        running = running + 1 if tracker.getActiveStageIds() else 0
        return running >= 4 or not query.isActive

    try:
        wait_until(decided, 30, "the query neither ran nor failed", interval=0.1)
        return "" if running >= 4 else str(query.exception())
    finally:
        query.stop()


def send(brokers, topic, *events, partition=None):
    """Send events as JSON, optionally to one partition, and wait for their delivery."""
    producer = Producer({"bootstrap.servers": brokers})
    where = {} if partition is None else {"partition": partition}
    for event in events:
        value = event if isinstance(event, bytes) else json.dumps(event)
        producer.produce(topic, value, **where)
    wait_until(lambda: producer.flush(1) == 0, 10, "the events were not sent")


def received(brokers, topic, seconds, until=None):
    """Read a topic from its beginning for some seconds, or up to a number of records.

    On a slow machine it waits longer for records that are expected.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": f"{topic}-{time.time()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    values = []

    def read():
        record = consumer.poll(0.1)
        if record is not None and not record.error():
            values.append(record.value())
        return until is not None and len(values) >= until

    try:
        if until is None:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                read()
        else:
            with contextlib.suppress(TimeoutError):  # the test says what is missing
                wait_until(read, seconds, "", interval=0)
    finally:
        consumer.close()
    return values
