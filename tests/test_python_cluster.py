"""Python functions on a Spark standalone cluster of two workers, with the app's modules."""

import json

import pytest
from confluent_kafka import Producer

from conftest import kill_children
from eagre import cluster as clusters
from eagre.waiting import wait_until

pytestmark = pytest.mark.e2e

APP = """
import os
import eagre as eg
from helper import doubled
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

class Count(StatefulProcessor):
    def init(self, handle):
        self.seen = handle.getValueState("seen", "n LONG")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            known = self.seen.get()
            n = (known[0] if known else 0) + 1
            self.seen.update((n,))
            yield key[0], n, row.m, row.pid, os.getppid()

    def close(self): ...

@eg.udf("int")
def twice(n):
    return doubled(n)

@eg.udf("int")
def pid(n):
    return os.getppid()

@eg.pipeline(source=eg.Kafka("cluster-in", schema="key STRING, n INT", partitions=2),
    sink=eg.Kafka("cluster-out"))
def clustered(df):
    called = df.withColumn("m", twice("n")).withColumn("pid", pid("n"))
    return eg.transform_with_state(
        called.groupBy("key"), Count(),
        "key STRING, n LONG, m INT, pid INT, state_pid INT").drop("_source")
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The URL of a master with two workers, each with two cores."""
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "state"))
    running = clusters.start(tmp_path / "cluster", workers=2, cores=2, memory="1g")
    yield running.url
    clusters.stop(running)


def test_functions_and_state_run_on_two_executors(cli, cluster, eagre_broker, eagre_harness):
    cli.app("def doubled(n):\n    return n * 2\n", "helper.py")
    app = cli.app(APP)
    eagre_harness.topics.create("cluster-in", 2)
    eagre_harness.topics.create("cluster-out", 1)
    producer = Producer({"bootstrap.servers": eagre_broker.address})
    for n in range(40):
        row = json.dumps({"key": f"k{n % 8}", "n": n})
        producer.produce("cluster-in", row, partition=n % 2)
    producer.produce("cluster-in", "{ not JSON", partition=1)
    producer.flush()
    settings = (
        *("spark.executor.memory=512m", "spark.executor.cores=2", "spark.cores.max=4"),
        "spark.scheduler.minRegisteredResourcesRatio=1",  # the first task waits for both executors
    )
    options = " ".join(f"--conf {setting}" for setting in settings)
    process = cli.start(
        *("run", app, "--master", cluster, "--brokers", eagre_broker.address),
        *("--from", "earliest", "--every", "10 s"),
        PYSPARK_SUBMIT_ARGS=f"{options} pyspark-shell",
    )
    try:

        def results():
            assert process.poll() is None, process.communicate()[1][-3000:]
            return eagre_harness.records("cluster-out", {0: 0})

        wait_until(lambda: len(results()) >= 40, 120, "results are missing", interval=1)
        rows = [json.loads(record.value()) for record in results()]
        dead_letter_topic = "cluster-in.dlq"
        wait_until(
            lambda: dead_letter_topic in eagre_harness.topics.names(),
            20,
            "no dead letter was written",
        )
        wait_until(
            lambda: eagre_harness.topics.ends([dead_letter_topic])[dead_letter_topic][0] == 1,
            20,
            "the dead-letter topic is empty",
        )
    finally:
        kill_children(process)
        process.kill()
        process.communicate()
    assert sorted(row["m"] for row in rows) == [n * 2 for n in range(40)]
    assert sorted(row["n"] for row in rows) == sorted(list(range(1, 6)) * 8)
    # Two tasks call functions and two keep state, on four cores: where each goes is Spark's choice.
    executors = {row["pid"] for row in rows} | {row["state_pid"] for row in rows}
    assert len(executors) == 2, "each executor has its own workers"
