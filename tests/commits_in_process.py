"""Mid-epoch commits where rows take long, or come from timers; run by ``test_runs.py``."""

from collections import Counter

from eagre.broker import Topics
from eagre.commit import Checkpoint, schedule
from eagre.jvm import gateway
from eagre.waiting import wait_until
from runs_in_process import (  # noqa: F401  (eagre_broker is a fixture)
    EVERY,
    SLOW,
    SLOW_BODIES,
    eagre_broker,
    expected,
    results,
    rows,
)
from test_run import produce, written

TICKING = """
import time

import eagre as eg
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


@eg.udf(returns="BIGINT")
def slow(n):
    time.sleep(0.005)
    return n


class Ticking(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.count = handle.getValueState("count", "n LONG")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            yield self._next(key, timerValues)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield self._next(key, timerValues)

    def _next(self, key, timerValues):
        n = (self.count.get() or (0,))[0] + 1
        self.count.update((n,))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        return key[0], n

    def close(self):
        pass


@eg.pipeline(
    source=eg.Kafka("ticking-in", schema="card STRING, n BIGINT"),
    sink=eg.Kafka("ticking-out", key="card"),
)
def ticking(df):
    schema = "card STRING, n BIGINT"
    ticks = eg.transform_with_state(df.groupBy("card"), Ticking(), schema, "processing-time")
    return ticks.select("card", slow("n").alias("n"))
"""


def test_timers_that_fire_all_the_time(cli, in_process, eagre_harness):
    """They let commits pass, and none fires between the last commit and the end of a drain."""
    at = eagre_harness.brokers
    app = cli.app(TICKING, "ticking.py")
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    run = in_process(app, every=EVERY, start="earliest").wait_for("running")
    produce(at, "ticking-in", [{"card": f"c{n}", "n": 0} for n in range(30)])
    batches = set()

    def commits():
        commit = checkpoint.mid_epoch_commit()
        batches.add(commit.batch if commit else -1)
        return len(batches) > 4

    wait_until(commits, 60, "timers starve commits")
    run.drain()
    drained = written(at, "ticking-out")
    again = in_process(app, every=EVERY).wait_for("running")
    wait_until(lambda: written(at, "ticking-out") > drained + 100, 60, "the timers are gone")
    again.drain()
    found = results(eagre_harness, "ticking-out")
    assert [result for result, count in Counter(found).items() if count > 1] == []
    assert dict(found) == Counter(card for card, _ in found)


def test_a_row_that_takes_longer_than_a_commit_waits(cli, in_process, eagre_harness, monkeypatch):
    """A commit is given up; the next one waits longer, or there would never be one."""
    monkeypatch.setattr(schedule, "PATIENCE_SECONDS", 0.1)
    at, name, number = eagre_harness.brokers, "patient", 1_000
    Topics(at).create(f"{name}-in", 1)
    produce(at, f"{name}-in", rows(range(number)))
    code = SLOW.format(name=name, body=SLOW_BODIES["function"], seconds=0.4)
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    run = in_process(cli.app(code, f"{name}.py"), every="200 ms", start="earliest")
    run.wait_for("running")
    wait_until(lambda: checkpoint.reached().get(f"{name}-in", {}).get(0), 60, "no commit")
    run.drain()
    done = checkpoint.reached()[f"{name}-in"][0]
    assert done < number, "the backlog was too small"
    assert sorted(n for _, n in results(eagre_harness, f"{name}-out")) == list(range(done))


def test_a_drain_during_a_commit_that_waits(cli, in_process, eagre_harness):
    """The drain takes the place of the commit, and the sources stay paused."""
    at, name = eagre_harness.brokers, "crossed"
    Topics(at).create(f"{name}-in", 1)
    produce(at, f"{name}-in", rows(range(100)))
    code = SLOW.format(name=name, body=SLOW_BODIES["state"], seconds=2)
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    run = in_process(cli.app(code, f"{name}.py"), every="200 ms", start="earliest")
    run.wait_for("running")
    wait_until(lambda: written(at, f"{name}-out") > 2, 60, "no results")
    run.drain(120)
    assert run.has("ended", drained=True)
    done = checkpoint.reached()[f"{name}-in"][0]
    assert sorted(n for _, n in results(eagre_harness, f"{name}-out")) == list(range(done))


SOURCES = """
from pyspark.sql import functions as F

import eagre as eg

def source(name):
    return eg.Kafka(f"sources-{{name}}", schema="card STRING, n BIGINT", starting="earliest")

@eg.pipeline(source=[{sources}], sink=eg.Kafka("sources-out", key="card"))
def sources(*streams):
    rows = streams[0]
    for stream in streams[1:]:
        rows = rows.unionByName(stream)
    return rows.{body}
"""


def test_sources_are_added_reordered_and_removed(cli, in_process, eagre_harness):
    """Spark finds the offsets of a source by its place in the query: they must follow it."""
    at, body = eagre_harness.brokers, 'groupBy("card").agg(F.count("*").alias("n"))'
    checkpoint, sent = Checkpoint(cli.folder / "checkpoint"), Counter()
    for turn, topics in enumerate((["a"], ["a", "b"], ["c", "b", "a"], ["c", "a"])):
        for topic in topics:
            if topic not in sent:
                Topics(at).create(f"sources-{topic}", 1)
            produce(at, f"sources-{topic}", [{"card": topic, "n": turn}] * 5)
            sent[topic] += 5
        named = ", ".join(f'source("{topic}")' for topic in topics)
        app = cli.app(SOURCES.format(sources=named, body=body), f"sources{turn}.py")
        run = in_process(app, every=EVERY).wait_for("running")
        position = {f"sources-{topic}": {0: sent[topic]} for topic in topics}
        wait_until(lambda: checkpoint.reached() == position, 60, f"{position}")  # noqa: B023
        if turn % 2:
            run.drain()
        else:
            in_process.cut()
    found = Counter(results(eagre_harness, "sources-out"))
    assert found == Counter((topic, n + 1) for topic in sent for n in range(sent[topic]))


def test_state_is_repartitioned(cli, in_process, eagre_harness, eagre_spark):
    """Its newest commit is adopted first. The command line does the same, with the lock."""
    at, name = eagre_harness.brokers, "spread"
    counts = SLOW.replace("row.n", "self.total.get()[0]")
    app = cli.app(counts.format(name=name, body=SLOW_BODIES["state"], seconds=0), f"{name}.py")
    checkpoint = Checkpoint(cli.folder / "checkpoint")
    for turn, partitions in enumerate((3, 5, None)):
        run = in_process(app, every=EVERY, start="earliest").wait_for("running")
        produce(at, f"{name}-in", rows(range(30 * turn, 30 * turn + 30)))
        position = {f"{name}-in": {0: 30 * turn + 30}}
        wait_until(lambda: checkpoint.reached() == position, 60, "no commit")  # noqa: B023
        if not partitions:
            run.drain()
            break
        in_process.cut()
        checkpoint.adopt()
        gateway.repartition(eagre_spark, str(checkpoint.path), partitions)
        assert checkpoint.settings()["spark.sql.shuffle.partitions"] == str(partitions)
    assert results(eagre_harness, f"{name}-out") == expected("state", 90)
