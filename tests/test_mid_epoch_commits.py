"""Mid-epoch commits: pipelines commit while Spark's epoch continues."""

import json
import signal
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import eagre as eg
from conftest import processes_of
from eagre.broker import Topics
from eagre.commit import Checkpoint, MidEpochCommit
from eagre.commit.mid_epoch_commit import (
    FOLDER_BEFORE_0_3,
    MID_EPOCH_COMMITS,
    RETAINED,
    numbered,
)
from eagre.errors import CheckpointError
from eagre.jvm import gateway
from eagre.waiting import wait_until
from test_run import APP, produce, run, written  # noqa: F401  (run is a fixture)
from test_supervision import jvm_of, status

EVERY = ("--every", "5 seconds", "--from", "earliest")


def records(at, topic):
    end = written(at, topic)
    consumer = Consumer({"bootstrap.servers": at, "group.id": "any", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while len(values) < end:
        found = consumer.consume(min(end - len(values), 100_000), 5)
        values += [json.loads(message.value()) for message in found]
    consumer.close()
    return values


def results(at, topic):
    return [row["n"] for row in records(at, topic)]


def rows(numbers):
    return [{"card": "c", "n": n} for n in numbers]


def checkpoint_of(cli, name):
    return Checkpoint(cli.folder / ".eagre" / "checkpoints" / name)


def until_reached(checkpoint, position):
    """Wait until everything up to a position is delivered and committed."""
    try:
        wait_until(lambda: checkpoint.reached() == position, 90, "")
    except TimeoutError:
        pytest.fail(f"the checkpoint is at {checkpoint.reached()}, not at {position}")


SAME = 'eg.udf(returns="BIGINT")(lambda n: n)'


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["filtered", "called"])
def test_a_killed_run_resumes_from_its_commit(cli, run, eagre_broker, name):  # noqa: F811
    at = eagre_broker.address
    even = 'where("n % 2 = 0")' if name == "filtered" else f'where({SAME}("n") % 2 == 0)'
    app = cli.app(APP.format(name=name, body=even))
    running = run(app, "--brokers", at, *EVERY)
    running.wait_for("running in real-time, commits every 5 s")
    produce(at, f"{name}-in", rows(range(100)))
    checkpoint = checkpoint_of(cli, name)
    until_reached(checkpoint, {f"{name}-in": {0: 100}})
    assert checkpoint.last_commit() == -1, "Spark's epoch continues"
    wait_until(lambda: status(cli)[name]["commits"] >= 1, 10, "the status shows no commit")
    jvm_of(cli).kill()
    running.wait_for("Starting again immediately")
    produce(at, f"{name}-in", rows(range(100, 110)))
    wait_until(lambda: written(at, f"{name}-out") >= 55, 60, "the run did not continue")
    assert running.end() == 0
    assert results(at, f"{name}-out") == list(range(0, 110, 2))
    assert (checkpoint.last_commit(), checkpoint.mid_epoch_commit()) == (1, None), (
        "Spark's logs contain the commit now"
    )
    assert checkpoint.committed()[1] == {f"{name}-in": {0: 110}}


SLOW = """
import time
import eagre as eg
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

@eg.udf(returns="BIGINT")
def slow(n):
    time.sleep(0.1)
    return n

@eg.batch_udf("BIGINT")
def slow_list(numbers):
    time.sleep(0.1 * len(numbers))
    return numbers

class Slow(StatefulProcessor):
    def init(self, handle):
        self.seen = handle.getValueState("seen", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        for _ in rows:
            time.sleep(0.1)
            n = (self.seen.get() or (0,))[0]
            self.seen.update((n + 1,))
            yield key[0], n

    def close(self):
        pass

def processed(df):
    return eg.transform_with_state(df.groupBy("card"), Slow(), "card STRING, n BIGINT")

@eg.pipeline(
    source=eg.Kafka("{name}-in", schema="card STRING, n BIGINT", partitioned_by="card"),
    sink=eg.Kafka("{name}-out", delivery="{delivery}"),
)
def {name}(df):
    return df.{body}
"""
SLOW_SHAPES = {
    "function": ("at-least-once", 'select("card", slow("n").alias("n"))'),
    "batch": ("at-least-once", 'select("card", slow_list("n").alias("n"))'),
    "counted": (
        "exactly-once",
        'withColumn("m", slow("n")).groupBy("card").agg((F.count("m") - 1).alias("n"))',
    ),
    "processor": ("at-least-once", "transform(processed)"),
}


@pytest.mark.e2e
@pytest.mark.parametrize("shape", SLOW_SHAPES)
def test_a_function_of_100_ms_with_a_backlog(cli, run, eagre_broker, shape):  # noqa: F811
    """Commits keep coming; a kill repeats only what came since the last one; a stop nothing."""
    at, name, (delivery, body) = eagre_broker.address, f"slow_{shape}", SLOW_SHAPES[shape]
    Topics(at).create(f"{name}-in", 1)
    produce(at, f"{name}-in", rows(range(5_000)))
    app = cli.app(SLOW.format(name=name, delivery=delivery, body=body))
    running = run(app, "--brokers", at, *EVERY)
    running.wait_for("running in real-time, commits every 5 s")
    checkpoint, commits = checkpoint_of(cli, name), {}
    begin = time.monotonic()

    def committed():
        position = checkpoint.reached().get(f"{name}-in", {}).get(0, 0)
        commits.setdefault(position, time.monotonic() - begin)
        return len(commits) > 5

    wait_until(committed, 120, "no commits")
    jvm_of(cli).kill()
    killed, position = written(at, f"{name}-out"), checkpoint.reached()[f"{name}-in"][0]
    running.wait_for("Starting again immediately")
    wait_until(lambda: written(at, f"{name}-out") > killed + 20, 90, "the run did not continue")
    assert running.end() == 0
    assert not running.has("no commit for")
    done = checkpoint.committed()[1][f"{name}-in"][0]
    assert done < 5_000, "the backlog was too small"
    repeated = range(position, killed) if delivery == "at-least-once" else ()
    assert sorted(results(at, f"{name}-out")) == sorted([*range(done), *repeated])
    print(commits)  # noqa: T201  (positions, and seconds since the start)


MILLION = """
import eagre as eg
from pyspark.sql import functions as F

@eg.pipeline(
    source=eg.Kafka("million-in", schema="n BIGINT"),
    sink=eg.Kafka("million-out", delivery="exactly-once"),
)
def million(df):
    return df.select(F.explode(F.sequence(F.lit(1), "n")).alias("n"))
"""


@pytest.mark.e2e
def test_a_record_with_a_million_results_repeats_none(cli, run, eagre_broker):  # noqa: F811
    """Killed early, in the middle and late; the scan finds what was delivered each time."""
    at, size = eagre_broker.address, 1_000_000
    running = run(cli.app(MILLION), "--brokers", at, *EVERY)
    running.wait_for("running in real-time")
    checkpoint = checkpoint_of(cli, "million")
    produce(at, "million-in", [{"n": 1}])
    until_reached(checkpoint, {"million-in": {0: 1}})
    produce(at, "million-in", [{"n": size}])
    starts = lambda: sum("running in real-time" in line for line in running.output)  # noqa: E731
    for number, share in enumerate((0.001, 0.3, 0.7), 1):
        killed_at, late = size * share, f"{share:.0%} of the results did not come"
        wait_until(lambda: written(at, "million-out") > killed_at, 120, late, interval=0.01)  # noqa: B023
        jvm_of(cli).kill()
        wait_until(lambda: starts() > number, 120, "\n".join(running.output))  # noqa: B023
    produce(at, "million-in", [{"n": 1}])
    until_reached(checkpoint, {"million-in": {0: 3}})
    assert running.end() == 0
    found = Counter(results(at, "million-out"))
    assert found == Counter({1: 3} | dict.fromkeys(range(2, size + 1), 1))


@pytest.mark.e2e
def test_a_drain_under_load_is_quick_and_writes_no_duplicates(cli, run, eagre_broker):  # noqa: F811
    at = eagre_broker.address
    app = cli.app(APP.format(name="poured", body='where("n >= 0")'))
    running = run(app, "--brokers", at, "--every", "1 minute")
    running.wait_for("running in real-time")
    sent = 0
    while written(at, "poured-out") < 500:
        produce(at, "poured-in", rows(range(sent, sent + 50)))
        sent += 50
    running.process.send_signal(signal.SIGTERM)
    for _ in range(20):
        produce(at, "poured-in", rows(range(sent, sent + 50)))
        sent += 50
    assert running.process.wait(20) == 0
    assert running.has("draining, within 60 s")
    assert running.has("drained")
    assert 500 <= written(at, "poured-out") < sent
    cli.ok("run", app, "--brokers", at, "--mode", "available-now")
    assert results(at, "poured-out") == list(range(sent))
    assert processes_of(cli.folder) == []


@pytest.mark.e2e
def test_new_partitions_are_read_immediately(cli, run, eagre_broker):  # noqa: F811
    at = eagre_broker.address
    app = cli.app(APP.format(name="grown", body='where("n >= 0")'))
    running = run(app, "--brokers", at, "--every", "1 minute", "--from", "earliest")
    running.wait_for("running in real-time")
    produce(at, "grown-in", rows(range(10)))
    wait_until(lambda: written(at, "grown-out") >= 10, 30, "no results were written")
    more = NewPartitions("grown-in", 3)
    Topics(at).admin.create_partitions([more])["grown-in"].result(10)
    running.wait_for("restarting the query, with all partitions")
    produce(at, "grown-in", rows(range(10, 100)))
    wait_until(lambda: written(at, "grown-out") >= 100, 30, "the new partitions are not read")
    assert running.end() == 0
    assert sorted(results(at, "grown-out")) == list(range(100))


@pytest.mark.e2e
def test_no_commit_covers_an_undelivered_result(cli, run, eagre_broker):  # noqa: F811
    at = eagre_broker.address
    app = cli.app(APP.format(name="lost", body='where("n >= 0")'))
    running = run(app, "--brokers", at, *EVERY)
    running.wait_for("running in real-time")
    produce(at, "lost-in", rows(range(20)))
    checkpoint = checkpoint_of(cli, "lost")
    until_reached(checkpoint, {"lost-in": {0: 20}})
    limit_record_size(at, "lost-out", 50)
    produce(at, "lost-in", rows([20]))
    running.wait_for("RESULT_LOST: the sink could not deliver a result Starting again immediately")
    assert checkpoint.reached() == {"lost-in": {0: 20}}
    produce(at, "lost-in", rows(range(21, 30)))
    limit_record_size(at, "lost-out", 1_000_000)
    wait_until(lambda: set(results(at, "lost-out")) == set(range(30)), 60, "rows are lost")
    assert running.end() == 0


def limit_record_size(at, topic, size):
    """Set the largest record size that a topic accepts."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for answer in Topics(at).admin.incremental_alter_configs([resource]).values():
        answer.result(10)


def last_counts(at, topic):
    """The latest result of each card."""
    return {row["card"]: row["n"] for row in records(at, topic)}


def cards(numbers):
    return [{"card": f"c{n % 1500}", "n": n} for n in numbers]


BODIES = {
    # More keys than Spark's aggregate buffers.
    "counted": 'groupBy("card").agg(F.count("*").alias("n"))',
    "scored": 'transform(eg.rolling, "card", {"1 day": ["count as seen"]})'
    f'.select("card", {SAME}("seen").alias("n"))',
    "stateful": "transform(counted_by_python)",
}
COUNTER = """
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

class Counter(StatefulProcessor):
    def init(self, handle):
        self.seen = handle.getValueState("seen", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        n = (self.seen.get() or (0,))[0]
        for _ in rows:
            n += 1
            yield key[0], n
        self.seen.update((n,))

def counted_by_python(df):
    return eg.transform_with_state(df.groupBy("card"), Counter(), "card STRING, n BIGINT")
"""


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["counted", "scored", "stateful"])
def test_state_resumes_from_its_commit(cli, run, eagre_broker, name):  # noqa: F811
    at = eagre_broker.address
    app = cli.app(APP.format(name=name, body=BODIES[name]) + COUNTER)
    running = run(app, "--brokers", at, *EVERY)
    running.wait_for("running in real-time, commits every 5 s")
    checkpoint = checkpoint_of(cli, name)
    for turn in range(1, 4):
        produce(at, f"{name}-in", cards(range(3000 * turn - 3000, 3000 * turn)))
        until_reached(checkpoint, {f"{name}-in": {0: 3000 * turn}})
    assert checkpoint.last_commit() == -1, "Spark's epoch continues"
    assert checkpoint.mid_epoch_commit().batch >= 2
    jvm_of(cli).kill()
    running.wait_for("Starting again immediately")
    produce(at, f"{name}-in", cards(range(9000, 12000)))
    wait_until(lambda: written(at, f"{name}-out") >= 12000, 60, "the run did not continue")
    assert running.end() == 0
    assert last_counts(at, f"{name}-out") == {f"c{n}": 8 for n in range(1500)}
    assert written(at, f"{name}-out") == 12000
    assert checkpoint.mid_epoch_commit() is None, "Spark's logs contain the commit"
    produce(at, f"{name}-in", cards(range(12000, 13500)))
    cli.ok("run", app, "--brokers", at, "--mode", "available-now")
    assert last_counts(at, f"{name}-out") == {f"c{n}": 9 for n in range(1500)}


SPARKS_SHUFFLE = "org.apache.spark.shuffle.streaming.StreamingShuffleManager"
SPARK_DEFAULTS = {
    "shuffle": f"spark.shuffle.manager.incremental={SPARKS_SHUFFLE}",
    "epochs": "spark.eagre.stateCommits=false",
}


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["shuffle", "epochs"])
def test_sparks_shuffle_and_epochs_can_be_selected(cli, run, eagre_broker, name):  # noqa: F811
    at = eagre_broker.address
    app = cli.app(APP.format(name=name, body=BODIES["counted"]))
    cli.env["PYSPARK_SUBMIT_ARGS"] = f"--conf {SPARK_DEFAULTS[name]} pyspark-shell"
    running = run(app, "--brokers", at, *EVERY)
    running.wait_for("running in real-time, commits every 5 s")
    produce(at, f"{name}-in", cards(range(3000)))
    checkpoint = checkpoint_of(cli, name)
    wait_until(lambda: checkpoint.last_commit() >= 0, 60, "no epoch of Spark ended")
    wait_until(lambda: written(at, f"{name}-out") >= 3000, 60, "not all was counted")
    assert running.end() == 0
    assert last_counts(at, f"{name}-out") == {f"c{n}": 2 for n in range(1500)}


class Keeping(StatefulProcessor):
    def __init__(self, ttl_ms):
        self.ttl_ms = ttl_ms

    def init(self, handle):
        self.seen = handle.getValueState("seen", "n BIGINT", self.ttl_ms)

    def handleInputRows(self, key, rows, timerValues):  # noqa: ARG002, N802, N803
        yield from ()


def keeping(stream, ttl_ms):
    cards = stream.groupBy("card")
    return eg.transform_with_state(cards, Keeping(ttl_ms), "card STRING", "processing-time")


def test_which_commits_a_pipeline_supports(eagre_spark, eagre_broker):
    source = eg.Kafka(
        "shapes", schema="card STRING, n BIGINT, l ARRAY<INT>", brokers=eagre_broker.address
    )
    stream = source.read(eagre_spark)
    half = eg.udf(returns="BIGINT")(lambda n: n // 2)
    other = eg.Kafka("shapes-other", schema="card STRING", brokers=eagre_broker.address)
    reader = eagre_spark.readStream.format("kafka").options(subscribe="shapes-plain")
    plain = reader.option("kafka.bootstrap.servers", eagre_broker.address).load()
    unparsed = plain.select(F.col("value").cast("string").alias("card"))
    counted = stream.groupBy("card").count()
    timed = stream.withColumn("at", F.col("_source.timestamp")).withWatermark("at", "1 second")
    for rows, kind in (
        (stream.where("n > 1").select("card", F.explode("l").alias("n")), "rows"),
        (stream.withColumn("n", half("n")), "pause"),
        (counted, "state"),
        (counted.withColumn("count", half("count")), "state"),
        (eg.deduplicate(stream, "card", "1 s"), "state"),
        (eg.deduplicate(timed, "card", "1 s"), "state"),
        (timed.groupBy("card").count(), ""),
        (keeping(stream, None), "state"),
        (keeping(stream, 60_000), ""),
        (stream.dropDuplicates(["card"]), ""),
        (stream.withColumn("at", F.current_timestamp()), ""),
        (stream.where("n = (SELECT 1)"), ""),
        (stream.select("card").union(source.on("b:1").read(eagre_spark).select("card")), ""),
        (stream.select("card").union(other.read(eagre_spark).select("card")), "rows"),
        (stream.select("card").union(unparsed), ""),
    ):
        assert gateway.supported_commits(rows) == kind


def test_a_commit_of_an_earlier_epoch_is_ignored(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
        (tmp_path / log / "4").write_text('v1\n{}\n{"t":{"0":7}}')
    MidEpochCommit(5, {"t": {0: 9}}, 'v1\n{}\n{"t":{"0":9}}', "v1\n{}", {}).write(tmp_path)
    assert checkpoint.reached() == {"t": {0: 9}}
    MidEpochCommit(4, {"t": {0: 5}}, "", "", {}).write(tmp_path)
    assert checkpoint.reached() == {"t": {0: 7}}
    checkpoint.adopt()
    assert (checkpoint.last_commit(), checkpoint.mid_epoch_commit()) == (4, None)


def test_many_starts_leave_a_bounded_number_of_log_entries(tmp_path):
    """Each start writes a commit into Spark's logs, whose epochs never end."""
    checkpoint = Checkpoint(tmp_path)
    for batch in range(0, 7 * (RETAINED + 20), 7):
        offsets = f'v1\n{{}}\n{{"t":{{"0":{batch}}}}}'
        MidEpochCommit(batch, {"t": {0: batch}}, offsets, "v1\n{}", {}).write(tmp_path)
        assert checkpoint.adopt() == batch
        assert checkpoint.committed() == (batch, {"t": {0: batch}})
    assert all(len(numbered(tmp_path / log)) == RETAINED for log in ("offsets", "commits"))
    assert (tmp_path / "offsets" / str(batch - 1)).exists()  # Spark reads the last two


def test_a_broken_commit_is_reported(tmp_path):
    (tmp_path / MID_EPOCH_COMMITS).mkdir()
    (tmp_path / MID_EPOCH_COMMITS / "3").write_text("{")
    with pytest.raises(CheckpointError, match="previous mid-epoch commit") as error:
        Checkpoint(tmp_path).reached()
    assert error.value.code == "CHECKPOINT_BROKEN"


def test_a_checkpoint_from_before_0_3_is_read(tmp_path):
    """Its folder of mid-epoch commits had another name; new commits go into the new folder."""
    MidEpochCommit(5, {"t": {0: 9}}, 'v1\n{}\n{"t":{"0":9}}', "v1\n{}", {}).write(tmp_path)
    (tmp_path / MID_EPOCH_COMMITS).rename(tmp_path / FOLDER_BEFORE_0_3)
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.reached() == {"t": {0: 9}}
    MidEpochCommit(6, {"t": {0: 12}}, 'v1\n{}\n{"t":{"0":12}}', "v1\n{}", {}).write(tmp_path)
    assert [p.name for p in (tmp_path / MID_EPOCH_COMMITS).iterdir()] == ["1"]
    assert checkpoint.reached() == {"t": {0: 12}}


def test_a_query_stopped_during_planning_is_not_planned_again(eagre_harness, tmp_path):
    """Planned a second time, its stateful operators would not have the checkpoint's numbers."""

    @eg.pipeline(source=eg.Kafka("planned-in", schema="card STRING"), sink=eg.Kafka("planned-out"))
    def planned(df):
        return eg.deduplicate(df, "card", "1 minute")

    spark, folder = eagre_harness.spark, str(tmp_path / "checkpoint")
    eagre_harness.run(planned, [{"card": "a"}], checkpoint=tmp_path / "checkpoint")
    for seconds in (0, 0.05, 0.1, 0.2, 0.4):
        query = planned.start(
            spark, checkpoint=folder, brokers=eagre_harness.brokers, every="500 ms"
        )
        time.sleep(seconds)
        query.stop()
        nodes = gateway.physical_plan(spark, query)
        assert all(node["name"] for node in nodes)
