"""Each rule beyond the corpus: the check reports the problem, and Spark 4.3 really has it.

The slow proofs on Spark run in ``make e2e``.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from pyspark.sql import functions as F

import eagre as eg
from eagre.broker import ClientSettings, Topics
from eagre.commit import Binding, Checkpoint
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.jvm.gateway.session import _cores
from eagre.preflight import explained, known_rules
from eagre.preflight.advise import Requirements, advise
from eagre.preflight.check import Report
from eagre.preflight.facts import Facts, read_checkpoint, read_topics
from eagre.preflight.plan import Node, plan
from eagre.preflight.size import Size
from eagre.profile import CHOICE
from eagre.waiting import wait_until
from queries import CheckSetup, outcome, received, send

EPOCHS = {"realTime": "1 second"}
PAYMENTS = "id STRING, card STRING, amount DOUBLE, n INT, at TIMESTAMP"


def event(n, card="c1", at="2026-01-01T00:00:00Z", **more):
    return {"id": f"e{n}", "card": card, "amount": 1.0, "n": n, "tags": [], "at": at, **more}


@pytest.fixture
def topic(check_setup, request):
    """A pair of topics for one test."""
    name = re.sub(r"[^\w.-]+", "-", request.node.name)[:80]
    topics = Topics(check_setup.brokers)
    topics.create(name, 1)
    topics.create(f"{name}-out", 1)
    return name


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.e2e)], ids=["check", "spark"])
def on_spark(request):
    """Whether the test also proves the problem on Spark, after the check has reported it."""
    return request.param


@contextmanager
def running(writer):
    query = writer.start()
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def setting(spark, key, value):
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


def ids(what, **options):
    return eg.check(what, **options).ids()


def finding(report, id_):
    return next(f for f in report.findings if f.id == id_)


def query(check_setup, topic, df=None, **options):
    rows = check_setup.read(topic, startingOffsets="earliest") if df is None else df
    return check_setup.write(rows, topic=f"{topic}-out", **options)


# Silent failures in Spark.


def test_a_python_foreach_withholds_its_rows(check_setup, topic, tmp_path, on_spark):
    seen = tmp_path / "seen"

    def write(row):
        with seen.open("a") as file:
            file.write(f"{row}\n")

    rows = check_setup.read(topic, startingOffsets="earliest")
    writer = check_setup.write(rows, kind="console", encode=False, trigger={"realTime": "1 minute"})
    writer = writer.foreach(write)
    assert "PYTHON_FOREACH" in eg.check(writer).ids("error")
    if not on_spark:
        return
    with running(writer):
        for n in range(20):
            send(check_setup.brokers, topic, event(n))
            time.sleep(0.2)
        time.sleep(2)
        assert not seen.exists()


def test_a_udf_with_the_allow_list_off_withholds_its_rows(check_setup, topic, on_spark):
    doubled = F.udf(lambda x: x * 2, "double")
    rows = check_setup.read(topic, startingOffsets="earliest").withColumn("d", doubled("amount"))
    with setting(check_setup.spark, "spark.sql.streaming.realTimeMode.allowlistCheck", "false"):
        writer = query(check_setup, topic, rows, trigger={"realTime": "1 minute"})
        report = eg.check(writer)
        assert "ALLOWLIST_OFF" in report.ids("warning")
        assert "PYTHON_UDF" in report.ids("error")
        if not on_spark:
            return
        with running(writer):
            for n in range(20):
                send(check_setup.brokers, topic, event(n))
                time.sleep(0.1)
            assert received(check_setup.brokers, f"{topic}-out", 3) == []


@pytest.mark.parametrize("loss", ["true", "false"])
def test_an_expired_offset_is_never_read(check_setup, topic, loss, on_spark):
    send(check_setup.brokers, topic, *(event(n) for n in range(10)))
    _delete_records(check_setup.brokers, topic, 5)
    start = json.dumps({topic: {"0": 0}})
    rows = check_setup.read(topic, startingOffsets=start, failOnDataLoss=loss)
    writer = query(check_setup, topic, rows)
    report = eg.check(writer)
    assert "OFFSET_AGED_OUT" in report.ids("error")
    assert finding(report, "OFFSET_AGED_OUT").numbers == {"offset": 0, "begin": 5}
    assert ("DATA_LOSS_OPTION" in report.ids("warning")) == (loss == "false")
    if not on_spark:
        return
    with running(writer) as started:
        send(check_setup.brokers, topic, event(10))
        assert received(check_setup.brokers, f"{topic}-out", 6) == []
        silent = started.isActive and started.exception() is None
    assert silent


def _delete_records(brokers, topic, before):
    """Delete the oldest records, as retention does."""
    from confluent_kafka import TopicPartition

    admin = Topics(brokers).admin
    futures = admin.delete_records([TopicPartition(topic, 0, before)])
    for future in futures.values():
        future.result(10)


STARVING = """
import sys, time, json
from pathlib import Path
import eagre as eg
sys.path.insert(0, sys.argv[3])
from queries import CheckSetup, received
spark = eg.session("starving", "local[2]",
    spark__sql__streaming__realTimeMode__minBatchDuration="100ms",
    spark__speculation="true", spark__hadoop__fs__s3a__secret__key="canary-4711",
    spark__shuffle__streaming__networkBufferMaxWaitTimeMs="3000",
    spark__driver__extraJavaOptions="-XX:+UseSerialGC", spark__driver__memory="500m",
    spark__dynamicAllocation__enabled="true")
