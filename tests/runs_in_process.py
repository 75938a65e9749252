"""Runs inside the Spark session of the tests: commits, drains and errors, in seconds.

``test_runs.py`` runs these tests in a separate process: a commit flushes every producer of its
JVM, and those of other tests may have lost their broker. ``test_run.py`` and
``test_mid_epoch_commits.py`` do the same with processes and kills (``make e2e``).
"""

import json
import os
import shutil
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from eagre.broker import EmbeddedBroker, Topics
from eagre.commit import Checkpoint, delivery_log, mid_epoch_commit, offset_log
from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS
from eagre.errors import CheckpointError
from eagre.runtime.app import App
from eagre.waiting import wait_until
from test_private_members import MEMBERS
from test_run import APP, COUNT, produce, written

EVERY = "1 second"
SAME = 'eg.udf(returns="BIGINT")(lambda n: n)'
BODIES = {
    "rows": 'where("n % 2 = 0")',
    "state": COUNT,
    "python": f'where({SAME}("n") % 2 == 0)',
}


@pytest.fixture(scope="module")
def eagre_broker():
    """The broker of the tests that call these, or one of their own."""
    address = os.environ.get("EAGRE_TESTS_BROKER")
    with nullcontext(SimpleNamespace(address=address)) if address else EmbeddedBroker() as broker:
        yield broker


def rows(numbers):
    return [{"card": f"c{n % 3}", "n": n} for n in numbers]


