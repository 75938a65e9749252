"""Keyed state in Python compared with Spark's implementation, in every mode and after kills."""

import json
import os
import random
import re
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

import eagre as eg
import processors
from conftest import kill_children, processes_of
from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS
from eagre.errors import SettingsError
from eagre.jvm.java import find_jdk
from eagre.python.eagre_worker.layout import WrongTypeError
from eagre.python.eagre_worker.session import Session
from eagre.python.eagre_worker.variables import Map, Value
from eagre.python.state import declaration
from eagre.waiting import wait_until
from processors import (
    OUTPUT,
    AllState,
    FailingTimers,
    OpenedAt,
    RenamesState,
    Stamped,
    Sum,
    SumFromInitialState,
    Timers,
    Totals,
)
from test_python_failures import dead_letters

SCHEMA = "key STRING, n INT, do STRING"
TOTAL = StructType().add("n", LongType())
EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
cloudpickle.register_pickle_by_value(processors)  # Spark's workers cannot import it


def events(seed, count, keys=4):
    """Return random rows that use every kind of state."""
    pick = random.Random(seed)
    operations = ("add", "append", "put", "remove", "clear", "read", "refuse")
    return [
        {"key": f"k{pick.randrange(keys)}", "n": i, "do": pick.choice(operations)}
        for i in range(count)
    ]


def pipeline(name, processor, time_mode="none", **options):
    @eg.pipeline(
        source=eg.Kafka(f"{name}-in", schema=SCHEMA, key="key"), sink=eg.Kafka(f"{name}-out")
    )
    def stateful(df):
        rows = df.where("do != 'refuse'") if options.pop("refusing", False) else df
        return eg.transform_with_state(
            rows.groupBy("key"), processor, OUTPUT, time_mode, **options
        ).drop("_source")

    return stateful