check_setup = CheckSetup(spark, sys.argv[1], Path(sys.argv[2]))
rows = check_setup.read("starving", startingOffsets="earliest")
writer = check_setup.write(rows, topic="starving-out", trigger={"realTime": "2 seconds"})
report = eg.check(writer)
query = writer.start()
received(sys.argv[1], "starving-out", 60, until=50)
values = received(sys.argv[1], "starving-out", 5)  # more than two epochs
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
line = Path(f"/proc/{jvm}/cmdline").read_bytes().decode()
quiet = query.isActive and query.exception() is None and query.lastProgress is not None
query.stop()
shuffled = eg.check(check_setup.write(rows.repartition(1, "card"), topic="starving-out"))
print(json.dumps({"report": report.as_dict(), "read": len(values), "quiet": quiet,
    "leaks": "canary-4711" in line, "shuffled": sorted(shuffled.ids("warning"))}))
"""


@pytest.fixture(scope="module")
def starving(eagre_broker, tmp_path_factory):
    """The report of a session with two slots and with static settings."""
    Topics(eagre_broker.address).create("starving", 4)
    Topics(eagre_broker.address).create("starving-out", 1)
    for partition in range(4):
        send(eagre_broker.address, "starving", *map(event, range(25)), partition=partition)
    here = str(Path(__file__).parent)
    folder = str(tmp_path_factory.mktemp("starving"))
    command = [sys.executable, "-c", STARVING, eagre_broker.address, folder, here]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.e2e
def test_too_few_slots_silently_skip_partitions(starving):
    findings = {f["id"]: f for f in starving["report"]["findings"]}
    assert findings["SLOTS_TOO_FEW"]["level"] == "error"
    assert findings["SLOTS_TOO_FEW"]["numbers"] == {"needed": 4, "slots": 2}
    assert starving["report"]["slots"] == {
        "needed": 4,
        "terms": [4],
        "available": 2,
        "executors": None,
    }
    assert starving["read"] == 50
    assert starving["quiet"]


def test_a_secret_in_the_settings_is_visible_in_the_process_list(starving):
    findings = {f["id"]: f for f in starving["report"]["findings"]}
    assert findings["SECRET_IN_SETTINGS"]["about"] == "spark.hadoop.fs.s3a.secret.key"
    assert starving["leaks"]
    assert "canary-4711" not in json.dumps(starving["report"])


def test_harmful_session_settings_are_reported(starving):
    # spark.speculation: TaskSchedulerImpl starts a copy of any task that outlasts the median;
    # dynamic allocation: ExecutorAllocationManager removes executors that look idle.
    levels = {f["id"]: f["level"] for f in starving["report"]["findings"]}
    for id_ in ("SPECULATION", "DYNAMIC_ALLOCATION", "GC", "HEAP_SMALL"):
        assert levels[id_] == "warning"
    assert "BUFFER_WAIT" in starving["shuffled"]


# Delays.


def latency(check_setup, topic, writer):
    """Return the seconds from sending a row to its result, after a warm-up."""
    with running(writer):
        send(check_setup.brokers, topic, event(0))
        received(check_setup.brokers, f"{topic}-out", 30, until=1)
        started = time.monotonic()
        send(check_setup.brokers, topic, event(1))
        assert len(received(check_setup.brokers, f"{topic}-out", 30, until=2)) == 2
        return time.monotonic() - started


def test_a_lingering_producer_delays_results(check_setup, topic, on_spark):
    writer = query(
        check_setup, topic, trigger={"realTime": "1 minute"}, **{"kafka.linger.ms": "4000"}
    )
    assert "LINGER" in ids(writer)
    if on_spark:
        assert latency(check_setup, topic, writer) > 3


def test_the_throughput_profile_causes_no_finding(check_setup):
    def waits_and_findings(**options):
        sink = eg.Kafka("profiled-out", brokers=check_setup.brokers, options=options)

        @eg.pipeline(
            source=eg.Kafka("profiled", schema="n INT", brokers=check_setup.brokers), sink=sink
        )
        def profiled(df):
            return df

        planned = plan(
            check_setup.spark, profiled.writer(check_setup.spark, checkpoint="c"), 60_000
        )
        waits = (
            planned.option("kafka.linger.ms"),
            planned.sources[0].option("kafka.fetch.min.bytes"),
        )
        return waits, ids(profiled) & {"LINGER", "FETCH_WAIT"}

    assert waits_and_findings() == (("0", None), set())
    with setting(check_setup.spark, CHOICE, "throughput"):
        assert waits_and_findings() == (("5", "65536"), set())
        assert waits_and_findings(**{"kafka.linger.ms": "50"}) == (("50", "65536"), {"LINGER"})
    with (
        setting(check_setup.spark, CHOICE, "speed"),
        pytest.raises(SettingsError, match="no profile"),
    ):
        waits_and_findings()


def test_a_minimum_fetch_size_delays_rows(check_setup, topic, on_spark):
    options = {"kafka.fetch.min.bytes": "500000", "kafka.fetch.max.wait.ms": "4000"}
    rows = check_setup.read(topic, startingOffsets="earliest", **options)
    writer = query(check_setup, topic, rows, trigger={"realTime": "1 minute"})
    assert "FETCH_WAIT" in ids(writer)
    if on_spark:
        assert latency(check_setup, topic, writer) > 2


def test_a_good_query_has_no_delay(check_setup, topic):
    writer = query(check_setup, topic, trigger={"realTime": "1 minute"})
    assert ids(writer) <= {"CHECKPOINT_VOLATILE"}
    assert latency(check_setup, topic, writer) < 30, "the result came at the epoch boundary"


# Clocks.


def test_the_clock_is_constant_during_an_epoch(check_setup, topic):
    rows = check_setup.read(topic, startingOffsets="earliest")
    writer = query(
        check_setup,
        topic,
        rows.select(F.current_timestamp().alias("now")),
        trigger={"realTime": "1 minute"},
    )
    assert "FROZEN_CLOCK" in ids(writer)
    with running(writer):
        for n in range(3):
            send(check_setup.brokers, topic, event(n))
            received(check_setup.brokers, f"{topic}-out", 30, until=n + 1)
        times = {
            json.loads(v)["now"] for v in received(check_setup.brokers, f"{topic}-out", 5, until=3)
        }
    assert len(times) == 1


def test_the_clock_in_the_explanation_advances(check_setup, topic):
    rows = check_setup.read(topic, startingOffsets="earliest")
    moving = "timestamp_millis(cast(reflect('java.lang.System', 'currentTimeMillis') as bigint))"
    writer = query(
        check_setup,
        topic,
        rows.select(F.expr(moving).alias("now")),
        trigger={"realTime": "1 minute"},
    )
    assert "FROZEN_CLOCK" not in ids(writer)
    with running(writer):
        for n in range(3):
            send(check_setup.brokers, topic, event(n))
            received(check_setup.brokers, f"{topic}-out", 30, until=n + 1)
        times = {
            json.loads(v)["now"] for v in received(check_setup.brokers, f"{topic}-out", 5, until=3)
        }
    assert len(times) == 3


# Bad rows.


@pytest.mark.e2e
def test_a_bad_row_fails_the_query_at_every_start(check_setup, topic):
    rows = check_setup.read(topic, startingOffsets="earliest")
    writer = query(check_setup, topic, rows.select((F.col("amount") / F.col("n")).alias("rate")))
    assert "CRASH_LOOP" in ids(writer)
    send(check_setup.brokers, topic, event(0))
    for _ in range(2):
        started = writer.start()
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            started.awaitTermination(30)


def test_a_row_too_large_for_the_topic_fails_the_query(check_setup, topic, on_spark):
    rows = check_setup.read(topic, startingOffsets="earliest")
    large = rows.select(F.repeat(F.lit("x"), 2_000_000).alias("text"))
    writer = query(check_setup, topic, large, **{"kafka.max.request.size": "5000000"})
    report = eg.check(writer)
    assert finding(report, "MESSAGE_SIZE").numbers["request"] == 5_000_000
    if not on_spark:
        return
    send(check_setup.brokers, topic, event(0))
    started = writer.start()
    with pytest.raises(Exception, match=r"(?i)too.?large|larger than"):
        started.awaitTermination(30)


def test_a_query_that_reads_its_output_never_ends(check_setup, topic):
    rows = check_setup.read(topic, startingOffsets="earliest")
    writer = check_setup.write(rows, topic=topic)
    assert "TOPIC_LOOP" in ids(writer)
    with running(writer):
        send(check_setup.brokers, topic, event(0))
        assert len(received(check_setup.brokers, topic, 30, until=20)) == 20


# State.


def test_unbounded_state_grows_and_bounded_state_shrinks(check_setup, topic, on_spark):
    rows = check_setup.read(topic, startingOffsets="earliest")
    unbounded = query(check_setup, topic, rows.groupBy("card").count(), trigger=EPOCHS)
    timed = rows.withWatermark("at", "1 second")
    windows = timed.groupBy("card", F.window("at", "1 second")).count()
    bounded = query(check_setup, topic, windows, trigger=EPOCHS)
    assert "STATE_UNBOUNDED" in ids(unbounded)
    assert "STATE_UNBOUNDED" not in ids(bounded)
    if not on_spark:
        return
    early = [event(n, card=f"c{n}", at="2026-01-01T00:00:00Z") for n in range(20)]
    later = [event(n, card=f"c{n}", at="2026-01-01T01:00:00Z") for n in range(20, 40)]
    last = [event(99, card="last", at="2026-01-01T02:00:00Z")]

    def rows_of(started):
        progress = started.lastProgress
        operators = progress.stateOperators if progress else []
        return operators[0].numRowsTotal if operators else 0

    with running(unbounded) as first, running(bounded) as second:
        for events, total in ((early, 20), (later, 40), (last, 41)):
            send(check_setup.brokers, topic, *events)
            wait_until(lambda total=total: rows_of(first) == total, 40, "its state did not grow")
        wait_until(lambda: rows_of(second) == 1, 40, "its state did not shrink")


def test_a_short_watermark_is_reported_with_its_numbers(check_setup):
    rows = check_setup.rows.withWatermark("at", "2 seconds")
    windows = rows.groupBy("card", F.window("at", "1 second")).count()
    report = eg.check(check_setup.write(windows, trigger={"realTime": "10 seconds"}))
    reported = finding(report, "WATERMARK_SHORT")
    assert reported.level == "advice"
    assert reported.numbers == {"delay_ms": 2000, "epoch_ms": 10000}


def test_the_watermark_advances_only_between_epochs(check_setup, topic):
    """Within an epoch, a row that is later than the watermark's delay is still counted."""
    rows = check_setup.read(topic, startingOffsets="earliest").withWatermark("at", "1 second")
    windows = rows.groupBy("card", F.window("at", "1 second")).count()
    with running(query(check_setup, topic, windows, trigger={"realTime": "1 minute"})):
        send(check_setup.brokers, topic, event(0, at="2026-01-01T01:00:00Z"))
        received(check_setup.brokers, f"{topic}-out", 30, until=1)
        send(check_setup.brokers, topic, event(1, at="2026-01-01T00:00:00Z"))
        assert len(received(check_setup.brokers, f"{topic}-out", 10, until=2)) == 2