def expected(shape, number):
    if shape == "state":
        return sorted((f"c{c}", n) for c in range(3) for n in range(1, number // 3 + 1))
    return sorted((f"c{n % 3}", n) for n in range(0, number, 2))


def results(harness, topic):
    values = (json.loads(r.value()) for r in harness.records(topic, {0: 0}))
    return sorted((row["card"], row["n"]) for row in values)


@pytest.mark.parametrize("shape", ["rows", "state", pytest.param("python", marks=pytest.mark.e2e)])
def test_mid_epoch_commits_survive_an_abrupt_stop(cli, in_process, eagre_harness, shape):
    at, name = eagre_harness.brokers, f"cut_{shape}"
    app = cli.app(APP.format(name=name, body=BODIES[shape]), f"{name}.py")
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    in_process(app, every=EVERY, start="earliest").wait_for("running")
    produce(at, f"{name}-in", rows(range(60)))
    wait_until(
        lambda: checkpoint.reached() == {f"{name}-in": {0: 60}}, 60, "no commit covers the rows"
    )
    assert checkpoint.last_commit() == -1, "Spark's epoch continues"
    in_process.cut()
    produce(at, f"{name}-in", rows(range(60, 90)))
    again = in_process(app, every=EVERY).wait_for("running")
    wait_until(
        lambda: checkpoint.reached() == {f"{name}-in": {0: 90}}, 60, "the run did not continue"
    )
    again.drain()
    assert again.has("ended", drained=True)
    assert results(eagre_harness, f"{name}-out") == expected(shape, 90)


LARGE = """
import eagre as eg
from pyspark.sql import functions as F

@eg.pipeline(
    source=eg.Kafka("large-in", schema="card STRING, n BIGINT"),
    sink=eg.Kafka(
        "large-out",
        delivery="exactly-once",
        options={"kafka.batch.size": "1000", "kafka.buffer.memory": "40000"},
    ),
)
def large(df):
    return df.select("card", F.explode(F.sequence(F.lit(1), "n")).alias("n"), "_source")
"""


def test_no_commit_falls_inside_a_row_with_many_results(cli, in_process, eagre_harness):
    """Exactly once: its first results would lie before the output snapshot, and be repeated.

    Small batches of the producer let the row take seconds, with commits due all the time.
    """
    at, size = eagre_harness.brokers, 200_000
    app = cli.app(LARGE, "large.py")
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    in_process(app, every="200 ms", start="earliest").wait_for("running")
    produce(at, "large-in", [{"card": "a", "n": 1}])
    wait_until(lambda: checkpoint.reached() == {"large-in": {0: 1}}, 60, "no commit")
    produce(at, "large-in", [{"card": "a", "n": size}])
    wait_until(lambda: written(at, "large-out") > size // 2, 60, "no results", interval=0.01)
    in_process.cut()
    before = written(at, "large-out")
    again = in_process(app, every="200 ms").wait_for("running")
    produce(at, "large-in", [{"card": "a", "n": 1}])
    wait_until(lambda: checkpoint.reached() == {"large-in": {0: 3}}, 60, "it did not continue")
    again.drain()
    assert before < size, "the query was not stopped inside the row"
    found = Counter(json.loads(r.value())["n"] for r in eagre_harness.records("large-out", {0: 0}))
    assert found == Counter({1: 3} | dict.fromkeys(range(2, size + 1), 1))


FAILING = """
import eagre as eg

@eg.pipeline(
    source=eg.Kafka("failing-in", schema="n BIGINT", partitions=2),
    sink=eg.Kafka("failing-out", delivery="exactly-once"),
)
def failing(df):
    slow = "java_method('java.lang.Thread', 'sleep', 3000L) IS NOT NULL"
    fails = f"{slow} AND raise_error('boom') IS NOT NULL"
    return df.where(f"CASE WHEN n < 0 THEN {fails} ELSE true END")
"""


def test_no_commit_goes_back_when_a_task_fails(cli, in_process, eagre_harness):
    """A commit is due while the row fails: the position of its partition is then unknown."""
    app = cli.app(FAILING, "failing.py")
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    run = in_process(app, every="200 ms", start="earliest").wait_for("running")
    producer = Producer({"bootstrap.servers": eagre_harness.brokers})
    for n in range(20):
        producer.produce("failing-in", json.dumps({"n": n}), partition=n % 2)
    producer.flush()
    position = {"failing-in": {0: 10, 1: 10}}
    wait_until(lambda: checkpoint.reached() == position, 60, "no commit")
    producer.produce("failing-in", json.dumps({"n": -1}), partition=1)
    producer.flush()
    run.join()
    assert "boom" in run.failure.problem
    assert checkpoint.reached() == position


DYING = """
import pathlib
import time

import eagre as eg


@eg.udf(returns="BIGINT")
def slow(n):
    if n < 0:
        pathlib.Path("{begun}").touch()
        time.sleep(3)
    return n


@eg.pipeline(source=eg.Kafka("dying-in", schema="n BIGINT"), sink=eg.Kafka("dying-out"))
def dying(df):
    fails = "raise_error('boom') IS NOT NULL"
    return df.withColumn("n", slow("n")).where(f"CASE WHEN n < 0 THEN {{fails}} ELSE true END")
"""


def test_a_drain_does_not_commit_the_rows_of_a_task_that_fails(cli, in_process, eagre_harness):
    """The task held the row in flight: when it is gone, nobody counts the row any more."""
    begun = cli.folder / "begun"
    app = cli.app(DYING.format(begun=begun), "dying.py")
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    run = in_process(app, every="200 ms", start="earliest").wait_for("running")
    produce(eagre_harness.brokers, "dying-in", [{"n": n} for n in range(10)])
    position = {"dying-in": {0: 10}}
    wait_until(lambda: checkpoint.reached() == position, 60, "no commit")
    produce(eagre_harness.brokers, "dying-in", [{"n": -1}])
    wait_until(begun.exists, 20, "the row is not in work", interval=0.01)
    run.start_drain()
    run.join()
    assert checkpoint.reached() == position
    assert run.failure or run.has(
        "note", text="delivery of the last results is unconfirmed; duplicates are possible"
    )


@pytest.fixture
def disabled(eagre_spark):
    """Make the JVM treat private members of Spark as missing."""
    system = eagre_spark._jvm.java.lang.System  # noqa: SLF001
    yield lambda names: system.setProperty("eagre.disable", names)
    system.clearProperty("eagre.disable")


@pytest.mark.parametrize(
    "names",
    [
        ",".join(MEMBERS),
        *(pytest.param(name, marks=pytest.mark.e2e) for name in MEMBERS),
    ],
)
def test_a_run_without_private_members(cli, in_process, eagre_harness, disabled, names):
    """Plain Spark takes over: results are right, and Spark's epochs commit."""
    disabled(names)
    at = eagre_harness.brokers
    name = f"without_{names.lower() if names in MEMBERS else 'all'}"
    app = cli.app(APP.format(name=name, body=COUNT), f"{name}.py")
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    running = in_process(app, every=EVERY, start="earliest").wait_for("running")
    produce(at, f"{name}-in", rows(range(60)))
    wait_until(
        lambda: checkpoint.reached() == {f"{name}-in": {0: 60}}, 60, "no commit covers the rows"
    )
    running.drain()
    for member in names.split(","):
        texts = [event.get("text", "") for event in running.events]
        assert any(f"is off: {member} is missing" in text for text in texts), texts
    assert results(eagre_harness, f"{name}-out") == expected("state", 60)
    mid_epoch = not set(names.split(",")) & {
        "STATE_STORES",
        "AGGREGATE_ITERATOR",
        "PRODUCER_POOL",
        "SCAN_READERS",
    }
    assert (checkpoint.path / MID_EPOCH_COMMITS).exists() == mid_epoch


def test_a_drained_run_resumes_in_another_mode(cli, in_process, eagre_harness):
    """Without state; ``test_run.py`` does the same with a count, in processes."""
    at = eagre_harness.brokers
    app = cli.app(APP.format(name="other_mode", body='where("n >= 0")'), "other_mode.py")
    first = in_process(app, every=EVERY).wait_for("running")
    produce(at, "other_mode-in", rows(range(30)))
    wait_until(lambda: written(at, "other_mode-out") >= 30, 60, "no results were written")
    first.drain()
    produce(at, "other_mode-in", rows(range(30, 60)))
    backlog = in_process(app, mode="available-now")
    backlog.join()
    assert backlog.has("ended", drained=False)
    assert written(at, "other_mode-out") == 60
    produce(at, "other_mode-in", rows(range(60, 90)))
    last = in_process(app, mode="micro-batch").wait_for("running")
    wait_until(lambda: written(at, "other_mode-out") >= 90, 60, "the run did not continue")
    last.drain()
    assert [n for _, n in sorted(results(eagre_harness, "other_mode-out"), key=lambda r: r[1])] == (
        list(range(90))
    )


def test_new_partitions_are_read_within_the_epoch(cli, in_process, eagre_harness):
    at = eagre_harness.brokers
    app = cli.app(APP.format(name="wider", body='where("n >= 0")'), "wider.py")
    running = in_process(app, every="1 minute", start="earliest").wait_for("running")
    produce(at, "wider-in", rows(range(9)))
    wait_until(lambda: written(at, "wider-out") >= 9, 60, "no results were written")
    Topics(at).admin.create_partitions([NewPartitions("wider-in", 3)])["wider-in"].result(10)
    wait_until(
        lambda: len([e for e in running.events if e["event"] == "running"]) == 2,
        60,
        "the new partitions were not noticed",
    )
    produce(at, "wider-in", rows(range(9, 60)))
    wait_until(lambda: written(at, "wider-out") >= 60, 60, "the new partitions are not read")
    running.drain()
    assert sorted(n for _, n in results(eagre_harness, "wider-out")) == list(range(60))


def test_a_failed_query_reports_the_reason(cli, in_process, eagre_harness):
    body = "where(F.when(F.col('n') < 0, F.raise_error('no such amount')).otherwise(True))"
    app = cli.app(APP.format(name="raises", body=body), "raises.py")
    running = in_process(app, start="earliest").wait_for("running")
    produce(eagre_harness.brokers, "raises-in", [{"card": "c", "n": -1}])
    running.join()
    assert running.failure.code == "QUERY_FAILED"
    assert "no such amount" in running.failure.problem


def test_a_large_lag_is_announced(cli, in_process, eagre_harness):
    at = eagre_harness.brokers
    Topics(at).create("lagging-in", 1)
    produce(at, "lagging-in", rows(range(3_000)))
    app = cli.app(APP.format(name="lagging", body='where("n % 2 = 0")'), "lagging.py")
    running = in_process(app, start="earliest").wait_for("running")
    wait_until(lambda: written(at, "lagging-out") == 1_500, 60, "not all rows came out")
    notes = lambda: [e["text"] for e in running.events if e["event"] == "note"]  # noqa: E731
    wait_until(lambda: any("caught up: 3,000 records" in t for t in notes()), 60, f"{notes()}")
    assert any("catching up: 3,000 records" in text for text in notes())
    running.drain()


SLOW = """
import time

import eagre as eg
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


@eg.udf(returns="BIGINT")
def slow(n):
    time.sleep({seconds})
    return n


class Slow(StatefulProcessor):
    def init(self, handle):
        self.total = handle.getValueState("total", "n LONG")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            time.sleep({seconds})
            self.total.update(((self.total.get() or (0,))[0] + 1,))
            yield key[0], row.n

    def close(self):
        pass


@eg.pipeline(
    source=eg.Kafka("{name}-in", schema="card STRING, n BIGINT"),
    sink=eg.Kafka("{name}-out", key="card"),
)
def {name}(df):
    return {body}
"""
SLOW_BODIES = {
    "function": 'df.select("card", slow("n").alias("n"))',
    "functions": 'df.select("card", slow(slow("n")).alias("n"))',
    "state": 'eg.transform_with_state(df.groupBy("card"), Slow(), "card STRING, n BIGINT")',
}


@pytest.mark.parametrize(
    "shape",
    [
        "function",
        *(pytest.param(shape, marks=pytest.mark.e2e) for shape in ("functions", "state")),
    ],
)
def test_a_slow_function_with_a_backlog_commits(cli, in_process, eagre_harness, shape):
    """The rows in flight are bounded by their time; a drain repeats none."""
    at, name, number = eagre_harness.brokers, f"slow_{shape}", 5_000
    Topics(at).create(f"{name}-in", 1)
    produce(at, f"{name}-in", rows(range(number)))
    code = SLOW.format(name=name, body=SLOW_BODIES[shape], seconds=0.05)
    app = cli.app(code, f"{name}.py")
    run = in_process(app, every=EVERY, start="earliest").wait_for("running")
    checkpoint, positions = Checkpoint(cli.folder / "checkpoint"), set()

    def commits():
        positions.add(checkpoint.reached().get(f"{name}-in", {}).get(0, 0))
        return len(positions) > 4

    wait_until(commits, 60, "no commits")
    run.drain()
    assert run.has("ended", drained=True)
    done = checkpoint.reached()[f"{name}-in"][0]
    assert max(positions) <= done < number, "the backlog was too small"
    assert sorted(n for _, n in results(eagre_harness, f"{name}-out")) == list(range(done))


def test_a_pipeline_without_results_commits(cli, in_process, eagre_harness):
    """A crash would otherwise repeat all records since the start."""
    app = cli.app(APP.format(name="filters", body='where("n < 0")'), "filters.py")
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    run = in_process(app, every=EVERY, start="earliest").wait_for("running")
    produce(eagre_harness.brokers, "filters-in", rows(range(5)))
    wait_until(lambda: checkpoint.reached() == {"filters-in": {0: 5}}, 60, "no commit")
    run.drain()


@pytest.mark.e2e
def test_an_overdue_commit_is_reported(cli, in_process, eagre_harness):
    code = SLOW.format(name="overdue", body=SLOW_BODIES["function"], seconds=12)
    run = in_process(cli.app(code, "overdue.py"), every="200 ms", start="earliest")
    run.wait_for("running")
    produce(eagre_harness.brokers, "overdue-in", rows([1]))
    overdue = lambda: [e for e in run.events if e.get("overdue_seconds")]  # noqa: E731
    wait_until(overdue, 60, "the overdue commit is not reported")
    assert overdue()[0]["overdue_reason"] in ("1 row is in flight", "2 tasks are processing a row")
    notes = lambda: [e["text"] for e in run.events if e["event"] == "note"]  # noqa: E731
    assert any("no commit for" in text and "in flight" in text for text in notes()), notes()
    wait_until(lambda: any("committed again" in text for text in notes()), 60, "no commit")
    assert run.events[-1]["overdue_seconds"] == 0
    run.drain()


def test_plain_spark_refuses_a_commit_that_its_logs_lack(
    cli, in_process, eagre_harness, eagre_spark
):
    """It would repeat everything since the start of the epoch; ``adopt`` writes the commit."""
    at = eagre_harness.brokers
    app = cli.app(APP.format(name="adopted", body='where("n >= 0")'), "adopted.py")
    folder = cli.folder / "checkpoint"
    in_process(app, every=EVERY, start="earliest").wait_for("running")
    produce(at, "adopted-in", rows(range(30)))
    wait_until(lambda: Checkpoint(folder).reached() == {"adopted-in": {0: 30}}, 60, "no commit")
    in_process.cut()
    (pipeline,) = App.parse(str(app)).pipelines()
    options = {"checkpoint": str(folder), "brokers": at, "mode": "available-now"}
    with pytest.raises(Exception, match="CHECKPOINT_NOT_ADOPTED") as refused:
        pipeline.start(eagre_spark, **options)
    assert f"eagre checkpoint adopt {folder}" in str(refused.value)
    assert Checkpoint(folder).adopt() == 0
    assert Checkpoint(folder).adopt() is None
    produce(at, "adopted-in", rows(range(30, 40)))
    pipeline.start(eagre_spark, **options).awaitTermination(60)
    assert sorted(n for _, n in results(eagre_harness, "adopted-out")) == list(range(40))


BARE_TRIGGERS = {
    "real time": {"realTime": "5 seconds"},
    "micro-batch": {"processingTime": "100 milliseconds"},
    "available-now": {"availableNow": True},
}


def bare_query(spark, brokers, folder, trigger):
    """A query in Spark's own API alone, in a session that ``eg.configure`` has prepared."""
    kafka = {"kafka.bootstrap.servers": brokers}
    stream = spark.readStream.format("kafka").options(**kafka, subscribe="bare-in").load()
    writer = stream.selectExpr("CAST(value AS STRING) AS value").writeStream.format("kafka")
    options = {**kafka, "topic": "bare-out", "checkpointLocation": str(folder)}
    query = writer.outputMode("update").options(**options).trigger(**BARE_TRIGGERS[trigger])
    return query.start()


def test_a_bare_query_starts_at_the_newest_commit_or_is_refused(
    cli, in_process, eagre_harness, eagre_spark, tmp_path
):
    """``eg.configure`` is all that it knows of Eagre."""
    at, newest = eagre_harness.brokers, cli.folder / "checkpoint"
    app = cli.app(APP.format(name="bare", body='where("n >= 0")'), "bare.py")
    in_process(app, every=EVERY, start="earliest").wait_for("running")
    produce(at, "bare-in", rows(range(30)))
    wait_until(lambda: Checkpoint(newest).reached() == {"bare-in": {0: 30}}, 60, "no commit")
    in_process.cut()
    for trigger in BARE_TRIGGERS:
        with pytest.raises(Exception, match=rf"NOT_ADOPTED: .* `eagre checkpoint adopt {newest}`"):
            bare_query(eagre_spark, at, newest, trigger)
    assert Checkpoint(newest).last_commit() == -1, "nothing was written"
    for number, trigger in enumerate(BARE_TRIGGERS):
        folder, sent = tmp_path / str(number), 30 + 10 * number
        shutil.copytree(newest, folder, ignore=shutil.ignore_patterns("eagre.lock"))
        Checkpoint(folder).adopt()
        produce(at, "bare-in", rows(range(sent, sent + 10)))
        before = written(at, "bare-out")
        query = bare_query(eagre_spark, at, folder, trigger)
        end = before + sent + 10 - 30
        wait_until(lambda: written(at, "bare-out") >= end, 60, "no results")  # noqa: B023
        query.stop()
        records = eagre_harness.records("bare-out", {0: before})
        assert [json.loads(r.value())["n"] for r in records] == list(range(30, sent + 10)), trigger


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"format": 2, "batch": 7}', "CHECKPOINT_NEWER: .* install the release"),
        ("{", "CHECKPOINT_BROKEN: .* restore it"),
        ("[]", "CHECKPOINT_BROKEN: .* restore it"),
    ],
)
def test_a_bare_query_refuses_a_commit_that_it_cannot_read(
    eagre_spark, eagre_harness, tmp_path, text, code
):
    (tmp_path / MID_EPOCH_COMMITS).mkdir()
    (tmp_path / MID_EPOCH_COMMITS / "3").write_text(text)
    with pytest.raises(Exception, match=code):
        bare_query(eagre_spark, eagre_harness.brokers, tmp_path, "available-now")


