"""Runs inside the Spark session of the tests: commits, drains and errors, in seconds.

``test_runs.py`` runs these tests in a separate process: a commit flushes every producer of its
JVM, and those of other tests may have lost their broker. ``test_run.py`` and
``test_mid_epoch_commits.py`` do the same with processes and kills (``make e2e``).
"""

import json
import os
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from eagre.broker import EmbeddedBroker, Topics
from eagre.commit import Checkpoint
from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS
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