def oracle(spark, rows, checkpoint, folder, processor, batches, time_mode="None", schema=SCHEMA):
    """Run Spark's transformWithState over the same rows in the same order, in batches."""
    source = folder / "oracle-in"
    source.mkdir(exist_ok=True)
    size = -(-len(rows) // batches)
    for i in range(batches):
        text = "\n".join(json.dumps(r) for r in rows[i * size : (i + 1) * size])
        path = source / f"{i:04}.json"
        path.write_text(text)
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))
    results = []

    def collect(frame, _):
        results.extend(row.asDict(recursive=True) for row in frame.collect())

    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(source))
    if time_mode == "EventTime":
        stream = stream.withWatermark("at", "1 second")
    writer = (
        stream.groupBy("key")
        .transformWithState(processor, OUTPUT, "Update", time_mode)
        .writeStream.foreachBatch(collect)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    spark.conf.set(EMPTY_BATCHES, str(time_mode != "ProcessingTime").lower())
    try:
        query = writer.start()
    finally:
        spark.conf.set(EMPTY_BATCHES, "true")
    wait_until(lambda: query.awaitTermination(1), 120, "the oracle does not end", interval=0)
    return results


def by_key(rows):
    """Return the results of each key in order; the order between keys does not matter."""
    grouped = {}
    for row in rows:
        grouped.setdefault(row["key"], []).append(row)
    return grouped


def state(spark, checkpoint, name):
    rows = (
        spark.read.format("statestore")
        .option("stateVarName", name)
        .load(str(checkpoint))
        .drop("partition_id")
        .collect()
    )
    return sorted(str(row.asDict(recursive=True)) for row in rows)


@pytest.mark.e2e
def test_results_and_state_equal_sparks(eagre_spark, run_pipeline, tmp_path):
    """Every mode is compared with one run of Spark's implementation, which is slow."""
    rows = [row for row in events(11, 120) if row["do"] != "refuse"]
    expected = oracle(eagre_spark, rows, tmp_path / "o", tmp_path, AllState(), batches=3)
    names = ("total", "items", "entries")
    final = {name: state(eagre_spark, tmp_path / "o", name) for name in names}
    for mode in ("real-time", "micro-batch", "available-now"):
        same = pipeline(f"same-{mode}", AllState())
        results = run_pipeline(same, rows, mode=mode, checkpoint=tmp_path / mode)
        assert by_key(results) == by_key(expected), mode
        assert {name: state(eagre_spark, tmp_path / mode, name) for name in names} == final, mode


@pytest.mark.e2e
def test_results_with_a_ttl_equal_sparks(eagre_spark, run_pipeline, tmp_path):
    rows = [row for row in events(31, 60) if row["do"] != "refuse"]
    processor = AllState(ttl_ms=3_600_000)
    expected = oracle(eagre_spark, rows, tmp_path / "o", tmp_path, processor, 2, "ProcessingTime")
    for mode in ("real-time", "available-now"):
        results = run_pipeline(
            pipeline(f"live-{mode}", processor, "processing-time"), rows, mode=mode
        )
        assert by_key(results) == by_key(expected), mode


@pytest.mark.e2e
def test_the_same_timers_expire_as_in_spark(eagre_spark, run_pipeline, tmp_path):
    schema = f"{SCHEMA}, at TIMESTAMP"
    pick = random.Random(41)
    rows = [
        {
            "key": f"k{pick.randrange(5)}",
            "n": pick.randrange(1, 60) * 1000,
            "do": "set",
            "at": f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z",
        }
        for i in range(60)
    ]
    later = [
        {"key": "later", "n": 1, "do": "read", "at": f"2026-01-0{day}T00:00:00Z"} for day in (2, 3)
    ]

    @eg.pipeline(
        source=eg.Kafka("timed-in", schema=schema, event_time="at", watermark="1 second"),
        sink=eg.Kafka("timed-out"),
    )
    def timed(df):
        output = eg.transform_with_state(
            df.groupBy("key"), Timers(event=True), OUTPUT, "event-time"
        )
        return output.drop("_source")

    def results_of(mode):
        parts = (rows[:30], rows[30:], later[:1], later[1:])
        runs = [run_pipeline(timed, p, mode=mode, checkpoint=tmp_path / mode) for p in parts]
        return [row for run in runs for row in run]

    expected = oracle(
        eagre_spark,
        rows + later,
        tmp_path / "o",
        tmp_path,
        Timers(event=True),
        4,
        "EventTime",
        schema,
    )

    def expired(results):
        return sorted((r["key"], r["total"]) for r in results if r["text"] == "expired")

    assert len(expired(expected)) > 30
    for mode in ("real-time", "micro-batch"):
        assert expired(results_of(mode)) == expired(expected), mode


def test_a_call_that_raises_changes_no_state(run_in_both_modes):
    rows = events(5, 200)
    results = run_in_both_modes(pipeline("trace", AllState()), rows)
    accepted = [row for row in rows if row["do"] != "refuse"]
    assert len(accepted) < len(rows)
    expected = run_in_both_modes(pipeline("traceless", AllState()), accepted)
    assert by_key(results) == by_key(expected)


def test_state_can_switch_modes(run_pipeline, tmp_path):
    counted = pipeline("modes", Sum())
    rows = [{"key": "k", "n": i, "do": "add"} for i in range(5)]
    last = []
    for mode in ("micro-batch", "real-time", "available-now", "real-time"):
        last = run_pipeline(counted, rows, mode=mode, checkpoint=tmp_path / "c")
    assert last[-1]["total"] == 4 * sum(range(5))


def test_keys_of_equal_numbers_are_equal(run_in_both_modes):
    """A batch would put zero and minus zero together, and real time apart."""

    @eg.pipeline(source=eg.Kafka("state-zero-in", schema=SCHEMA), sink=eg.Kafka("state-zero-out"))
    def zero(df):
        signed = F.when(df.n == 2, F.lit(-0.0)).otherwise(F.lit(0.0))
        numbers = df.select("n", "do", signed.alias("key"))
        return eg.transform_with_state(numbers.groupBy("key"), Totals(), "key DOUBLE, total LONG")

    rows = [{"key": "k", "n": n, "do": "add"} for n in (1, 2, 3)]
    assert [row["total"] for row in run_in_both_modes(zero, rows)] == [1, 3, 6]


def test_each_run_opens_its_processors_once(run_pipeline, tmp_path):
    stateful = pipeline("opened", OpenedAt())
    rows = [{"key": "k", "n": i, "do": "add"} for i in range(3)]
    opened = [
        {row["text"] for row in run_pipeline(stateful, rows, mode=mode, checkpoint=tmp_path / "c")}
        for mode in ("real-time", "available-now", "micro-batch", "available-now")
    ]
    assert [len(times) for times in opened] == [1] * 4
    assert len(set.union(*opened)) == 4


def test_results_carry_the_provenance_of_their_row(run_in_both_modes):
    @eg.pipeline(
        source=eg.Kafka("state-origin-in", schema=SCHEMA), sink=eg.Kafka("state-origin-out")
    )
    def provenance(df):
        output = eg.transform_with_state(df.groupBy("key"), Sum(), OUTPUT)
        return output.select("key", "text", F.col("_source.offset").alias("offset"))

    results = run_in_both_modes(provenance, [{"key": "k", "n": i, "do": "add"} for i in range(4)])
    offsets = [row["offset"] for row in results]
    assert offsets == sorted(offsets)
    assert len(set(offsets)) == 4


def test_initial_state_is_loaded_before_the_first_row(eagre_spark, run_in_both_modes):
    known = eagre_spark.createDataFrame([("k0", 1000), ("k1", 2000)], "key STRING, start INT")

    @eg.pipeline(source=eg.Kafka("first-in", schema=SCHEMA), sink=eg.Kafka("first-out"))
    def started(df):
        return eg.transform_with_state(
            df.groupBy("key"), SumFromInitialState(), OUTPUT, initial_state=known.groupBy("key")
        ).drop("_source")

    rows = [{"key": key, "n": 1, "do": "add"} for key in ("k0", "k1", "k2")]
    totals = {row["key"]: row["total"] for row in run_in_both_modes(started, rows)}
    assert totals == {"k0": 1001, "k1": 2001, "k2": 1}


def test_a_deleted_state_variable_is_removed(eagre_spark, run_pipeline, tmp_path):
    rows = [{"key": "k", "n": 1, "do": "add"}]
    run_pipeline(pipeline("gone", Sum()), rows, mode="micro-batch", checkpoint=tmp_path / "c")
    after = run_pipeline(
        pipeline("gone", RenamesState()), rows, mode="micro-batch", checkpoint=tmp_path / "c"
    )
    assert after[-1]["total"] == 1
    with pytest.raises(Exception, match="total"):
        state(eagre_spark, tmp_path / "c", "total")


def test_a_plain_string_is_the_key_of_a_map_state():
    """As in Spark's test of composite types."""
    key = StructType().add("name", StringType())
    entries = Map(Session(), 0, {"name": "entries", **described(key)})
    entries.clear()
    entries.updateValue("k1", (1,))
    entries.updateValue(("k2",), (2,))
    assert entries.getValue(("k1",)) == (1,)
    assert entries.containsKey("k2")
    assert [key.name for key, _ in entries.iterator()] == ["k1", "k2"]
    entries.removeKey("k1")
    assert not entries.containsKey("k1")


def described(key):
    return {"key": key.jsonValue(), "schema": TOTAL.jsonValue()}


def test_a_wrong_type_names_its_state_variable():
    key = StructType().add("name", StringType()).add("place", StringType())
    entries = Map(Session(), 0, {"name": "entries", **described(key)})
    entries.clear()
    for wrong in (7, "k", ("k",)):
        with pytest.raises(WrongTypeError, match="a key of the state 'entries'"):
            entries.updateValue(wrong, (1,))
    with pytest.raises(WrongTypeError, match="a value of the state 'entries': not a Row"):
        entries.updateValue(("k", "p"), 1)
    total = Value(Session(), 0, {"name": "total", "schema": TOTAL.jsonValue()})
    with pytest.raises(WrongTypeError, match="a value of the state 'total'"):
        total.update(("many",))


@pytest.mark.parametrize("deletes_first", [True, False])
def test_a_state_that_is_requested_and_deleted_is_refused(deletes_first):
    """As in Spark's test of a simple processor, where using the state raises."""

    class Both(Sum):
        def init(self, handle):
            if deletes_first:
                handle.deleteIfExists("temp")
            handle.getValueState("temp", TOTAL)
            if not deletes_first:
                handle.deleteIfExists("temp")

    with pytest.raises(SettingsError, match=r"STATE_DELETED: .* 'temp'"):
        declaration(cloudpickle.dumps(Both()), "Both", "none")


class Live:
    """A query that runs while the test sends rows."""

    def __init__(self, harness, pipeline, checkpoint, every="1 minute"):
        self.harness, self.pipeline = harness, pipeline
        harness._make_topics(pipeline)  # noqa: SLF001
        self.out = pipeline.sink.topics[0]
        self.begin = harness.topics.ends([self.out])[self.out]
        self.query = pipeline.start(
            harness.spark, checkpoint=str(checkpoint), brokers=harness.brokers, every=every
        )

    def send(self, *rows):
        self.harness.write(self.pipeline, rows)

    def results(self):
        return [
            (r.timestamp()[1], json.loads(r.value()))
            for r in self.harness.records(self.out, self.begin)
        ]

    def __enter__(self):
        tries = 0
        while not self.results() and tries < 100:
            self.send({"key": "warm", "n": 0, "do": "add"})
            time.sleep(0.5)
            tries += 1
        return self

    def __exit__(self, *_):
        self.query.stop()


def instances(spark, name):
    """Return how many objects of a class the JVM still holds after a garbage collection."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()  # noqa: SLF001  (there is no other way)
    jcmd = find_jdk().home / "bin" / "jcmd"
    histogram = subprocess.check_output([jcmd, str(pid), "GC.class_histogram"], text=True)
    found = re.search(rf"(\d+) +\d+ +{re.escape(name)}\s", histogram)
    return int(found[1]) if found else 0


@pytest.mark.e2e
def test_scans_of_a_map_leave_nothing_behind_in_a_long_task(eagre_spark, eagre_harness, tmp_path):
    """For each scan Spark adds a listener to the task, and a task may run for days."""
    rows = [{"key": "a", "n": n, "do": "put"} for n in range(100)]
    with Live(eagre_harness, pipeline("scans", AllState()), tmp_path / "c") as live:
        live.send(*rows[:10])
        wait_until(lambda: len(live.results()) >= 10, 60, "no results")
        before = instances(eagre_spark, "org.rocksdb.RocksIterator")
        live.send(*rows)
        wait_until(lambda: len(live.results()) >= 110, 60, "no results")
        assert instances(eagre_spark, "org.rocksdb.RocksIterator") < before + 20


def test_timers_expire_without_new_rows(eagre_harness, tmp_path):
    """Timers expire within the epoch; the benchmark measures how late they are."""
    timers = pipeline("timers", Timers(), "processing-time")
    late = []
    with Live(eagre_harness, timers, tmp_path / "c") as live:
        for i in range(10):
            live.send({"key": f"r{i}", "n": 400, "do": "set"})
            time.sleep(0.6)
        wait_until(
            lambda: sum(r["text"] == "expired" for _, r in live.results()) >= 10,
            10,
            "no timer expired",
        )
        for at, row in live.results():
            if row["text"] == "expired":
                late.append(at - row["total"])
    assert min(late) >= -1


def test_a_timer_in_the_past_expires_immediately(eagre_harness, tmp_path):
    timers = pipeline("past", Timers(), "processing-time")
    with Live(eagre_harness, timers, tmp_path / "c") as live:
        live.send({"key": "p", "n": -60_000, "do": "set"})
        wait_until(
            lambda: any(r["text"] == "expired" for _, r in live.results()), 3, "it did not expire"
        )


def test_a_timer_that_raises_names_its_key_and_time(eagre_harness, tmp_path):
    """It has no record, so the reason is all there is; it is not called again."""
    timers = pipeline("failing", FailingTimers(), "processing-time")
    with Live(eagre_harness, timers, tmp_path / "c") as live:
        live.send({"key": "f", "n": 200, "do": "set"})

        def at():
            return [row["total"] for _, row in live.results() if row["text"] == "set"]

        wait_until(at, 10, "the timer was not set")
        wait_until(lambda: dead_letters(eagre_harness, "failing"), 10, "there is no dead letter")
        time.sleep(0.5)
        [letter] = dead_letters(eagre_harness, "failing")
    moment = datetime.fromtimestamp(at()[0] / 1000, UTC)
    reason = r"FailingTimers raised ValueError: too late .* in the timer of the key \[f\] at (\S+)"
    [named] = re.findall(reason, letter["eagre-reason"])
    assert datetime.fromisoformat(named) == moment


def test_timers_can_be_listed_and_deleted(eagre_harness, tmp_path):
    timers = pipeline("deleted", Timers(), "processing-time")
    with Live(eagre_harness, timers, tmp_path / "c") as live:
        live.send({"key": "d", "n": 60_000, "do": "set"}, {"key": "d", "n": 0, "do": "list"})
        live.send({"key": "d", "n": 0, "do": "delete"}, {"key": "d", "n": 1, "do": "list"})

        def listed():
            return [r["total"] for _, r in live.results() if r["text"] == "listed"]

        wait_until(lambda: len(listed()) == 2, 10, "timers were not listed")
        assert listed() == [1, 0]


def test_state_expires_after_its_ttl(eagre_harness, tmp_path):
    short = pipeline("ttl", Sum(ttl_ms=1500), "processing-time")
    with Live(eagre_harness, short, tmp_path / "c") as live:
        live.send({"key": "t", "n": 5, "do": "add"})
        time.sleep(0.3)
        live.send({"key": "t", "n": 6, "do": "add"})
        time.sleep(2.5)
        live.send({"key": "t", "n": 7, "do": "add"})

        def totals():
            return [r["total"] for _, r in live.results() if r["key"] == "t"]

        wait_until(lambda: len(totals()) == 3, 10, "answers are missing")
        assert totals() == [5, 11, 7]


def test_event_time_timers_expire_after_the_watermark(run_pipeline, tmp_path):
    @eg.pipeline(
        source=eg.Kafka(
            "event-in", schema=f"{SCHEMA}, at TIMESTAMP", event_time="at", watermark="1 second"
        ),
        sink=eg.Kafka("event-out"),
    )
    def timed(df):
        output = eg.transform_with_state(
            df.groupBy("key"), Timers(event=True), OUTPUT, "event-time"
        )
        return output.drop("_source")

    def at(second, key="e", do="set"):
        return {"key": key, "n": 2000, "do": do, "at": f"2026-01-01T00:00:{second:02}Z"}

    results = []
    for second in (1, 2, 30, 40):
        results += run_pipeline(timed, [at(second, f"e{second}")], checkpoint=tmp_path / "c")
    expired = {row["key"] for row in results if row["text"] == "expired"}
    assert {"e1", "e2"} <= expired
    assert "e40" not in expired


@pytest.mark.parametrize("mode", ["real-time", "micro-batch"])
def test_a_processor_passes_the_event_time_on(run_pipeline, tmp_path, mode):
    """As PySpark's ``eventTimeColumnName`` does: the timers of the next processor expire."""
    stamped = f"{SCHEMA}, at TIMESTAMP"
    topic = eg.Kafka(f"passed-{mode}-in", schema=stamped, event_time="at", watermark="1 second")

    @eg.pipeline(source=topic, sink=eg.Kafka(f"passed-{mode}-out"))
    def chained(df):
        first = eg.transform_with_state(
            df.groupBy("key"), Stamped(), stamped, event_time_column="at"
        )
        second = eg.transform_with_state(
            first.groupBy("key"), Timers(event=True), OUTPUT, "event-time"
        )
        return second.drop("_source")

    results = []
    for second in (1, 2, 30, 40):
        at = f"2026-01-01T00:00:{second:02}Z"
        row = {"key": f"e{second}", "n": 2000, "do": "set", "at": at}
        results += run_pipeline(chained, [row], mode=mode, checkpoint=tmp_path / "c")
    expired = {row["key"] for row in results if row["text"] == "expired"}
    assert {"e1", "e2"} <= expired
    assert "e40" not in expired


def chained(grouped, column, schema="at TIMESTAMP, n INT"):
    return eg.transform_with_state(grouped, Sum(), schema, event_time_column=column)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda g: chained(g, "at"), "EVENT_TIME_MISSING"),
        (lambda g: chained(g, "when"), "COLUMN_UNKNOWN"),
        (lambda g: chained(g, "n"), "EVENT_TIME_TYPE"),
        (lambda g: eg.transform_with_state(g, Sum(), OUTPUT, "wall"), "TIME_MODE_UNKNOWN"),
        (lambda g: eg.transform_with_state(g, Sum(ttl_ms=1), OUTPUT), "TTL_NEEDS_PROCESSING"),
        (lambda g: eg.transform_with_state(g, Sum(), "int"), "SCHEMA_OF_ROWS"),
        (lambda g: eg.transform_with_state(g, Sum(twice=True), OUTPUT), "STATE_NAMED_TWICE"),
        (lambda g: eg.transform_with_state(g, Sum(bad=True), OUTPUT), "PROCESSOR_INIT_RAISED"),
    ],
)
def test_invalid_processors_are_refused(eagre_spark, make, code):
    grouped = eagre_spark.range(1).groupBy("id")
    with pytest.raises(SettingsError, match=code):
        make(grouped)