def test_operators_that_real_time_mode_lacks_are_refused_without_a_check(
    cli, in_process, eagre_harness
):
    """Mid-epoch commits with state switch Spark's own test of the plan off."""
    body = 'withColumn("card", F.udf(lambda c: c)("card")).' + COUNT
    app = cli.app(APP.format(name="unlisted", body=body), "unlisted.py")
    run = in_process(app, start="earliest", check=False)
    run.join()
    assert run.failure.code == "QUERY_REFUSED"
    assert "EvalPython" in run.failure.problem


ALIGNED = """
import eagre as eg
from pyspark.sql import functions as F

@eg.pipeline(
    source=eg.Kafka("aligned-in", schema="card STRING", partitions=2, partitioned_by="card"),
    sink=eg.Kafka("aligned-out", delivery="exactly-once"),
)
def aligned(df):
    return df.groupBy("card").agg(F.count("*").alias("n"))
"""


def test_a_key_in_two_partitions_ends_the_run(cli, in_process, eagre_harness):
    """A restart would fail in the same way: the supervisor must know the code."""
    app = cli.app(ALIGNED, "aligned.py")
    run = in_process(app, every=EVERY, start="earliest").wait_for("running")
    producer = Producer({"bootstrap.servers": eagre_harness.brokers})
    for partition in (0, 1):
        producer.produce("aligned-in", json.dumps({"card": "c"}), partition=partition)
    producer.flush()
    run.join()
    assert run.failure.code == "KEY_NOT_ALIGNED"
    assert "came from the partitions 0 and 1 of topic aligned-in" in run.failure.problem


