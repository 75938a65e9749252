"""Faults: a full disk, broken state, a clock that steps back, retention before reading."""

import json
import shutil
import subprocess
import time
from contextlib import suppress

import pytest
from confluent_kafka import Producer, TopicPartition

from eagre.broker import Topics
from eagre.errors import PipelineFailed
from eagre.jvm import gateway
from eagre.runtime.watchdog import Watchdog
from eagre.waiting import wait_until
from test_run import produce, run, written  # noqa: F401  (run is a fixture)

ONCE = """
import eagre as eg
from pyspark.sql import functions as F

@eg.pipeline(
    source=eg.Kafka("{name}-in", schema="card STRING, n BIGINT", partitioned_by="card"),
    sink=eg.Kafka("{name}-out", key="card", delivery="exactly-once"),
)
def {name}(df):
    return df.groupBy("card").agg(F.count("*").alias("count"))
"""


def rows(first, last):
    return [{"card": f"c{n % 3}", "n": n} for n in range(first, last)]


def counts(harness, topic):
    records = harness.records(topic, {0: 0})
    values = [json.loads(record.value()) for record in records]
    return sorted((row["card"], row["count"]) for row in values)


def expected(number):
    return sorted((f"c{card}", n + 1) for card in range(3) for n in range(number // 3))


@pytest.fixture
def small_disk(tmp_path):
    """A separate file system of 16 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    options = ("-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder))
    if not mount or subprocess.run([mount, *options], check=False).returncode:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run([umount, "--lazy", str(folder)], check=True)


def fill(path):
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))


@pytest.mark.e2e
def test_a_full_disk_is_reported_and_nothing_is_lost(cli, run, small_disk, eagre_harness):  # noqa: F811
    at = eagre_harness.brokers
    app = cli.app(ONCE.format(name="full"))
    place = ("--checkpoint", small_disk / "c", "--from", "earliest")
    running = run(app, "--brokers", at, "--every", "5 seconds", *place)
    running.wait_for("running in real-time")
    produce(at, "full-in", rows(0, 30))
    wait_until(lambda: written(at, "full-out") >= 30, 60, "no results were written")
    filler = small_disk / "filler"
    fill(filler)
    produce(at, "full-in", rows(30, 60))
    running.wait_for("DISK_FULL", 60)
    filler.unlink()
    produce(at, "full-in", rows(60, 90))
    wait_until(lambda: written(at, "full-out") >= 90, 90, "the run did not continue")
    assert running.end() == 0, running.output
    assert counts(eagre_harness, "full-out") == expected(90)


@pytest.mark.e2e
def test_broken_state_is_reported_and_a_backup_repairs_it(cli, eagre_broker, eagre_harness):
    at = eagre_broker.address
    args = (cli.app(ONCE.format(name="broken")), "--brokers", at, "--mode", "available-now")
    Topics(at).create("broken-in", 1)
    produce(at, "broken-in", rows(0, 30))
    cli.ok("run", *args)
    cli.ok("checkpoint", "copy", "broken", "saved")
    folder = cli.folder / ".eagre" / "checkpoints" / "broken"
    state = (folder / "state").rglob("*")
    files = [path for path in state if path.suffix in (".zip", ".changelog")]
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:-7])
    produce(at, "broken-in", rows(30, 60))
    refused = cli("run", *args)
    assert refused.returncode == 1
    assert "STATE_BROKEN" in refused.stderr, refused.stderr
    assert "restore the folder from a backup" in refused.stderr
    shutil.rmtree(folder)
    cli.ok("checkpoint", "copy", "saved", folder)
    cli.ok("run", *args)
    assert counts(eagre_harness, "broken-out") == [(f"c{n}", c) for n in range(3) for c in (10, 20)]


def test_a_clock_that_steps_back_does_not_lengthen_an_epoch(eagre_spark):
    """Real-time epochs end by this clock. A manual clock of Spark stands in for the machine's."""
    jvm = eagre_spark._jvm  # noqa: SLF001
    machine = jvm.org.apache.spark.util.ManualClock(10_000_000)
    steady = jvm.dev.eagre.spark.SteadyClock(machine)
    machine.setTime(10_000_000 - 3_600_000)
    time.sleep(0.05)
    assert 10_000_050 <= steady.getTimeMillis() < 10_060_000
    machine.setTime(10_000_000 + 3_600_000)
    assert steady.getTimeMillis() == 13_600_000
    machine.setTime(0)
    assert 13_600_000 <= steady.getTimeMillis() < 13_660_000
    gateway.companion(eagre_spark, "spark.SparkInternals")
    used = jvm.org.apache.spark.sql.execution.datasources.v2.LowLatencyClock.getClock()
    assert used.getClass().getName() == "dev.eagre.spark.SteadyClock"


def test_records_deleted_before_they_are_read_are_reported(eagre_broker):
    topics = Topics(eagre_broker.address)
    topics.create("overtaken", 1)
    producer = Producer({"bootstrap.servers": eagre_broker.address})
    for _ in range(100):
        producer.produce("overtaken", "{}", partition=0)
    producer.flush()
    [deleted] = topics.admin.delete_records([TopicPartition("overtaken", 0, 80)]).values()
    deleted.result(10)
    topic = topics.describe(["overtaken"])["overtaken"]
    watchdog = Watchdog(topics, {"overtaken": (topic.id, 1)}, lambda *_, **__: None)
    with pytest.raises(PipelineFailed, match=r"RETENTION_OVERTOOK.* 30 records are lost"):
        watchdog.observe(0, 50, {("overtaken", 0): 50})