def test_a_checkpoint_keeps_its_shuffle_partitions(check_setup, topic):
    counts = check_setup.read(topic, startingOffsets="earliest").groupBy("card").count()
    writer = query(check_setup, topic, counts, trigger=EPOCHS)
    send(check_setup.brokers, topic, event(0))
    with setting(check_setup.spark, "spark.sql.shuffle.partitions", "2"):
        _until_committed(writer, 1)
    with setting(check_setup.spark, "spark.sql.shuffle.partitions", "3"):
        report = eg.check(writer)
        reported = finding(report, "STATE_PARTITIONS")
        assert reported.numbers == {"checkpoint": 2, "session": 3}
        assert report.terms == (1, 2)
        _until_committed(writer, 1)
    state = [p for p in (check_setup.checkpoints[-1] / "state" / "0").iterdir() if p.name.isdigit()]
    assert len(state) == 2


def _until_committed(writer, batches):
    with running(writer) as started:
        wait_until(
            lambda: len([p for p in started.recentProgress if p.batchId >= 0]) >= batches,
            30,
            "nothing was committed",
        )


def test_a_checkpoint_of_format_1_is_refused(check_setup, topic):
    counts = check_setup.read(topic, startingOffsets="earliest").groupBy("card").count()
    version = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    with setting(check_setup.spark, version, "1"):
        send(check_setup.brokers, topic, event(0))
        old = query(check_setup, topic, counts, trigger={"availableNow": True})
        old.start().awaitTermination(60)
        report = eg.check(query(check_setup, topic, counts))
        assert "SETTING_REFUSED" in report.ids("error")
        assert report.fixes[version] == "2"
    writer = query(check_setup, topic, counts)
    writer = writer.option("checkpointLocation", str(check_setup.checkpoints[-3]))
    report = eg.check(writer)
    assert "CHECKPOINT_FORMAT" in report.ids("error")
    assert "CHECKPOINT_FORMAT_V1" in outcome(check_setup.spark, writer)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.streaming.stateStore.checkpointFormatVersion", "1"),
        (
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
        ),
        ("spark.sql.execution.sortBeforeRepartition", "true"),
    ],
)
def test_settings_that_spark_refuses(check_setup, key, value):
    with setting(check_setup.spark, key, value):
        writer = check_setup.write(check_setup.rows)
        assert key in {f.about for f in eg.check(writer).findings if f.id == "SETTING_REFUSED"}
        assert "SQL_CONFIGURATION_NOT_SUPPORTED" in outcome(check_setup.spark, writer)