EXACT = """
import eagre as eg
from pyspark.sql import functions as F

def stores(df):
    df.sparkSession.conf.set("spark.sql.shuffle.partitions", "3")
    return df

@eg.pipeline(
    source=eg.Kafka("{name}-in", schema="card STRING, n BIGINT", partitioned_by="card"),
    sink=eg.Kafka("{name}-out", delivery="exactly-once"),
)
def {name}(df):
    return df.transform(stores).{body}
"""
EXACT_BODIES = {
    "rows": 'select("card", "n")',
    "python": f'select("card", {SAME}("n").alias("n"))',
    "state": 'groupBy("card").agg(F.count("*").alias("n"))',
}
JVM_STEPS = {
    "rows": ("requested", "cut", "durable", "flushed"),
    "python": ("requested", "paused", "cut", "durable", "flushed"),
    "state": (
        *("requested", "paused", "task flushed", "buffers flushed", "store written"),
        *("cut", "durable", "flushed"),
    ),
}
FILE_STEPS = ("before the commit", "before the rename", "after the commit")
STEPS = [(shape, step) for shape, steps in JVM_STEPS.items() for step in (*steps, *FILE_STEPS)]
QUICK = {("state", "cut"), ("rows", "after the commit")}


def write_without_rename(monkeypatch, write, *args, **options):
    """Write a file, but leave it under its temporary name, as a process that dies in between."""

    def killed(*_):
        raise OSError

    with monkeypatch.context() as within, suppress(OSError):
        within.setattr(Path, "replace", killed)
        write(*args, **options)