@pytest.mark.long
@pytest.mark.xfail(
    strict=False, reason="Spark's state reader finds nothing after a mid-epoch commit (issue 25)"
)
def test_results_are_the_same_after_kills(cli, eagre_spark, eagre_broker, eagre_harness, tmp_path):
    """All processes are killed twice; the final state is equal to the oracle's."""
    rows = [row for row in events(21, 400, keys=6) if row["do"] != "refuse"]
    expected = oracle(eagre_spark, rows, tmp_path / "o", tmp_path, AllState(), batches=2)
    cli.app(Path(__file__).with_name("processors.py").read_text(), "processors.py")
    app = cli.app(
        "import eagre as eg\n"
        "from processors import OUTPUT, AllState\n"
        f"@eg.pipeline(source=eg.Kafka('kills-in', schema={SCHEMA!r}, key='key'),\n"
        "    sink=eg.Kafka('kills-out', key='key'))\n"
        "def kills(df):\n"
        "    output = eg.transform_with_state(df.groupBy('key'), AllState(), OUTPUT)\n"
        "    return output.drop('_source')\n"
    )
    for topic in ("kills-in", "kills-out"):
        eagre_harness.topics.create(topic, 1)
    arguments = ["run", app, "--brokers", eagre_broker.address, "--every", "5 s"]
    arguments += ["--from", "earliest", "--checkpoint", tmp_path / "c"]
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        before = len(eagre_harness.records("kills-out", {0: 0}))
        process = cli.start(*arguments)
        try:
            for row in part:
                _produce(eagre_broker.address, row)
                time.sleep(0.01)
            wait_until(
                lambda seen=before: len(eagre_harness.records("kills-out", {0: 0})) > seen + 50,
                90,
                "nothing came out before the kill",
            )
        finally:
            _kill_all(process, cli.folder)
    begin = time.time()
    process = cli.start(*arguments)
    try:
        wait_until(
            lambda: _last(eagre_harness) == _final(expected), 90, "the last results do not match"
        )
        wait_until(
            lambda: any(
                path.stat().st_mtime > begin
                for kind in ("commits/*", f"{MID_EPOCH_COMMITS}/*")
                for path in (tmp_path / "c").rglob(kind)
            ),
            90,
            "nothing was committed",
        )
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        _kill_all(process, cli.folder)
    checkpoint = next((tmp_path / "c").rglob("offsets")).parent
    for variable in ("total", "items", "entries"):
        values = state(eagre_spark, checkpoint, variable)
        assert values == state(eagre_spark, tmp_path / "o", variable)
    assert not processes_of(cli.folder)


def _produce(brokers, row):
    from confluent_kafka import Producer

    producer = _producers.setdefault(brokers, Producer({"bootstrap.servers": brokers}))
    producer.produce("kills-in", json.dumps(row), row["key"])
    producer.flush()


_producers = {}


def _last(harness):
    """Return the last result of each key."""
    results = {}
    for record in harness.records("kills-out", {0: 0}):
        row = json.loads(record.value())
        results[row["key"]] = row
    return results


def _final(expected):
    return {key: rows[-1] for key, rows in by_key(expected).items()}


def _kill_all(process, folder):
    kill_children(process)
    process.kill()
    process.communicate()
    wait_until(lambda: not processes_of(folder), 20, "processes are left")