def test_200_shuffle_partitions_are_reported_and_do_not_fit(check_setup):
    with setting(check_setup.spark, "spark.sql.shuffle.partitions", "200"):
        writer = check_setup.write(
            check_setup.timed.groupBy("card", F.window("at", "1 second")).count()
        )
        report = eg.check(writer)
        assert report.terms == (3, 200)
        assert {"SHUFFLE_PARTITIONS", "SLOTS_TOO_FEW"} <= report.ids()
        assert "needs 3 + 200 = 203 slots" in finding(report, "SLOTS_TOO_FEW").problem
        assert "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT" in outcome(check_setup.spark, writer)


# Several queries.


@pytest.mark.e2e
def test_a_second_query_finds_no_slots(check_setup):
    first = check_setup.write(
        check_setup.rows.repartition(4, "card"), trigger={"realTime": "1 minute"}
    )
    second = check_setup.write(check_setup.rows.repartition(4, "card"))
    assert "SEVERAL_QUERIES" not in ids(second)
    with running(first.queryName("first")) as started:
        while not check_setup.spark.sparkContext.statusTracker().getActiveStageIds():
            time.sleep(0.1)
        assert started.isActive
        report = eg.check(second)
        assert "first" in finding(report, "SEVERAL_QUERIES").problem
        assert outcome_of_second(second)


def outcome_of_second(writer):
    started = writer.start()
    with pytest.raises(Exception, match="CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"):
        started.awaitTermination(30)
    return True


def test_an_unfinished_first_commit_prevents_every_start(check_setup, topic):
    writer = query(check_setup, topic)
    unfinished = check_setup.checkpoints[-1] / "commits" / ".0.5d1c.tmp"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_text("v2")
    (check_setup.checkpoints[-1] / "metadata").write_text(f'{{"id":"{uuid.uuid4()}"}}')
    assert "CHECKPOINT_UNFINISHED" in eg.check(writer).ids("error")
    assert "CHECKPOINT_LOCATION_NOT_EMPTY" in outcome(check_setup.spark, writer)
    assert Checkpoint(check_setup.checkpoints[-1]).clear_unfinished() == 1
    assert "CHECKPOINT_UNFINISHED" not in ids(writer)
    assert outcome(check_setup.spark, writer) == ""


def test_a_checkpoint_in_use_is_refused(check_setup, topic):
    writer = query(check_setup, topic, trigger={"realTime": "1 minute"})
    assert "CHECKPOINT_IN_USE" not in ids(writer)
    with running(writer.queryName("first")) as first:
        report = eg.check(writer.queryName("second"))
        assert "CHECKPOINT_IN_USE" in report.ids("error")
        stopping = "spark.sql.streaming.stopActiveRunOnRestart"
        with setting(check_setup.spark, stopping, "false"):
            refusal = outcome(check_setup.spark, writer)
        assert "already active" in refusal
        assert first.isActive


def test_a_checkpoint_of_other_topics_is_refused(check_setup, topic):
    writer = query(check_setup, topic, trigger=EPOCHS)
    send(check_setup.brokers, topic, event(0))
    _until_committed(writer, 1)
    other = query(check_setup, topic, check_setup.read("corpus-2"))
    other = other.option("checkpointLocation", str(check_setup.checkpoints[-2]))
    assert "CHECKPOINT_OTHER_PIPELINE" in eg.check(other).ids("error")
    assert outcome(check_setup.spark, other)


def test_python_in_micro_batches_has_a_cost(check_setup):
    doubled = F.udf(lambda x: x * 2, "double")
    rows = check_setup.rows.withColumn("d", doubled("amount"))
    report = eg.check(check_setup.write(rows, trigger={"processingTime": "1 second"}))
    assert report.ok
    assert "PYTHON_COST" in report.ids("advice")


@pytest.mark.e2e
def test_a_stop_during_an_epoch_repeats_the_epoch(check_setup, topic):
    writer = query(check_setup, topic, trigger={"realTime": "10 minutes"})
    assert finding(eg.check(writer), "EPOCH_LONG").numbers == {"epoch_ms": 600_000}
    send(check_setup.brokers, topic, *map(event, range(10)))
    for seen in (10, 20):
        with running(writer):
            assert len(received(check_setup.brokers, f"{topic}-out", 30, until=seen)) == seen