@pytest.fixture
def fail_at(eagre_spark, monkeypatch):
    """Let the next commit fail at a step, once."""
    system = eagre_spark._jvm.java.lang.System  # noqa: SLF001

    def fail(step):
        if step not in FILE_STEPS:
            system.setProperty("eagre.fault", step)
            return
        write = mid_epoch_commit.create

        def interrupted(*args, **options):
            monkeypatch.setattr(mid_epoch_commit, "create", write)
            if step == "before the rename":
                write_without_rename(monkeypatch, write, *args, **options)
            if step == "after the commit":
                write(*args, **options)
            raise RuntimeError(f"FAULT_INJECTED: {step}")

        monkeypatch.setattr(mid_epoch_commit, "create", interrupted)

    yield fail
    system.clearProperty("eagre.fault")


@pytest.mark.parametrize(
    ("shape", "step"),
    [
        pytest.param(*case, marks=[] if case in QUICK else pytest.mark.e2e, id="-".join(case))
        for case in STEPS
    ],
)
def test_a_fault_between_two_steps_of_a_commit(
    cli, in_process, eagre_harness, fail_at, shape, step
):
    """Exactly once: the next run repeats no result and loses none, whatever step was the last."""
    at, name = eagre_harness.brokers, f"step_{shape}_{step.replace(' ', '_')}"
    app = cli.app(EXACT.format(name=name, body=EXACT_BODIES[shape]), f"{name}.py")
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    first = in_process(app, every="300 ms", start="earliest").wait_for("running")
    produce(at, f"{name}-in", rows(range(30)))
    wait_until(lambda: checkpoint.reached() == {f"{name}-in": {0: 30}}, 60, "no commit")
    fail_at(step)
    produce(at, f"{name}-in", rows(range(30, 60)))
    first.join()
    assert "FAULT_INJECTED" in str(first.failure), first.failure
    produce(at, f"{name}-in", rows(range(60, 90)))
    again = in_process(app, every="300 ms").wait_for("running")
    wait_until(lambda: checkpoint.reached() == {f"{name}-in": {0: 90}}, 60, "it did not continue")
    again.drain()
    found = results(eagre_harness, f"{name}-out")
    every = sorted((f"c{n % 3}", n) for n in range(90))
    assert found == (expected("state", 90) if shape == "state" else every)


