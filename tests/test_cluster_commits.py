"""Mid-epoch commits, recovery and drains on a Spark standalone cluster with two workers."""

import json
import time
from collections import Counter
from itertools import count

import psutil
import pytest
from confluent_kafka import Producer

from conftest import processes_of
from eagre import cluster as clusters
from eagre.broker import Topics
from eagre.commit import Checkpoint
from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS
from eagre.waiting import wait_until
from test_run import run  # noqa: F401  (a fixture)

pytestmark = pytest.mark.e2e

APP = """
import eagre as eg
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

class Count(StatefulProcessor):
    def init(self, handle):
        self.seen = handle.getValueState("seen", "c LONG")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            self.seen.update(((self.seen.get() or (0,))[0] + 1,))
            yield key[0], row.n, self.seen.get()[0]

    def close(self): ...

@eg.udf("bigint")
def same(n):
    return n

@eg.pipeline(
    source=eg.Kafka(
        "{name}-in", schema="card STRING, n BIGINT", partitions=2, partitioned_by="card"
    ),
    sink=eg.Kafka("{name}-out", key="card", delivery="exactly-once"),
)
def {name}(df):
    return {body}
"""
BODIES = {
    "rows": 'df.where("n % 2 = 0").select("card", "n")',
    "aggregate": 'df.groupBy("card").agg(F.max("n").alias("n"), F.count("*").alias("c"))',
    "python": 'eg.transform_with_state(df.withColumn("n", same("n")).groupBy("card"), Count(), '
    '"card STRING, n BIGINT, c LONG")',
}
SLOW = """
    def handleInputRows(self, key, rows, timerValues):
        import time
        for row in rows:
            time.sleep(0.03)
            yield from super().handleInputRows(key, [row], timerValues)
"""
CARDS = 20
SETTINGS = (
    "spark.executor.memory=600m",
    "spark.executor.cores=2",
    "spark.sql.shuffle.partitions=2",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A master with two workers of two cores each."""
    folder = tmp_path_factory.mktemp("cluster")
    running = clusters.start(folder, workers=2, cores=2, memory="1500m")
    yield running
    clusters.stop(running)


@pytest.fixture
def start(cli, run, cluster, eagre_broker):  # noqa: F811
    """Start a pipeline on the cluster; it commits every five seconds."""
    confs = [word for setting in SETTINGS for word in ("--conf", setting)]

    def started(app, *options):
        where = ("--master", cluster.url, "--brokers", eagre_broker.address)
        return run(app, *where, *confs, "--every", "5 seconds", "--from", "earliest", *options)

    return started


class Load:
    """Writes rows with a key each, which is always in the same partition."""

    def __init__(self, brokers, topic):
        self.topic, self.rows = topic, 0
        self._producer = Producer({"bootstrap.servers": brokers})

    def write(self, number):
        for _ in range(number):
            card = self.rows % CARDS
            row = json.dumps({"card": f"c{card}", "n": self.rows})
            self._producer.produce(self.topic, row, f"c{card}", partition=card % 2)
            self.rows += 1
        self._producer.flush()


def expected(shape, number):
    """Return the results of the first rows: all of them, once each."""
    if shape == "rows":
        return Counter((f"c{n % CARDS}", n) for n in range(0, number, 2))
    return Counter((f"c{n % CARDS}", n, n // CARDS + 1) for n in range(number))


def results(harness, topic):
    rows = (json.loads(record.value()) for record in harness.records(topic, {0: 0}))
    return Counter(tuple(row[key] for key in ("card", "n", "c") if key in row) for row in rows)


def executors(cluster):
    """Return the executors of the cluster as processes."""
    name = "CoarseGrainedExecutorBackend"
    folder = cluster.folder
    return [p for p in processes_of(folder) if any(name in word for word in p.info["cmdline"])]


def await_commit(checkpoint, load, timeout=90):
    """Wait until a commit within the epoch covers every row."""
    position = {load.topic: dict.fromkeys(range(2), load.rows // 2)}
    wait_until(lambda: checkpoint.reached() == position, timeout, "no commit covers the rows")
    assert checkpoint.last_commit() == -1 or (checkpoint.path / MID_EPOCH_COMMITS).exists()


@pytest.mark.parametrize("shape", BODIES)
def test_a_killed_driver_continues_from_a_commit(cli, start, eagre_harness, shape):
    name = f"cl_{shape}"
    app = cli.app(APP.format(name=name, body=BODIES[shape]), f"{name}.py")
    checkpoint = Checkpoint(cli.folder / ".eagre" / "checkpoints" / name)
    running = start(app)
    running.wait_for("running in real-time, commits every 5 s")
    load = Load(eagre_harness.brokers, f"{name}-in")
    load.write(200)
    await_commit(checkpoint, load)
    assert checkpoint.last_commit() == -1, "Spark's epoch continues"
    committed = expected(shape, load.rows)
    load.write(200)
    wait_until(
        lambda: results(eagre_harness, f"{name}-out") > committed, 60, "no results after a commit"
    )
    for process in psutil.Process(running.process.pid).children(recursive=True):
        process.kill()
    running.wait_for("Starting again immediately (1 of 10)")
    load.write(200)
    whole = expected(shape, load.rows)
    wait_until(lambda: results(eagre_harness, f"{name}-out") >= whole, 120, "results are missing")
    await_commit(checkpoint, load)
    assert running.end() == 0
    assert running.has("drained")
    assert results(eagre_harness, f"{name}-out") == whole


def test_a_lost_executor_restarts_the_query_in_its_session(cli, start, cluster, eagre_harness):
    """The driver stays; nothing is lost or repeated."""
    app = cli.app(APP.format(name="cl_lost", body=BODIES["aggregate"]))
    checkpoint = Checkpoint(cli.folder / ".eagre" / "checkpoints" / "cl_lost")
    running = start(app)
    running.wait_for("running in real-time")
    load = Load(eagre_harness.brokers, "cl_lost-in")
    load.write(200)
    await_commit(checkpoint, load)
    for kill in count(1):
        load.write(100)
        began = time.monotonic()
        executors(cluster)[kill % 2].kill()
        load.write(100)
        whole = expected("aggregate", load.rows)
        wait_until(lambda: results(eagre_harness, "cl_lost-out") >= whole, 120, "results missing")  # noqa: B023
        print(f"results after {time.monotonic() - began:.1f} s")  # noqa: T201
        await_commit(checkpoint, load)
        if kill == 2:
            break
    assert running.end() == 0
    assert results(eagre_harness, "cl_lost-out") == whole
    assert running.has("starts again in this session")
    assert not running.has("Starting again"), "the driver was not started again"


def test_a_slow_processor_commits_within_a_backlog(cli, start, eagre_harness):
    """The rows on their way to it are bounded by the time that they take."""
    slow = BODIES["python"].replace("Count()", "Slow()")
    text = APP.replace("@eg.udf", "class Slow(Count):\n" + SLOW + "\n@eg.udf", 1)
    app = cli.app(text.format(name="cl_slow", body=slow))
    checkpoint = Checkpoint(cli.folder / ".eagre" / "checkpoints" / "cl_slow")
    Topics(eagre_harness.brokers).create("cl_slow-in", 2)
    load = Load(eagre_harness.brokers, "cl_slow-in")
    load.write(3_000)
    running = start(app)
    wait_until(checkpoint.reached, 120, "no commit")
    assert sum(checkpoint.reached()["cl_slow-in"].values()) < 3_000, "the backlog was too small"
    assert running.end() == 0
    assert not running.has("delivery of the last results is unconfirmed")
    covered = sum(checkpoint.reached()["cl_slow-in"].values())
    assert sum(results(eagre_harness, "cl_slow-out").values()) == covered < 3_000


def test_a_full_cluster_is_reported(cli, start, eagre_broker):
    Topics(eagre_broker.address).create("cl_full-in", 6)
    app = cli.app(APP.format(name="cl_full", body=BODIES["aggregate"]))
    running = start(app)
    running.wait_for("waiting for 8 task slots of the cluster")
    full = "CLUSTER_FULL: the query needs 8 task slots, and the cluster has given 4"
    running.wait_for(full, 300)
    assert running.process.wait(60) == 1


def test_the_cluster_is_asked_for_its_capacity(cli, cluster, eagre_broker):
    """Without ``spark.cores.max`` a standalone cluster decides how many cores there are."""
    Topics(eagre_broker.address).create("cl_asked-in", 6)
    app = cli.app(APP.format(name="cl_asked", body=BODIES["aggregate"]))
    words = (app, "--master", cluster.url, "--brokers", eagre_broker.address, "--json", "-")
    checked = cli("check", *words)
    [report] = json.loads(checked.stdout)["pipelines"]
    assert report["slots"]["needed"] > 4
    assert (report["slots"]["available"], report["slots"]["executors"]) == (4, 2)
    assert checked.returncode == 1
    assert "SLOTS_TOO_FEW" in [found["id"] for found in report["findings"]]
    size = json.loads(cli.ok("size", *words).stdout)
    assert size["cluster"] == {"executors": 2, "slots": 4, "enough": False}
    steps = json.loads(cli.ok("advise", *words, "--p99", 100).stdout)["arithmetic"]
    assert "the cluster gives 2 executors with 4 slots" in steps