def test_the_old_continuous_trigger_is_recognised(check_setup):
    writer = check_setup.write(check_setup.rows, trigger={"continuous": "1 second"})
    assert "CONTINUOUS_TRIGGER" in eg.check(writer).ids("warning")
    counted = check_setup.rows.groupBy("card").count()
    old = check_setup.write(counted, trigger={"continuous": "1 second"})
    assert "Continuous processing does not support" in outcome(check_setup.spark, old)


# Topics.


def test_topic_settings_are_checked(check_setup):
    topics = Topics(check_setup.brokers)
    topics.create("short-lived", 1, {"retention.ms": "60000"})
    topics.create("compacted", 1, {"cleanup.policy": "compact"})
    short = eg.check(
        check_setup.write(check_setup.read("short-lived"), trigger={"realTime": "1 minute"})
    )
    assert finding(short, "RETENTION_SHORT").numbers == {"retention_ms": 60000, "epoch_ms": 60000}
    assert "COMPACTED_SOURCE" in ids(check_setup.write(check_setup.read("compacted")))


def test_a_hot_key_is_reported_only_with_a_sample(check_setup, topic):
    hot = [event(n, card="hot") for n in range(90)]
    send(check_setup.brokers, topic, *hot, *(event(n, card=f"c{n}") for n in range(10)))
    rows = check_setup.read(topic, startingOffsets="earliest").withWatermark("at", "1 second")
    writer = query(check_setup, topic, rows.groupBy("card", F.window("at", "1 second")).count())
    assert "KEY_SKEW" not in ids(writer)
    reported = finding(eg.check(writer, sample=True), "KEY_SKEW")
    assert reported.numbers == {"share": 0.9, "rows": 100}
    assert "card" in reported.about
    even = query(check_setup, topic, rows.dropDuplicates(["id", "n", "at"]))
    assert "KEY_SKEW" not in ids(even, sample=True)


# Advice, and rules for clusters.


def planned(check_setup, writer, **facts):
    """Return the facts of a query, with changes."""
    known = Facts("real-time", plan(check_setup.spark, writer, 10_000), {}, 8)
    return replace(known, **facts)


def rule_findings(id_, facts):
    return [f.id for f in known_rules()[id_].check(facts)]


def test_task_retries_have_an_advice_on_clusters(check_setup):
    """TaskSetManager.handleFailedTask counts failures up to spark.task.maxFailures; in local mode
    the limit is one (SparkContext.createTaskScheduler: MAX_LOCAL_TASK_FAILURES)."""
    writer = check_setup.write(check_setup.rows)
    assert rule_findings("TASK_RETRIES", planned(check_setup, writer, slots=None)) == [
        "TASK_RETRIES"
    ]
    assert rule_findings("TASK_RETRIES", planned(check_setup, writer)) == []
    once = {"spark.task.maxFailures": "1"}
    assert (
        rule_findings("TASK_RETRIES", planned(check_setup, writer, slots=None, settings=once)) == []
    )


def test_adaptive_execution_has_an_advice(check_setup):
    shuffled = check_setup.write(check_setup.rows.repartition(2, "card"))
    settings = {"spark.sql.adaptive.enabled": "true"}
    assert rule_findings("ADAPTIVE", planned(check_setup, shuffled, settings=settings)) == [
        "ADAPTIVE"
    ]
    assert rule_findings("ADAPTIVE", planned(check_setup, shuffled)) == []


def test_state_without_time_has_an_advice(check_setup):
    processor = Node("TransformWithState", detail={"time_mode": "NoTime", "processor": "Mine"})
    facts = planned(check_setup, check_setup.write(check_setup.rows))
    without = replace(facts, plan=replace(facts.plan, logical=(processor,)))
    assert rule_findings("STATE_WITHOUT_TIME", without) == ["STATE_WITHOUT_TIME"]


@pytest.mark.parametrize("value", ["5ms", "", "many"])
def test_malformed_numbers_do_not_fail_the_check(check_setup, value):
    options = {"kafka.linger.ms": value, "kafka.max.request.size": value}
    eg.check(check_setup.write(check_setup.read(**{"kafka.fetch.min.bytes": value}), **options))


def test_a_report_contains_no_text_of_expressions(check_setup):
    secret = F.concat(F.col("card"), F.lit("canary-4711")).cast("int")
    report = eg.check(check_setup.write(check_setup.rows.withColumn("x", secret)))
    assert "CRASH_LOOP" in report.ids()
    assert "canary-4711" not in json.dumps(report.as_dict())


def test_a_query_in_continuous_mode_is_no_error(check_setup):
    writer = check_setup.write(check_setup.rows, mode="append", trigger={"continuous": "1 second"})
    report = eg.check(writer)
    assert report.ok
    assert report.mode == "continuous"


def test_a_temporary_checkpoint_is_reported(check_setup):
    assert "CHECKPOINT_VOLATILE" in eg.check(check_setup.write(check_setup.rows)).ids("warning")


def test_a_checkpoint_of_another_pipeline_is_refused(check_setup, tmp_path):
    binding = Binding("other", "cluster", {"corpus": "id"}, {"corpus": {0: 0}})
    Checkpoint(tmp_path / "checkpoint").bind(binding)

    @eg.pipeline(source=payments("corpus"), sink=eg.Kafka("results"))
    def mine(df):
        return df.select("card")

    report = eg.check(mine, brokers=check_setup.brokers, checkpoint=str(tmp_path / "checkpoint"))
    assert "CHECKPOINT_OTHER_PIPELINE" in report.ids("error")


