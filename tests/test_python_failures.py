"""Python functions that raise, hang, crash or leak: the other rows are delivered."""

import json
import os
import signal
import time

import pytest
from pyspark.sql import functions as F

import eagre as eg
from conftest import kill_children, processes_of
from eagre.jvm import gateway
from eagre.waiting import wait_until
from processors import ConnectionFails

ROWS = [{"n": n} for n in range(2000)]


def stream(name):
    return eg.Kafka(f"{name}-in", schema="n INT")


def mapped(name, function, returns="int", **options):
    call = eg.udf(function, returns, name="doubtful", **options)

    @eg.pipeline(source=stream(name), sink=eg.Kafka(f"{name}-out"), name=name)
    def doubtful(df):
        return df.select("n", call("n").alias("m"))

    return doubtful


def dead_letters(harness, name):
    """Return the headers of a run's dead letters."""
    topic = f"{name}-in.dlq"
    wait_until(lambda: topic in harness.topics.names(), 20, "the dead-letter topic does not exist")
    ends = harness.topics.ends([topic])[topic]
    records = harness.records(topic, dict.fromkeys(ends, 0))
    return [{k: v.decode() for k, v in record.headers()} for record in records]


def only_odd(n):
    if n % 2 == 0:
        raise ValueError(f"not {n}")
    return n


@pytest.mark.e2e
def test_a_function_over_a_static_table_uses_the_pipelines_dead_letters(
    run_in_both_modes, eagre_harness
):
    """Its part of the plan has no source; the context comes with the stream it is joined to."""
    odd = eg.udf(only_odd, "int")

    @eg.pipeline(source=stream("static"), sink=eg.Kafka("static-out"), name="static")
    def static(df):
        table = df.sparkSession.createDataFrame([(1,), (2,), (3,)], "n INT")
        checked = table.withColumn("m", odd("n"))
        return df.join(F.broadcast(checked), "n").select("n", "m")

    results = run_in_both_modes(static, [{"n": n} for n in (1, 2, 3)])
    assert sorted(r["n"] for r in results) == [1, 3]
    dead = dead_letters(eagre_harness, "static")
    assert {d["eagre-pipeline"] for d in dead} == {"static"}
    assert "not 2" in dead[-1]["eagre-reason"]


def test_dead_letters_name_the_pipeline_also_beside_other_topics(run_in_both_modes, eagre_harness):
    odd = eg.udf(only_odd, "int")
    other = eg.Kafka("beside-other", schema="n INT", brokers=eagre_harness.brokers)
    if "beside-other" not in eagre_harness.topics.names():
        eagre_harness.topics.create("beside-other", 1)

    @eg.pipeline(source=stream("beside"), sink=eg.Kafka("beside-out"), name="beside")
    def beside(df):
        return other.read(df.sparkSession).unionByName(df).select(odd("n").alias("n"), "_source")

    assert run_in_both_modes(beside, [{"n": 1}, {"n": 2}]) == [{"n": 1}]
    assert {d["eagre-pipeline"] for d in dead_letters(eagre_harness, "beside")} == {"beside"}


def test_one_row_in_a_thousand_raises(run_in_both_modes, eagre_harness):
    def picky(n):
        if n % 1000 == 7:
            raise ValueError(f"not {n}")
        return n

    before = len(dead_letters(eagre_harness, "picky")) if _seen("picky") else 0
    results = run_in_both_modes(mapped("picky", picky), ROWS)
    assert sorted(r["n"] for r in results) == [n for n in range(2000) if n % 1000 != 7]
    dead = dead_letters(eagre_harness, "picky")[before:]
    assert sorted(d["eagre-reason"].split(" at ")[0] for d in dead) == [
        "doubtful raised ValueError: not 1007",
        "doubtful raised ValueError: not 7",
    ]
    for dead_letter in dead:
        assert dead_letter["eagre-pipeline"] == "picky"
        assert dead_letter["eagre-source"].startswith("picky-in/0/")
        assert f"{os.path.basename(__file__)}:" in dead_letter["eagre-reason"]  # noqa: PTH119
        assert dead_letter["eagre-time"].startswith("20")


_runs = set()


def _seen(name):
    seen = name in _runs
    _runs.add(name)
    return seen


def test_dropped_rows_are_counted(run_pipeline, eagre_spark):
    def odd(n):
        return 1 // (n % 2)

    results = run_pipeline(mapped("odd", odd, on_error="drop"), ROWS[:100])
    assert len(results) == 50
    assert gateway.row_counts(eagre_spark)["odd/dropped"] >= 50


