"""Operators over time: the wall clock, pauses, interruptions, chains, bounded state."""

import json
import os
import sys
import time

import pytest
from pyspark.sql import functions as F

import eagre as eg
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.testing.harness import EPOCH, Record
from eagre.waiting import wait_until
from streams import deduplicated, payments, rolled
from test_operators import VARIANT, keyed, late, source

WAIT_MS = 900


class Live:
    """A running query to which the test sends rows."""

    def __init__(self, harness, pipeline, checkpoint, mode="real-time", every=None):
        self.harness, self.pipeline = harness, pipeline
        harness._make_topics(pipeline)  # noqa: SLF001
        self.out = pipeline.sink.topics[0]
        self.query = pipeline.start(
            harness.spark,
            checkpoint=str(checkpoint),
            brokers=harness.brokers,
            mode=mode,
            every=every or ("1 minute" if mode == "real-time" else "100 ms"),
            start={
                topic: dict.fromkeys(map(str, partitions), 0)
                for source in pipeline.sources
                for topic, partitions in harness.topics.ends(source.topics).items()
            },
        )

    def send(self, *rows, topic=None):
        self.harness.write(self.pipeline, {topic: rows} if topic else rows)

    def results(self):
        ends = self.harness.topics.ends([self.out])[self.out]
        records = self.harness.records(self.out, dict.fromkeys(ends, 0))
        return [(record.timestamp()[1], json.loads(record.value())) for record in records]

    def await_row(self, what, seconds=20, **wanted):
        def matches():
            return [
                (at, row)
                for at, row in self.results()
                if all(row.get(name) == value for name, value in wanted.items())
            ]

        wait_until(matches, seconds, f"{what} did not arrive; there is {self.results()}")
        return matches()[0]

    def await_epoch(self):
        """Wait until an epoch has ended that began after this call."""
        begun = self.query.lastProgress
        last = begun.batchId if begun else -1
        wait_until(
            lambda: (p := self.query.lastProgress) and p.batchId > last + 1, 60, "no epoch ended"
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.query.stop()


def closing(kind, name):
    """Return a pipeline that emits a result when no row follows for 900 ms."""

    def transform(df, *more):
        if kind == "session_windows":
            return eg.session_windows(df, "card", "600 ms", ["count"], grace="300 ms")
        if kind == "windows":
            return eg.windows(df, "card", "600 ms", ["count"], emit="final", grace="300 ms")
        if kind == "lookup":
            return eg.lookup(df, more[0], "card", wait="900 ms")
        return eg.interval_join(df, more[0], "card", "600 ms", "left", grace="300 ms")

    second = eg.Kafka(f"{name}-second", schema="card STRING, other INT")
    both = [source(f"{name}-in"), second] if kind in ("interval_join", "lookup") else []
    pipeline = eg.pipeline(
        source=both or source(f"{name}-in"), sink=eg.Kafka(f"{name}-out"), name=name
    )
    return pipeline(lambda *streams: transform(*streams).drop("_source"))


@pytest.mark.e2e
@pytest.mark.parametrize(
    "kind",
    [
        "session_windows",
        pytest.param("windows", marks=VARIANT),
        "interval_join",
        pytest.param("lookup", marks=VARIANT),
    ],
)
def test_the_wall_clock_closes_idle_windows(eagre_harness, tmp_path, kind):
    """Within one epoch of a minute, on partitions without further rows."""
    pipeline = closing(kind, f"op-idle-{kind}")
    with Live(eagre_harness, pipeline, tmp_path / "c") as live:
        live.send({"card": "warm", "id": 0})
        live.await_row("the first row", card="warm")
        time.sleep(2 * WAIT_MS / 1000)
        sent = time.time() * 1000
        live.send({"card": "idle", "id": 1})
        status = {"status": "final"} if kind == "session_windows" else {}
        at, _ = live.await_row("the end", card="idle", **status)
        assert live.query.lastProgress is None, "the result came with the end of the epoch"
    assert at - sent > (200 if kind == "windows" else WAIT_MS - 100)


def test_without_a_grace_no_row_in_order_is_late(eagre_harness, tmp_path):
    """Short windows, so that many of them end by the wall clock while rows are on their way."""

    @eg.pipeline(source=source("op-strict-in"), sink=eg.Kafka("op-strict-out"), name="op-strict")
    def strict(df):
        made = eg.windows(df, "card", "100 ms", ["count"], emit="final", grace="0 ms")
        return made.drop("_source")

    before = late(eagre_harness.spark, "op-strict")
    with Live(eagre_harness, strict, tmp_path / "c") as live:
        live.send(Record({"card": "warm", "id": 0}, "warm"))
        live.await_row("the first window", card="warm")
        for number in range(100):
            live.send(Record({"card": "c", "id": number}, "c"))
        wait_until(
            lambda: sum(row["count"] for _, row in live.results() if row["card"] == "c") == 100,
            30,
            f"rows are missing; {late(eagre_harness.spark, 'op-strict') - before} are late",
        )
    assert late(eagre_harness.spark, "op-strict") == before


@pytest.mark.e2e
def test_the_last_window_of_a_backfill_ends_in_the_next_run(eagre_harness, tmp_path):
    """``available-now`` leaves it open, because its other rows may still come."""

    @eg.pipeline(source=source("op-last-in"), sink=eg.Kafka("op-last-out"))
    def last(df):
        made = eg.windows(df, "card", "2 s", ["count"], emit="final", grace="0 ms", event_time="at")
        return made.select("window.start", "count")

    at = "2026-01-01T00:00:0{}Z".format
    rows = keyed({"card": "c", "id": second, "at": at(second)} for second in (0, 1, 2, 3))
    first = eagre_harness.run(last, rows[:3], mode="available-now", checkpoint=tmp_path / "c")
    assert [row["count"] for row in first] == [2]
    with Live(eagre_harness, last, tmp_path / "c") as live:
        live.send(rows[3])
        wait_until(lambda: len(live.results()) > 1, 30, "the last window did not end")
        assert [row["count"] for _, row in live.results()] == [2, 2]


@pytest.mark.e2e
def test_old_records_use_their_own_timestamps(eagre_harness, tmp_path):
    """In a backfill of yesterday's records a session ends no earlier than it would have then."""
    pipeline = closing("session_windows", "op-old")
    day_ago = round(time.time() * 1000) - 86_400_000

    def old(number, ms):
        return Record({"card": "old", "id": number}, "old", timestamp_ms=day_ago + ms)

    with Live(eagre_harness, pipeline, tmp_path / "c") as live:
        live.send({"card": "warm", "id": 0})
        live.await_row("the first row", card="warm", status="final")
        sent = time.time() * 1000
        live.send(old(1, 0))
        live.send(old(2, 500))
        at, row = live.await_row("the end", card="old", status="final")
        assert live.query.lastProgress is None, "the result came with the end of the epoch"
    assert row["count"] == 2
    assert at - sent > WAIT_MS - 100


def test_a_lookup_waits_for_its_table(eagre_harness, tmp_path):
    @eg.pipeline(
        source=[source("op-wait-in"), eg.Kafka("op-wait-table", schema="card STRING, limit INT")],
        sink=eg.Kafka("op-wait-out"),
    )
    def waits(df, table):
        return eg.lookup(df, table, "card", wait="1 minute").select("id", "limit")

    with Live(eagre_harness, waits, tmp_path / "c") as live:
        live.send({"card": "c", "id": 1})
        live.send({"card": "c", "limit": 7}, topic="op-wait-table")
        live.await_row("the row that waited", id=1, limit=7)
        live.send({"card": "c", "id": 2})
        live.await_row("the next row", id=2, limit=7)


@pytest.mark.e2e
def test_a_pause_of_the_query_ends_no_session(eagre_harness, tmp_path):
    """Rows that wait in the topic while the query is down belong to their session."""

    @eg.pipeline(source=source("op-paused-in"), sink=eg.Kafka("op-paused-out"))
    def paused(df):
        made = eg.session_windows(df, "card", "2 s", ["count"], grace="3 s", event_time="at")
        return made.drop("_source")

    row = {"card": "c", "id": 1, "at": "2026-01-01T00:00:00Z"}
    eagre_harness.run(paused, [row], checkpoint=tmp_path / "c")
    time.sleep(5.5)
    eagre_harness.write(paused, [{**row, "id": 2, "at": "2026-01-01T00:00:01Z"}])
    with Live(eagre_harness, paused, tmp_path / "c") as live:
        live.await_row("the session", count=2, status="final")
        assert [row["count"] for _, row in live.results() if row["status"] == "final"] == [2]


def chain(name, **sink):
    @eg.pipeline(source=source(f"{name}-in"), sink=eg.Kafka(f"{name}-out", **sink), name=name)
    def chained(df):
        once = eg.deduplicate(df, "id", "1 hour", event_time="at")
        windows = {"1 minute": ["count as n", "sum(amount) as total"]}
        features = eg.rolling(once, "card", windows, grace="1 hour", event_time="at")
        return features.select("id", "card", "n", "total")

    return chained


def expected_of_chain(rows):
    once, _ = deduplicated(rows, "id", 3_600_000)
    return {
        row["id"]: (len(window), sum_of(window))
        for row, window in rolled(once, "card", 60_000, 60, 3_600_000)
    }


def sum_of(rows):
    known = [row["amount"] for row in rows if row["amount"] is not None]
    return sum(known) if known else None


@pytest.mark.e2e
def test_operators_can_be_chained(run_in_both_modes):
    rows = payments(7, 300, grace=20)
    for row in rows:
        row["id"] = row["id"] * 7919 % 10_007  # a batch sorts by them
    results = run_in_both_modes(chain("op-chain"), keyed(rows))
    assert len(results) == len({row["id"] for row in results})
    assert {row["id"]: (row["n"], row.get("total")) for row in results} == expected_of_chain(rows)


@pytest.mark.e2e
def test_results_are_the_same_after_interruptions(eagre_harness, tmp_path):
    """Stop repeatedly in the middle of epochs, without a drain, in both modes."""
    rows = payments(8, 400, grace=20)[:400]
    pipeline = chain("op-cut")
    eagre_harness.run(pipeline, [], checkpoint=tmp_path / "c")
    for part, mode in enumerate(["real-time", "micro-batch", "real-time", "micro-batch"]):
        with Live(eagre_harness, pipeline, tmp_path / "c", mode, "5 seconds") as live:
            live.send(*keyed(rows[part * 100 : part * 100 + 100]))
            last = rows[part * 100 + 99]["id"]
            live.await_row("the last row", id=last)
    with Live(eagre_harness, pipeline, tmp_path / "c") as live:
        live.send(Record({"id": -1, "card": "end", "at": rows[-1]["at"]}, key="end"))
        live.await_row("the end", id=-1)
        results = [row for _, row in live.results() if row["id"] >= 0]
    assert {(r["id"], r["n"], r.get("total")) for r in results} == {
        (number, *values) for number, values in expected_of_chain(rows).items()
    }


@pytest.mark.e2e
def test_warming_up_the_planner_changes_no_results(eagre_harness, tmp_path):
    """The running epoch is planned again: results are the same, and no job is started."""
    rows = payments(9, 60, grace=20)[:60]
    with Live(eagre_harness, chain("op-warmup"), tmp_path / "c", "real-time", "5 seconds") as live:
        warmup = gateway.warm_up_planner(eagre_harness.spark, live.query, 6)
        for part in range(6):
            live.send(*keyed(rows[part * 10 : part * 10 + 10]))
            time.sleep(1)
        wait_until(lambda: warmup.left() == 0, 60, "the epoch was not planned again")
        live.send(Record({"id": -1, "card": "end", "at": rows[-1]["at"]}, key="end"))
        live.await_row("the end", id=-1)
        tracker = eagre_harness.spark.sparkContext.statusTracker()
        jobs = tracker.getJobIdsForGroup(str(live.query.runId))
        assert len(jobs) <= live.query.lastProgress.batchId + 2
        results = [row for _, row in live.results() if row["id"] >= 0]
    assert {(r["id"], r["n"], r.get("total")) for r in results} == {
        (number, *values) for number, values in expected_of_chain(rows).items()
    }


def was_optimised(query):
    """Return whether Spark's optimizer processed the plan of the running epoch."""
    tracker = query._jsq.streamingQuery().lastExecution().tracker()  # noqa: SLF001
    return tracker.rules().contains("org.apache.spark.sql.catalyst.optimizer.ColumnPruning")


@pytest.mark.e2e
def test_an_epoch_reuses_the_previous_plan(eagre_harness, tmp_path):
    rows = payments(10, 40, grace=20)[:40]
    with Live(eagre_harness, chain("op-cached"), tmp_path / "c", "real-time", EPOCH) as live:
        optimised = []
        for part in range(4):
            live.send(*keyed(rows[part * 10 : part * 10 + 10]))
            live.await_epoch()
            optimised.append(was_optimised(live.query))
        live.send(Record({"id": -1, "card": "end", "at": rows[-1]["at"]}, key="end"))
        live.await_row("the end", id=-1)
        results = [row for _, row in live.results() if row["id"] >= 0]
    assert not any(optimised)
    assert {(r["id"], r["n"], r.get("total")) for r in results} == {
        (number, *values) for number, values in expected_of_chain(rows).items()
    }


@pytest.mark.e2e
def test_the_current_time_is_not_cached(eagre_harness, tmp_path):
    @eg.pipeline(source=source("op-now-in"), sink=eg.Kafka("op-now-out"), name="op-now")
    def stamped(df):
        return df.select("id", F.unix_millis(F.current_timestamp()).alias("now"))

    with Live(eagre_harness, stamped, tmp_path / "c", "real-time", EPOCH) as live:
        for number in range(3):
            live.send(Record({"id": number, "card": "c"}))
            live.await_row(f"row {number}", id=number)
            live.await_epoch()
        assert len({row["now"] for _, row in live.results()}) == 3


FORGETFUL = {"grace": "0 s", "retention": "0 s"}
BOUND = {
    "deduplicate": lambda df: eg.deduplicate(df, "id", "300 ms"),
    "rolling": lambda df: eg.rolling(df, "id", {"300 ms": ["count as n"]}, slices=3, grace="0 s"),
    "session_windows": lambda df: eg.session_windows(df, "id", "300 ms", ["count"], **FORGETFUL),
    "windows": lambda df: eg.windows(df, "id", "300 ms", ["count"], **FORGETFUL),
    "top_n": lambda df: eg.top_n(df, "id", "count", 3, "300 ms", item="card", **FORGETFUL),
    "interval_join": lambda df, other: eg.interval_join(df, other, "id", "300 ms", grace="0 s"),
    "lookup": lambda df, other: eg.lookup(df, other, "id", wait="300 ms"),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", BOUND)
def test_state_is_bounded(eagre_harness, tmp_path, kind):
    """Send new keys for many times the bound: only recent keys remain in the state.

    ``EAGRE_FRESH_KEYS=2000000`` sends millions.
    """
    count = int(os.environ.get("EAGRE_FRESH_KEYS", "10000"))
    parts = max(24, count // 50_000)
    each = count // parts
    topic = f"op-bound-{kind}"
    other = eg.Kafka(f"{topic}-other", schema="id INT, other INT")
    both = [source(topic), other] if kind in ("interval_join", "lookup") else source(topic)
    pipeline = eg.pipeline(source=both, sink=eg.Kafka(f"{topic}-out"), name=kind)(BOUND[kind])

    with Live(eagre_harness, pipeline, tmp_path / kind, "micro-batch", "500 ms") as live:
        seen = {}

        def state_rows():
            """Return the rows of state after each batch so far."""
            for p in live.query.recentProgress:
                seen[p.batchId] = p.stateOperators[0].numRowsTotal if p.stateOperators else 0
            return list(seen.values())

        def read():
            """Return how many keys were read: waiting keys would form one large batch."""
            last = live.query.lastProgress
            ends = [json.loads(s.endOffset or "{}") for s in last.sources] if last else []
            return sum(sum(end.get(topic, {}).values()) for end in ends)

        for part in range(parts):
            live.send(*({"id": part * each + n} for n in range(each)))
            time.sleep(0.5)
            wait_until(lambda: read() >= part * each and state_rows(), 120, "too slow")  # noqa: B023
        wait_until(lambda: read() == parts * each, 120, "too slow")
        wait_until(
            lambda: max(state_rows()) and state_rows()[-1] == 0, 120, f"state remains: {seen}"
        )
    most = max(seen.values())
    sys.stdout.write(f"{kind}: {count} keys, {each} at a time: at most {most} rows of state\n")
    assert most <= 6 * each, seen


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda a, _: eg.rolling(timed_windows(a), "card", ROLL), "STATE_AFTER_UPDATES"),
        (lambda a, _: eg.deduplicate(counted(a), "card", "1 s"), "STATE_AFTER_UPDATES"),
        (lambda a, _: eg.deduplicate(top(a), "card", "1 s"), "STATE_AFTER_UPDATES"),
        (lambda a, b: eg.interval_join(once(a), b, "card", "1 s"), "STATE_BEFORE_UNION"),
        (lambda a, b: eg.lookup(once(a), b, "card"), "STATE_BEFORE_UNION"),
    ],
)
def test_invalid_operator_chains_are_refused(eagre_harness, make, code):
    spark, brokers = eagre_harness.spark, eagre_harness.brokers
    first = source("op-follow").read(spark, brokers)
    second = eg.Kafka("op-follow-2", schema="card STRING, other INT").read(spark, brokers)
    with pytest.raises(SettingsError, match=code):
        make(first, second)


ROLL = {"1 minute": ["count as n"]}


def timed_windows(df, emit="update"):
    return eg.windows(df, "card", "1 s", ["count"], emit=emit)


def counted(df):
    return df.groupBy("card").agg(F.max("_source").alias("_source"))


def top(df):
    return eg.top_n(df, "country", "count", 3, "1 minute", item="card")


def once(df):
    return eg.deduplicate(df, "id", "1 second")


def test_valid_operator_chains_are_accepted(eagre_harness):
    df = source("op-follow").read(eagre_harness.spark, eagre_harness.brokers)
    assert "n" in eg.rolling(timed_windows(df, "final"), "card", ROLL).columns
    assert "_source" in top(once(df)).columns