def test_an_expired_start_before_the_first_commit_is_refused(check_setup, topic, tmp_path):
    send(check_setup.brokers, topic, *(event(n) for n in range(10)))
    _delete_records(check_setup.brokers, topic, 5)
    binding = Binding("early", "cluster", {topic: "id"}, {topic: {0: 0}})
    Checkpoint(tmp_path / "checkpoint").bind(binding)

    @eg.pipeline(source=payments(topic), sink=eg.Kafka("results"))
    def early(df):
        return df.select("card")

    report = eg.check(early, brokers=check_setup.brokers, checkpoint=str(tmp_path / "checkpoint"))
    assert "OFFSET_AGED_OUT" in report.ids("error")


def test_a_stateless_checkpoint_of_format_1_is_refused(check_setup, topic):
    version = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    send(check_setup.brokers, topic, event(0))
    with setting(check_setup.spark, version, "1"):
        query(check_setup, topic, trigger={"availableNow": True}).start().awaitTermination(60)
    writer = query(check_setup, topic).option(
        "checkpointLocation", str(check_setup.checkpoints[-1])
    )
    writer = writer.option("checkpointLocation", str(check_setup.checkpoints[-2]))
    assert "CHECKPOINT_FORMAT" in eg.check(writer).ids("error")
    assert "CHECKPOINT_FORMAT_V1" in outcome(check_setup.spark, writer)


def test_weak_acks_have_an_advice(check_setup):
    assert "ACKS" in eg.check(check_setup.write(check_setup.rows, **{"kafka.acks": "1"})).ids(
        "advice"
    )
    assert "ACKS" not in ids(check_setup.write(check_setup.rows, **{"kafka.acks": "all"}))


# Pipelines, lines and alternatives.


def payments(topic, **more):
    return eg.Kafka(topic, schema=PAYMENTS, **more)


@pytest.mark.e2e
def test_a_finding_names_the_line_of_the_users_file(cli, eagre_broker):
    text = """
import eagre as eg
from pyspark.sql import functions as F

@eg.pipeline(source=eg.Kafka("lines", schema="card STRING, n INT"), sink=eg.Kafka("lines-out"))
def lines(df):
    first = df.withColumn("rate", F.lit(1) / F.col("n"))
    second = first.withColumn("now", F.current_timestamp())
    return second.dropDuplicates(["card"])
"""
    path = cli.app(text)
    at = ("--checkpoint", "/var/lib/eagre/lines", "--brokers", eagre_broker.address)
    done = cli.ok("check", path, "--json", "out.json", *at)
    output = json.loads((cli.folder / "out.json").read_text())
    lines = {f["id"]: f["line"] for f in output["pipelines"][0]["findings"]}
    assert lines == {
        "CRASH_LOOP": f"{path}:7",
        "FROZEN_CLOCK": f"{path}:8",
        "STATE_UNBOUNDED": f"{path}:9",
    }
    assert "app.py:9" in done.stdout
    assert "not seen  these topics do not exist yet: lines, lines-out" in done.stdout
    assert done.stderr.count("\n") == 1


def test_the_explained_alternatives_run(check_setup, topic):
    left = check_setup.read(topic, startingOffsets="earliest").select("id", "at")
    right = check_setup.read("corpus-2", startingOffsets="earliest").select(
        "id", F.col("at").alias("view_at")
    )
    both = eg.interval_join(left, right, "id", "10 minutes", event_time=("at", "view_at"))
    writer = query(check_setup, topic, both)
    assert eg.check(writer).ok
    with running(writer):
        send(check_setup.brokers, topic, event(77))
        send(check_setup.brokers, "corpus-2", event(77, at="2026-01-01T00:00:05Z"))
        (joined,) = received(check_setup.brokers, f"{topic}-out", 30, until=1)
    assert json.loads(joined)["id"] == "e77"
    texts = [explained(r).explanation for r in ("STREAM_JOIN", "SESSION_WINDOW", "PYTHON_UDF")]
    assert len(set(texts)) == 3
    assert "eg.interval_join" in texts[0]
    assert "eg.session_windows" in texts[1]
    assert "--mode micro-batch" in texts[2]


def test_a_session_window_runs_in_micro_batch(check_setup, topic):
    rows = check_setup.read(topic, startingOffsets="earliest").withWatermark("at", "1 second")
    sessions = rows.groupBy("card", F.session_window("at", "5 seconds")).count()
    writer = query(check_setup, topic, sessions, mode="append", trigger={"availableNow": True})
    send(check_setup.brokers, topic, event(0), event(1, at="2026-01-01T01:00:00Z"))
    writer.start().awaitTermination(60)
    values = received(check_setup.brokers, f"{topic}-out", 20, until=1)
    assert json.loads(values[0])["count"] == 1


def test_a_pipeline_is_checked_in_the_active_session(check_setup):
    @eg.pipeline(source=payments("not-there-yet", partitions=9), sink=eg.Kafka("results"))
    def wide(df):
        return df.select("card")

    report = eg.check(wide, brokers=check_setup.brokers, checkpoint="/var/lib/eagre/wide")
    assert report.ids() == {"SLOTS_TOO_FEW"}
    assert report.terms == (9,)
    assert "not-there-yet" in report.unseen[0]


def test_a_pipeline_ignores_options_that_real_time_refuses(check_setup):
    limited = payments("corpus", options={"maxOffsetsPerTrigger": "10"})

    @eg.pipeline(source=limited, sink=eg.Kafka("results"))
    def some(df):
        return df.select("card")

    report = eg.check(some, brokers=check_setup.brokers, checkpoint="/var/lib/eagre/some")
    assert report.ok
    assert report.ids("advice") == {"OPTION_LEFT_OUT"}


def test_an_unreachable_broker_is_reported_and_the_check_continues(check_setup):
    @eg.pipeline(source=payments("far"), sink=eg.Kafka("results"))
    def far(df):
        return df.dropDuplicates(["id"])

    report = eg.check(far, brokers="127.0.0.1:1", checkpoint="/var/lib/eagre/far")
    assert report.ids() == {"STATE_UNBOUNDED"}
    assert "no broker answers at 127.0.0.1:1" in report.unseen[0]