def test_on_error_fail_stops_the_query(run_pipeline):
    def never(n):
        raise ValueError("never")

    with pytest.raises(
        Exception, match=r"PYTHON_FUNCTION_FAILED: doubtful raised ValueError: never"
    ):
        run_pipeline(mapped("never", never, on_error="fail"), ROWS[:3])


def test_a_function_that_never_returns_is_timed_out(run_in_both_modes):
    def sleepy(n):
        while n == 50:
            time.sleep(0.01)
        return n

    results = run_in_both_modes(mapped("sleepy", sleepy, timeout="1 second"), ROWS[:100])
    assert sorted(r["n"] for r in results) == [n for n in range(100) if n != 50]


def test_a_row_that_kills_its_worker_is_skipped(run_in_both_modes):
    def deadly(n):
        if n in (3, 60):
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    results = run_in_both_modes(mapped("deadly", deadly), ROWS[:100])
    assert sorted(r["n"] for r in results) == [n for n in range(100) if n not in (3, 60)]


def test_a_worker_killed_from_outside_loses_no_rows(run_pipeline):
    """A row is only given up when it kills its worker twice; others are tried again."""
    marker = "/tmp/eagre-test-once-" + str(os.getpid())  # noqa: S108

    def once(n):
        if n == 500 and not os.path.exists(marker):  # noqa: PTH110
            open(marker, "w").close()  # noqa: PTH123
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    try:
        results = run_pipeline(mapped("once", once), ROWS)
        assert sorted(r["n"] for r in results) == list(range(2000))
    finally:
        os.unlink(marker)  # noqa: PTH108


@pytest.mark.e2e
def test_an_idle_worker_that_dies_is_replaced(eagre_spark, eagre_broker, eagre_harness, tmp_path):
    """The next rows get their results from another worker."""
    alive = mapped("idle", lambda _: os.getpid())
    query = None
    try:
        eagre_harness.run(alive, [{"n": -1}])
        begin = eagre_harness.topics.ends(["idle-out"])["idle-out"]
        query = alive.start(
            eagre_spark,
            checkpoint=str(tmp_path / "c"),
            brokers=eagre_broker.address,
            every="1 minute",
        )

        def rows():
            records = eagre_harness.records("idle-out", begin)
            return [json.loads(record.value()) for record in records]

        def answered():
            eagre_harness.write(alive, [{"n": 0}])
            return rows()

        wait_until(answered, 40, "the query returned no result", interval=0.5)
        os.kill(rows()[-1]["m"], signal.SIGKILL)
        time.sleep(0.3)
        eagre_harness.write(alive, [{"n": n} for n in range(1, 200)])
        wait_until(lambda: len({r["n"] for r in rows()}) >= 200, 20, "rows are missing")
        later = [row for row in rows() if row["n"] > 0]
        assert sorted(row["n"] for row in later) == list(range(1, 200))
        assert len({row["m"] for row in later}) == 1
    finally:
        if query is not None:
            query.stop()


def test_a_connection_error_in_a_processor_is_a_failure_of_the_row(run_pipeline, eagre_harness):
    @eg.pipeline(source=stream("lost"), sink=eg.Kafka("lost-out"))
    def lost(df):
        made = eg.transform_with_state(df.groupBy("n"), ConnectionFails(), "n INT")
        return made.drop("_source")

    results = run_pipeline(lost, ROWS[:6])
    assert sorted(r["n"] for r in results) == [0, 1, 2, 4, 5]
    assert "ConnectionRefusedError" in dead_letters(eagre_harness, "lost")[0]["eagre-reason"]


def test_a_row_with_a_result_of_the_wrong_type_is_skipped(run_in_both_modes):
    def wrong(n):
        return "seven" if n == 7 else n

    results = run_in_both_modes(mapped("wrong", wrong), ROWS[:20])
    assert sorted(r["n"] for r in results) == [n for n in range(20) if n != 7]


def test_a_function_may_return_none(run_in_both_modes):
    results = run_in_both_modes(mapped("none", lambda n: None if n % 2 else n), ROWS[:20])
    assert {r["n"]: r["m"] for r in results} == {n: None if n % 2 else n for n in range(20)}