ADOPTED = ("the delivery log", "the offsets before", "the offsets", "the commit")
"""The files that adopting a commit writes, in their order."""


@pytest.mark.parametrize("when", ["before the rename", "after the rename"])
@pytest.mark.parametrize("file", ADOPTED)
@pytest.mark.e2e
def test_a_fault_inside_adopting_a_commit(cli, in_process, eagre_harness, monkeypatch, file, when):
    """The next run adopts the same commit again, wherever the run before was killed."""
    at, name = eagre_harness.brokers, f"adopt_{ADOPTED.index(file)}_{when.split()[0]}"
    app = cli.app(EXACT.format(name=name, body=EXACT_BODIES["state"]), f"{name}.py")
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    in_process(app, every="300 ms", start="earliest").wait_for("running")
    for turn in (1, 2):
        produce(at, f"{name}-in", rows(range(30 * turn - 30, 30 * turn)))
        end = {f"{name}-in": {0: 30 * turn}}
        wait_until(lambda: checkpoint.reached() == end, 60, "no commit")  # noqa: B023
    in_process.cut()
    calls, write = [], delivery_log.write

    def interrupted(path, *args, **options):
        calls.append(path)
        if len(calls) <= ADOPTED.index(file):
            write(path, *args, **options)
            return
        if when == "before the rename":
            write_without_rename(monkeypatch, write, path, *args, **options)
        else:
            write(path, *args, **options)
        raise CheckpointError("FAULT_INJECTED", f"{file}, {when}")

    with monkeypatch.context() as faulty:
        for module in (delivery_log, offset_log):
            faulty.setattr(module, "write", interrupted)
        broken = in_process(app, every="300 ms")
        broken.join()
    assert broken.failure.code == "FAULT_INJECTED", broken.failure
    assert calls[-1].parent.name == {"the commit": "commits"}.get(file, calls[-1].parent.name)
    produce(at, f"{name}-in", rows(range(60, 90)))
    again = in_process(app, every="300 ms").wait_for("running")
    wait_until(lambda: checkpoint.reached() == {f"{name}-in": {0: 90}}, 60, "it did not continue")
    again.drain()
    assert results(eagre_harness, f"{name}-out") == expected("state", 90)