def test_the_check_waits_for_a_slow_broker(check_setup, eagre_broker, topic):
    send(check_setup.brokers, topic, event(0))

    os.kill(eagre_broker.pid, signal.SIGSTOP)
    resume = threading.Timer(3, os.kill, [eagre_broker.pid, signal.SIGCONT])
    resume.start()
    try:
        known, unseen = read_topics({ClientSettings(check_setup.brokers): {topic}})
    finally:
        resume.join()
    assert unseen == []
    assert known[topic].begins == {0: 0}


def modification_times(folder):
    """Return the times of a checkpoint's files, after the last task of a stopped query."""
    previous, now = None, {}
    while previous != now:
        previous = now
        time.sleep(1)
        now = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.exists()}
    return now


def test_a_check_changes_neither_topics_nor_checkpoint(check_setup, topic, tmp_path):
    counts = check_setup.read(topic, startingOffsets="earliest").groupBy("card").count()
    writer = query(check_setup, topic, counts, trigger=EPOCHS)
    send(check_setup.brokers, topic, event(0))
    _until_committed(writer, 1)
    folder = check_setup.checkpoints[-1]
    before = modification_times(folder)
    ends = Topics(check_setup.brokers).ends([topic, f"{topic}-out"])
    eg.check(writer, sample=True)
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before
    assert Topics(check_setup.brokers).ends([topic, f"{topic}-out"]) == ends
    empty = CheckSetup(check_setup.spark, check_setup.brokers, tmp_path)
    eg.check(empty.write(empty.rows.groupBy("card").count()))
    assert list(tmp_path.iterdir()) == []


def test_a_check_starts_no_job(check_setup):
    """It only plans, so that its duration does not depend on the size of a topic."""
    writer = check_setup.write(
        check_setup.timed.groupBy("card", F.window("at", "1 second")).count()
    )
    context = check_setup.spark.sparkContext
    context.setJobGroup("checked", "by a check")
    try:
        eg.check(writer)
        assert not context.statusTracker().getJobIdsForGroup("checked")
        check_setup.spark.range(1).count()
        assert context.statusTracker().getJobIdsForGroup("checked"), "a job would not be seen"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def test_a_dataframe_cannot_be_checked(check_setup):
    with pytest.raises(eg.EagreError, match="NOTHING_TO_CHECK"):
        eg.check(check_setup.rows)


def test_local_and_remote_checkpoints(tmp_path):
    known, unseen = read_checkpoint(str(tmp_path / "checkpoint"))
    assert known.path == str(tmp_path / "checkpoint")
    assert unseen == []
    remote, unseen = read_checkpoint("hdfs://host/checkpoint")
    assert remote.file_system == "hdfs"
    assert "remote" in unseen[0]
    stored, unseen = read_checkpoint("s3a://bucket/checkpoint")
    assert (stored.path, stored.file_system) == ("s3a://bucket/checkpoint", "s3a")
    assert "could not be read" in unseen[0]


def test_every_rule_has_a_distinct_explanation():
    known = known_rules()
    assert len(known) >= 40
    for rule in known.values():
        assert len(rule.explanation.splitlines()) >= 1
        assert rule.explanation.splitlines()[0].endswith(".")
        assert rule.consequence.endswith(".")
    assert len({rule.explanation for rule in known.values()}) == len(known)


# The command line.


GOOD = """
import eagre as eg

@eg.pipeline(source=eg.Kafka("good", schema="card STRING, n INT", partitions=8),
             sink=eg.Kafka("good-out"))
def good(df):
    return df.select("card").repartition(20, "card")
"""


def test_check_from_the_command_line(cli):
    path = cli.app(GOOD + "print('loading')\n")
    conf = ("--conf", "spark.master=local[48]")
    done = cli.ok("check", path, "--json", "-", "--checkpoint", "/var/lib/eagre/good", *conf)
    assert "loading" in done.stderr
    output = json.loads(done.stdout)
    schema = json.loads((Path(eg.__file__).parent / "preflight" / "schema.json").read_text())
    Draft202012Validator(schema).validate(output)
    assert output["ok"]
    assert output["schema_version"] == 1
    (report,) = output["pipelines"]
    assert report["slots"] == {"needed": 28, "terms": [8, 20], "available": 48, "executors": None}
    assert report["findings"] == []
    assert "no brokers are known" in " ".join(report["unseen"])
    assert not (cli.folder / ".eagre" / "checkpoints").exists()


@pytest.mark.e2e
def test_the_check_prints_the_master_with_enough_slots(cli, eagre_broker):
    path = cli.app(GOOD)
    few = cli("check", path, "--master", "local[4]", "--fix", "--brokers", eagre_broker.address)
    assert few.returncode == 1
    assert "needs 8 + 20 = 28 slots and the session has 4" in few.stdout
    assert "spark.master local[28]" in few.stdout
    assert not (cli.folder / ".eagre" / "checkpoints").exists()


