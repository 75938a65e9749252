"""Python functions in a stream: both modes, latency, closures and pickling."""

import functools
import json
import os
import threading
import time
import types

import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import functions as F

import eagre as eg
from eagre.errors import SettingsError
from eagre.session import NESTED_PRUNING
from eagre.waiting import wait_until

ROWS = [{"card": f"c{i % 3}", "amount": i} for i in range(30)]
FACTOR = 3


def source(name, **options):
    return eg.Kafka(name, schema="card STRING, amount INT", partitions=2, **options)


def key(row):
    return json.dumps(row, sort_keys=True)


def test_a_function_is_a_column(run_in_both_modes):
    model = {"c0": 1, "c1": 10, "c2": 100}

    @eg.udf("long")
    def score(card, amount):
        return model[card] * amount * FACTOR

    @eg.pipeline(source=source("fn-in"), sink=eg.Kafka("fn-out", key="card"))
    def scored(df):
        return df.withColumn("score", score("card", F.col("amount") + 1)).where("score > 0")

    expected = [{**r, "score": model[r["card"]] * (r["amount"] + 1) * FACTOR} for r in ROWS]
    assert sorted(run_in_both_modes(scored, ROWS), key=key) == sorted(expected, key=key)


def test_functions_can_be_nested_and_used_in_every_clause(run_in_both_modes):
    double = eg.udf(lambda n: n * 2, "int", name="double")
    even = eg.udf(lambda n: n % 2 == 0, "boolean", name="even")
    halves = eg.udf(lambda n: [n // 2, n - n // 2], "array<int>", name="halves")

    @eg.pipeline(source=source("nest-in"), sink=eg.Kafka("nest-out"))
    def nested(df):
        even_rows = df.where(even("amount")).withColumn("four", double(double("amount")))
        return even_rows.select("amount", "four", F.explode(halves("four")).alias("half"))

    results = run_in_both_modes(nested, ROWS)
    assert sorted((r["amount"], r["four"], r["half"]) for r in results) == sorted(
        (n, n * 4, n * 2) for n in range(0, 30, 2) for _ in range(2)
    )


def test_a_function_can_be_the_grouping_key(run_in_both_modes):
    parity = eg.udf(lambda n: "odd" if n % 2 else "even", "string", name="parity")

    @eg.pipeline(source=source("group-in"), sink=eg.Kafka("group-out"))
    def grouped(df):
        return df.groupBy(parity("amount").alias("parity")).agg(F.count("*").alias("n"))

    best = {}
    for row in run_in_both_modes(grouped, ROWS):
        best[row["parity"]] = max(best.get(row["parity"], 0), row["n"])
    assert best == {"odd": 15, "even": 15}


def test_a_function_takes_the_results_of_an_aggregate(run_in_both_modes):
    label = eg.udf(lambda card, n: f"{card}:{n}", "string", name="label")

    @eg.pipeline(source=source("over-in"), sink=eg.Kafka("over-out"))
    def labelled(df):
        counted = df.groupBy("card").agg(F.count("*").alias("n"), F.sum("amount").alias("sum"))
        return counted.select("card", label("card", F.col("n") * 2).alias("label"), "n", "sum")

    results = run_in_both_modes(labelled, ROWS)
    assert all(row["label"] == f"{row['card']}:{row['n'] * 2}" for row in results)
    assert max((row["n"], row["sum"]) for row in results if row["card"] == "c1") == (10, 145)


def test_a_batch_function_gets_the_available_rows(run_in_both_modes):
    @eg.batch_udf("int")
    def squares(amounts):
        assert isinstance(amounts, list)
        return [amount * amount for amount in amounts]

    @eg.pipeline(source=source("batch-in"), sink=eg.Kafka("batch-out"))
    def squared(df):
        return df.select("amount", squares("amount").alias("square"))

    results = run_in_both_modes(squared, ROWS)
    assert sorted((r["amount"], r["square"]) for r in results) == [(n, n * n) for n in range(30)]


def test_flat_map_keeps_the_provenance(run_in_both_modes):
    def split(row):
        for i in range(row.amount % 3):
            yield {"card": row.card, "part": i}

    @eg.pipeline(source=source("flat-in"), sink=eg.Kafka("flat-out"))
    def parts(df):
        made = eg.flat_map(df, split, "card STRING, part INT")
        return made.withColumn("from_topic", F.col("_source.topic"))

    results = run_in_both_modes(parts, ROWS)
    assert len(results) == sum(n % 3 for n in range(30))
    assert {r["from_topic"] for r in results} == {"flat-in"}


def test_functions_keep_the_watermark(eagre_spark, eagre_broker):
    stream = eg.Kafka(
        "watermarked", schema="card STRING, at TIMESTAMP", event_time="at", watermark="10 seconds"
    ).read(eagre_spark, eagre_broker.address)
    metadata = stream.schema["at"].metadata
    assert metadata["spark.watermarkDelayMs"] == 10_000
    upper = eg.udf(str.upper, "string", name="upper")
    assert stream.withColumn("card", upper("card")).schema["at"].metadata == metadata
    made = eg.flat_map(stream, lambda row: [row[:2]], "card STRING, at TIMESTAMP")
    assert made.schema["at"].metadata == metadata
    assert "_source" in made.columns


def test_windows_after_a_function_evict_old_state(run_pipeline, eagre_harness, tmp_path):
    """The watermark passes through the function: late rows are dropped, old windows evicted."""

    @eg.pipeline(
        source=eg.Kafka(
            "evict-in", schema="at TIMESTAMP, n INT", event_time="at", watermark="1 second"
        ),
        sink=eg.Kafka("evict-out"),
    )
    def windows(df):
        plus = eg.udf(lambda n: n + 1, "int", name="plus")
        made = eg.flat_map(
            df.withColumn("n", plus("n")), lambda row: [(row.at, row.n)], "at TIMESTAMP, n INT"
        )
        return made.groupBy(F.window("at", "10 seconds")).agg(F.sum("n").alias("total"))

    checkpoint = tmp_path / "checkpoint"
    for minute in (0, 5, 10):
        rows = [{"at": f"2026-01-01T00:{minute:02}:0{i}Z", "n": i} for i in range(5)]
        run_pipeline(windows, rows, mode="micro-batch", checkpoint=checkpoint)
    late = [{"at": "2026-01-01T00:00:01Z", "n": 100}]
    assert run_pipeline(windows, late, mode="micro-batch", checkpoint=checkpoint) == []


@pytest.mark.parametrize("rows", [10, pytest.param(600, marks=pytest.mark.long)])
def test_no_result_waits_for_the_next_row(eagre_spark, eagre_broker, eagre_harness, tmp_path, rows):
    """Each row is sent after the result of the previous one."""
    plus = eg.udf(lambda n: n + 1, "int", name="plus")

    @eg.pipeline(source=eg.Kafka("slow-in", schema="n INT, sent DOUBLE"), sink=eg.Kafka("slow-out"))
    def answered(df):
        return df.withColumn("n", plus("n"))

    eagre_harness.run(answered, [{"n": 0, "sent": 0}])
    query = answered.start(
        eagre_spark, checkpoint=str(tmp_path / "c"), brokers=eagre_broker.address, every="5 minutes"
    )
    waits = {}
    consumer = Consumer(
        {"bootstrap.servers": eagre_broker.address, "group.id": "slow", "fetch.wait.max.ms": 5}
    )
    begin = eagre_harness.topics.ends(["slow-out"])["slow-out"][0]
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition("slow-out", 0, begin)])
    done = threading.Event()

    def receive():
        while not done.is_set():
            record = consumer.poll(0.05)
            if record is not None and not record.error():
                row = json.loads(record.value())
                waits[row["n"]] = time.time() - row["sent"]

    reader = threading.Thread(target=receive)
    reader.start()
    producer = Producer({"bootstrap.servers": eagre_broker.address, "linger.ms": 0})
    try:
        _send_until_answered(producer, waits)
        for n in range(rows):
            producer.produce("slow-in", json.dumps({"n": n, "sent": time.time()}))
            producer.flush()
            wait_until(lambda n=n: n + 1 in waits, 30, f"row {n} has no result")
    finally:
        done.set()
        reader.join()
        consumer.close()
        query.stop()
    assert set(range(1, rows + 1)) <= set(waits)