@pytest.mark.e2e
def test_a_worker_that_leaks_memory_is_replaced(run_pipeline):
    """It is replaced between two rows, before it exhausts the machine's memory."""
    leaked = []

    def leaky(n):
        leaked.append(bytearray(b"x") * (2 << 20))
        return os.getpid()

    results = run_pipeline(mapped("leaky", leaky, memory="200m"), ROWS[:600])
    assert len(results) == 600
    assert len({r["m"] for r in results}) > 1


def test_a_row_that_exceeds_the_memory_limit_is_skipped(run_in_both_modes):
    def greedy(n):
        return len(bytearray(4 << 30)) if n == 5 else n

    results = run_in_both_modes(mapped("greedy", greedy, memory="300m"), ROWS[:20])
    assert sorted(r["n"] for r in results) == [n for n in range(20) if n != 5]


def test_a_failing_batch_is_retried_row_by_row(run_in_both_modes):
    @eg.batch_udf("int")
    def inverse(numbers):
        return [100 // (n - 10) for n in numbers]

    @eg.pipeline(source=stream("lists"), sink=eg.Kafka("lists-out"))
    def lists(df):
        return df.select("n", inverse("n").alias("m"))

    results = run_in_both_modes(lists, ROWS[:40])
    assert sorted(r["n"] for r in results) == [n for n in range(40) if n != 10]


def test_a_batch_result_of_the_wrong_length_is_rejected(run_pipeline):
    @eg.batch_udf("int")
    def short(numbers):
        return numbers[1:]

    @eg.pipeline(source=stream("short"), sink=eg.Kafka("short-out"))
    def shortened(df):
        return df.select(short("n").alias("m"))

    assert run_pipeline(shortened, ROWS[:5]) == []


def test_a_function_that_cannot_be_unpickled_fails_the_query(eagre_spark):
    class Broken:
        def __reduce__(self):
            return int, ("not a number",)

        def __call__(self, n):
            return n

    broken = eg.udf(Broken(), "int", name="broken")
    with pytest.raises(Exception, match=r"broken raised ValueError.*not a number"):
        eagre_spark.range(1).select(broken("id")).collect()


APP = """
import logging, sys, time
import eagre as eg
log = logging.getLogger("mine")

@eg.udf("int")
def loud(n):
    print("printed", n)
    log.warning("logged %s", n)
    while n == 13:
        time.sleep(1)
    return n

@eg.pipeline(source=eg.Kafka("loud-in", schema="n INT"), sink=eg.Kafka("loud-out"))
def loudly(df):
    return df.withColumn("m", loud("n"))
"""


def workers(folder):
    """Return the Python workers of the processes that run in a folder."""
    return [p for p in processes_of(folder) if "eagre_worker" in " ".join(p.info["cmdline"] or [])]


@pytest.mark.e2e
@pytest.mark.parametrize("busy", [False, True])
def test_printed_output_is_logged_and_workers_end_with_the_jvm(
    cli, eagre_broker, eagre_harness, busy
):
    app = cli.app(APP)
    for topic in ("loud-in", "loud-out"):
        if topic not in eagre_harness.topics.names():
            eagre_harness.topics.create(topic, 1)
    process = cli.start(
        *("run", app, "--brokers", eagre_broker.address, "--from", "latest", "--restarts", "0")
    )
    try:
        wait_until(lambda: workers(cli.folder), 60, "no worker was started")
        _feed(eagre_broker.address, eagre_harness, 13 if busy else 7)
        log = next(cli.folder.rglob("*.log"))
        expected = ["[loudly] printed 7", "[loudly] WARNING mine: logged 7"]
        if not busy:
            wait_until(
                lambda: all(e in log.read_text() for e in expected),
                30,
                "the log has no printed output",
            )
        jvm = next(p for p in processes_of(cli.folder) if p.name() == "java")
        jvm.send_signal(signal.SIGKILL)
        wait_until(lambda: not workers(cli.folder), 10, "workers outlived the JVM")
    finally:
        kill_children(process)
        process.kill()
        process.communicate()


def _feed(brokers, harness, number):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": brokers})
    before = sum(harness.topics.ends(["loud-out"])["loud-out"].values())
    for _ in range(60):
        producer.produce("loud-in", json.dumps({"n": 7}))
        producer.flush()
        if sum(harness.topics.ends(["loud-out"])["loud-out"].values()) > before:
            break
        time.sleep(0.5)
    producer.produce("loud-in", json.dumps({"n": number}))
    producer.flush()
    time.sleep(1)
