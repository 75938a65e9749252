"""The cost of Avro as the encoding of state, for decision 21.

``python -m laboratory.state_encoding`` runs each shape with both encodings in turn, in one session
and in real time, and prints the time from a record's timestamp to that of its result, and the CPU
time of the JVM. A shape without state shows the noise.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import functions as F

import eagre as eg
from eagre.broker import EmbeddedBroker, Topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
ENCODINGS = ("unsaferow", "avro")
RATE, SECONDS, WARM, KEYS, ROUNDS = 5_000, 15, 5, 10_000, 3

SHAPES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "without state": lambda df: df.select("card", "n", "_source"),
    "count": lambda df: df.groupBy("card").agg(
        F.count("*").alias("n"), F.max("_source").alias("_source")
    ),
    "deduplicate": lambda df: eg.deduplicate(df, ["card", "n"], "1 minute"),
    "rolling": lambda df: eg.rolling(df, "card", {"1 minute": ["count", "sum(n)"]}),
}


def send(brokers: str, topic: str) -> None:
    """Send rows at a fixed rate, whether or not the pipeline keeps up."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 1})
    began = time.monotonic()
    for number in itertools.count():
        ahead = began + number / RATE - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        if number >= RATE * (WARM + SECONDS):
            break
        card = f"c{number % KEYS}"
        producer.produce(topic, f'{{"card":"{card}","n":{number}}}', card)
        producer.poll(0)
    producer.flush()


def latencies(brokers: str, topic: str, expected: int) -> list[int]:
    """Return the milliseconds between the records' timestamps and those of their results."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "laboratory"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, int]] = []
    while len(found) < expected:
        records = consumer.consume(10_000, 20)
        if not records:
            break
        for record in records:
            origin = dict(record.headers() or ()).get("eagre-origin", b"")
            began = int(origin.split()[-1]) if origin else 0
            found.append((began, record.timestamp()[1]))
    consumer.close()
    measured = [end - began for began, end in found if began]
    return sorted(measured[RATE * WARM :])


def measure(spark: SparkSession, brokers: str, name: str, shape: str) -> tuple[int, int, float]:
    """Run a shape once; return p50 and p99 in ms, and CPU seconds per million rows."""
    topics = Topics(brokers)
    source, output = f"{name}-in", f"{name}-out"
    for topic in (source, output):
        topics.create(topic, 1)
    pipeline = eg.pipeline(
        source=eg.Kafka(source, schema="card STRING, n BIGINT", starting="earliest"),
        sink=eg.Kafka(output, key="card"),
        name=name.replace("-", "_"),
    )(SHAPES[shape])
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]  # noqa: SLF001
    jvm = psutil.Process(int(pid))
    with tempfile.TemporaryDirectory() as folder:
        query = pipeline.start(spark, checkpoint=folder, brokers=brokers, every="5 seconds")
        before = sum(jvm.cpu_times()[:2])
        send(brokers, source)
        ms = latencies(brokers, output, RATE * (WARM + SECONDS))
        cpu = sum(jvm.cpu_times()[:2]) - before
        query.stop()
    p50, p99 = ms[len(ms) // 2], ms[len(ms) * 99 // 100]
    return p50, p99, cpu / (RATE * (WARM + SECONDS)) * 1e6


def main() -> None:
    """Measure each shape with both encodings in turn, and print a table."""
    with EmbeddedBroker() as broker:
        spark = eg.session()
        found: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
        turns = itertools.product(range(ROUNDS), SHAPES, ENCODINGS)
        for number, (_, shape, encoding) in enumerate(turns):
            spark.conf.set(ENCODING, encoding)
            result = measure(spark, broker.address, f"r{number}", shape)
            found.setdefault((shape, encoding), []).append(result)
            sys.stdout.write(f"{shape}, {encoding}: {result}\n")
            sys.stdout.flush()
        for (shape, encoding), results in found.items():
            columns = list(zip(*results, strict=True))
            medians = " | ".join(f"{statistics.median(column):.4g}" for column in columns)
            ranges = "; ".join(f"{min(column):.4g}-{max(column):.4g}" for column in columns)
            sys.stdout.write(f"| {shape} | {encoding} | {medians} | {ranges} |\n")


if __name__ == "__main__":
    main()