def _send_until_answered(producer, waits):
    """Wait until the query runs; rows sent before that do not count."""

    def answered():
        producer.produce("slow-in", json.dumps({"n": 1000, "sent": time.time()}))
        producer.flush()
        return bool(waits)

    wait_until(answered, 60, "the query returned no result", interval=0.3)
    time.sleep(1)
    waits.clear()


def test_a_backlog_ends_in_available_now(run_pipeline):
    plus = eg.udf(lambda n: n + 1, "int", name="plus")

    @eg.pipeline(source=source("now-in"), sink=eg.Kafka("now-out"))
    def pluses(df):
        return df.select(plus("amount").alias("n"))

    results = run_pipeline(pluses, ROWS, mode="available-now")
    assert sorted(r["n"] for r in results) == list(range(1, 31))


def test_a_function_may_call_another(eagre_spark):
    inner = eg.udf(lambda n: n * 2, "long", name="inner")
    outer = eg.udf(lambda n: inner(n) + 1, "long", name="outer", on_error="fail")
    assert [r[0] for r in eagre_spark.range(3).select(outer("id")).collect()] == [1, 3, 5]


def test_a_model_is_loaded_once_per_worker(eagre_spark):
    @functools.cache
    def model():
        return [os.getpid()]

    def loaded(n):
        model().append(n)
        return len(model())

    counted = eg.udf(loaded, "int", on_error="fail")
    assert model() == [os.getpid()]
    results = eagre_spark.range(0, 5, 1, 1).select(counted("id").alias("n")).collect()
    assert [row.n for row in results] == [2, 3, 4, 5, 6]