def test_size_from_numbers_starts_no_jvm(cli, tmp_path):
    no_java = {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    arguments = ("size", "--source-partitions", 8, "--shuffle-partitions", 20, "--json", "-")
    out = cli.ok(*arguments, **no_java).stdout
    output = json.loads(out)
    assert (output["slots"], output["terms"]) == (28, [8, 20])
    text = cli.ok(
        *("size", "--source-partitions", 8, "--shuffle-partitions", 20, "--shuffles", 2),
        *("--keys-per-second", 100, "--ttl", "1 hour", "--bytes-per-key", 500),
    ).stdout
    assert "8 source + 20 shuffle + 20 shuffle = 48" in text
    assert "360,000 keys x 500 bytes x 1.5" in text
    assert "= 270 MB" in text
    alone = json.loads(cli.ok("size", "--source-partitions", 8, "--json", "-").stdout)
    assert alone["terms"] == [8]
    assert "SIZE_OF_WHAT" in cli("size").stderr


def test_micro_batch_is_recommended_for_a_slow_target():
    report = Report("score", "real-time", (), (1, 1), (1,), 64, ())
    slow = advise(report, Requirements(p99_ms=5000))
    assert slow.choice == "micro-batch"
    assert "not worth it" in " ".join(slow.reasons)


@pytest.mark.parametrize(("p99", "rate"), [(100, 2000), (20, 5000), (5000, 5000)])
def test_the_throughput_profile_is_not_recommended_for_low_rates_or_latencies(p99, rate):
    report = Report("score", "real-time", (), (1, 1), (1,), 64, ())
    assert "throughput" not in " ".join(advise(report, Requirements(p99, rate)).reasons)


@pytest.mark.e2e
def test_size_of_an_app(cli):
    output = json.loads(cli.ok("size", cli.app(GOOD), "--json", "-").stdout)
    assert (output["slots"], output["terms"], output["executors"]) == (28, [8, 20], 7)


def test_on_a_cluster_each_slot_is_a_core():
    local = Report("score", "real-time", (), (8, 20), (20,), 64, ())
    on_cluster = replace(local, slots=None, local=False)
    required = Requirements(p99_ms=100, rate=10)
    assert advise(local, required).cores["real-time"] == 7
    advice = advise(on_cluster, required)
    assert advice.cores["real-time"] == 28
    assert "slots: 8 + 20 = 28; / 1 per core = 28 cores" in advice.arithmetic
    assert any("on a cluster each slot is a core" in text for text in advice.assumptions)


@pytest.mark.parametrize(
    ("master", "settings", "cores"),
    [
        ("yarn", {}, 2),
        ("k8s://https://host:6443", {"spark.executor.cores": "4"}, 8),
        ("yarn", {"spark.executor.instances": "3", "spark.executor.cores": "2"}, 6),
        ("yarn", {"spark.dynamicAllocation.enabled": "true"}, None),
        ("spark://host:7077", {}, None),
        ("spark://host:7077", {"spark.cores.max": "12"}, 12),
        (
            "spark://host:7077",
            {
                "spark.executor.instances": "3",
                "spark.executor.cores": "2",
                "spark.cores.max": "4",
            },
            4,
        ),
    ],
)
def test_the_slots_of_a_cluster_are_known_if_the_settings_fix_them(master, settings, cores):
    assert _cores(None, master, settings) == cores


def test_a_cluster_that_was_asked_is_part_of_the_answers(check_setup, topic):
    rows = check_setup.read(topic).repartition(4, "key")
    writer = query(check_setup, topic, rows)
    few, enough = (eg.check(writer, capacity=gateway.Capacity(2, n)) for n in (4, 40))
    assert enough.as_dict()["slots"] == {**few.as_dict()["slots"], "available": 40, "executors": 2}
    assert "SLOTS_TOO_FEW" not in enough.ids()
    found = finding(few, "SLOTS_TOO_FEW")
    assert "the session has 4" in found.problem
    assert "the cluster gave 2 executors: add workers, stop another application" in found.remedy
    advice = advise(replace(few, findings=()), Requirements(p99_ms=100, rate=10))
    assert "the cluster gives 2 executors with 4 slots" in advice.arithmetic
    size = replace(Size.of(3, [4]), given=(2, 4))
    assert "given      2 executors, 4 slots: 3 too few" in size.lines()
    assert size.as_dict()["cluster"] == {"executors": 2, "slots": 4, "enough": False}
    assert Size.of(3, [4]).as_dict()["cluster"] is None


def test_advise(cli):
    path = cli.app(GOOD)
    fast = cli.ok("advise", path, "--p99", 100, "--rate", 5000, "--json", "advice.json").stdout
    assert "good: real-time" in fast
    assert "--profile throughput` sends several records per request: it uses 0.40" in fast
    assert "0.40 instead of 1.00 cores" in fast
    assert "slots: 8 + 20 = 28" in fast
    output = json.loads((cli.folder / "advice.json").read_text())
    assert (output["choice"], output["cores"]["micro-batch"]) == ("real-time", 2.0)
    assert output["monthly"]["real-time"] > output["monthly"]["micro-batch"]


def test_explain(cli):
    listed = cli.ok("explain").stdout
    assert all(id_ in listed for id_ in known_rules())
    explanation = cli.ok("explain", "slots_too_few").stdout
    assert "8 + 20 = 28" in explanation
    assert "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT" in explanation
    assert "did you mean SLOTS_TOO_FEW" in cli("explain", "SLOTS_FEW").stderr


@pytest.mark.e2e
def test_a_run_checks_first_unless_no_check_is_given(cli, eagre_broker):
    text = GOOD.replace('.repartition(20, "card")', ".coalesce(1)").replace("good", "bad")
    path = cli.app(text)
    done = cli("run", path, "--brokers", eagre_broker.address)
    assert done.returncode == 1
    assert "OPERATOR: pipeline 'bad' would not run" in done.stderr
    assert "pass --no-check to start anyway" in done.stderr
    assert "bad" not in Topics(eagre_broker.address).names()
    unchecked = cli("run", path, "--brokers", eagre_broker.address, "--no-check")
    assert "QUERY_REFUSED" in unchecked.stderr
    assert "CoalesceExec" in unchecked.stderr


@pytest.mark.e2e
def test_an_exception_in_an_app_is_reported_with_its_line(cli):
    done = cli("check", cli.app("import eagre as eg\nraise ValueError('no luck')\n"))
    assert done.returncode == 1
    assert "APP_RAISED" in done.stderr
    assert "(line 2)" in done.stderr
    built = cli("check", cli.app(GOOD.replace('df.select("card")', "df.nothing"), "other.py"))
    assert "PIPELINE_RAISED" in built.stderr
    assert "(line 7)" in built.stderr