def test_invalid_utf8_is_decoded_as_spark_does(eagre_spark):
    df = eagre_spark.sql("SELECT CAST(X'61FF62' AS STRING) AS s")
    same = eg.udf(lambda s: s, "string", on_error="fail")
    assert df.select(same("s")).first()[0] == "a\ufffdb"


def test_unused_struct_fields_keep_their_place(eagre_spark):
    rows = [(1, (2, "three", 4.0, "five"))]
    df = eagre_spark.createDataFrame(
        rows, "a INT, s STRUCT<b: INT, c: STRING, d: DOUBLE, e: STRING>"
    )
    plus = eg.udf(lambda n: n + 1, "int", name="plus", on_error="fail")
    assert df.withColumn("p", plus("a")).select("s.c", "s.e", "p").first() == ("three", "five", 2)
    eagre_spark.conf.set(NESTED_PRUNING, "true")
    try:
        with pytest.raises(Exception, match="NESTED_PRUNING"):
            df.select(plus("a"), "s.e").collect()
    finally:
        eagre_spark.conf.set(NESTED_PRUNING, "false")


def test_unused_columns_bypass_the_worker(run_in_both_modes):
    @eg.pipeline(
        source=eg.Kafka("many-in", schema="a STRING, b BIGINT, c STRING, d DOUBLE, e STRING"),
        sink=eg.Kafka("many-out"),
    )
    def some(df):
        return df.select("a", "c", "e", eg.udf(len, "int", name="len")("c").alias("n"))

    rows = [{"a": "one", "b": 2, "c": "three", "d": 4.0, "e": "five"}]
    assert run_in_both_modes(some, rows) == [{"a": "one", "c": "three", "e": "five", "n": 5}]


def test_functions_of_one_stage_share_a_worker(eagre_spark):
    first = eg.udf(lambda _: os.getpid(), "int", name="first")
    second = eg.udf(lambda _: os.getpid(), "int", name="second")
    row = eagre_spark.range(1).select(first("id").alias("a"), second("id").alias("b")).first()
    assert row.a == row.b


def test_the_column_name_shows_the_call(eagre_spark):
    plus = eg.udf(lambda n, m: n + m, "long", name="plus")
    assert eagre_spark.range(1).select(plus("id", F.lit(2))).columns == ["plus(id, 2)"]


def test_a_function_that_cannot_be_pickled_names_the_fix(eagre_spark):
    lock = threading.Lock()

    def locked(n):
        with lock:
            return n

    with pytest.raises(SettingsError, match=r"FUNCTION_NOT_PICKLABLE.*locked.*lock") as error:
        eagre_spark.range(1).select(eg.udf(locked, "long")("id"))
    assert "functools.cache" in error.value.hint


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: eg.udf(lambda n: n), "RETURN_TYPE_MISSING"),
        (lambda: eg.udf(7, "int"), "FUNCTION_NOT_CALLABLE"),
        (lambda: eg.udf(lambda n: n, "int", on_error="ignore"), "ON_ERROR_UNKNOWN"),
        (lambda: eg.udf(lambda n: n, "int", timeout="soon"), "INTERVAL_MALFORMED"),
        (lambda: eg.udf(lambda n: n, "int", memory="much"), "MEMORY_MALFORMED"),
    ],
)
def test_invalid_functions_are_refused(make, code):
    with pytest.raises(SettingsError, match=code):
        make()


@pytest.mark.parametrize("kind", ["nonsense", "interval year"])
def test_invalid_return_types_are_refused(eagre_spark, kind):
    with pytest.raises(SettingsError, match="RETURN_TYPE_UNUSABLE"):
        eg.udf(lambda n: n, kind)(F.lit(1))


def test_the_plain_function_can_be_called_in_tests():
    risk = eg.udf(lambda amount: amount > 10, "boolean")
    assert risk.function(11)
    assert isinstance(risk.function, types.FunctionType)
