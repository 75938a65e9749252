"""Python functions in a stream: in both modes, prompt, and with what was around them."""

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


def test_functions_nest_and_stand_in_every_clause(run_in_both_modes):
    double = eg.udf(lambda n: n * 2, "int", name="double")
    even = eg.udf(lambda n: n % 2 == 0, "boolean", name="even")
    halves = eg.udf(lambda n: [n // 2, n - n // 2], "array<int>", name="halves")

    @eg.pipeline(source=source("nest-in"), sink=eg.Kafka("nest-out"))
    def nested(df):
        kept = df.where(even("amount")).withColumn("four", double(double("amount")))
        return kept.select("amount", "four", F.explode(halves("four")).alias("half"))

    found = run_in_both_modes(nested, ROWS)
    assert sorted((r["amount"], r["four"], r["half"]) for r in found) == sorted(
        (n, n * 4, n * 2) for n in range(0, 30, 2) for _ in range(2)
    )


def test_a_function_decides_the_group(run_in_both_modes):
    parity = eg.udf(lambda n: "odd" if n % 2 else "even", "string", name="parity")

    @eg.pipeline(source=source("group-in"), sink=eg.Kafka("group-out"))
    def grouped(df):
        return df.groupBy(parity("amount").alias("parity")).agg(F.count("*").alias("n"))

    best = {}
    for row in run_in_both_modes(grouped, ROWS):
        best[row["parity"]] = max(best.get(row["parity"], 0), row["n"])
    assert best == {"odd": 15, "even": 15}


def test_a_function_of_lists_gets_what_is_there(run_in_both_modes):
    @eg.batch_udf("int")
    def squares(amounts):
        assert isinstance(amounts, list)
        return [amount * amount for amount in amounts]

    @eg.pipeline(source=source("batch-in"), sink=eg.Kafka("batch-out"))
    def squared(df):
        return df.select("amount", squares("amount").alias("square"))

    found = run_in_both_modes(squared, ROWS)
    assert sorted((r["amount"], r["square"]) for r in found) == [(n, n * n) for n in range(30)]


def test_one_row_becomes_many_and_keeps_its_origin(run_in_both_modes):
    def split(row):
        for i in range(row.amount % 3):
            yield {"card": row.card, "part": i}

    @eg.pipeline(source=source("flat-in"), sink=eg.Kafka("flat-out"))
    def parts(df):
        made = eg.flat_map(df, split, "card STRING, part INT")
        return made.withColumn("from_topic", F.col("_source.topic"))

    found = run_in_both_modes(parts, ROWS)
    assert len(found) == sum(n % 3 for n in range(30))
    assert {r["from_topic"] for r in found} == {"flat-in"}


def test_a_watermark_survives_both_kinds_of_functions(eagre_spark, eagre_broker):
    stream = eg.Kafka(
        "marked", schema="card STRING, at TIMESTAMP", event_time="at", watermark="10 seconds"
    ).read(eagre_spark, eagre_broker.address)
    mark = stream.schema["at"].metadata
    assert mark["spark.watermarkDelayMs"] == 10_000
    upper = eg.udf(str.upper, "string", name="upper")
    assert stream.withColumn("card", upper("card")).schema["at"].metadata == mark
    made = eg.flat_map(stream, lambda row: [row[:2]], "card STRING, at TIMESTAMP")
    assert made.schema["at"].metadata == mark
    assert "_source" in made.columns


def test_windows_after_a_function_let_go_of_old_state(run_pipeline, eagre_harness, tmp_path):
    """The watermark passes the function: late rows are dropped, and old windows are evicted."""

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
def test_no_answer_waits_for_the_next_row(eagre_spark, eagre_broker, eagre_harness, tmp_path, rows):
    """Each row is sent when the one before is answered."""
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
            wait_until(lambda n=n: n + 1 in waits, 30, f"row {n} was not answered")
    finally:
        done.set()
        reader.join()
        consumer.close()
        query.stop()
    assert set(range(1, rows + 1)) <= set(waits)


def _send_until_answered(producer, waits):
    """Wait until the query runs; what is sent before it reads is not its business."""

    def answered():
        producer.produce("slow-in", json.dumps({"n": 1000, "sent": time.time()}))
        producer.flush()
        return bool(waits)

    wait_until(answered, 60, "the query never answered", interval=0.3)
    time.sleep(1)
    waits.clear()


def test_a_backlog_ends_in_available_now(run_pipeline):
    plus = eg.udf(lambda n: n + 1, "int", name="plus")

    @eg.pipeline(source=source("now-in"), sink=eg.Kafka("now-out"))
    def pluses(df):
        return df.select(plus("amount").alias("n"))

    found = run_pipeline(pluses, ROWS, mode="available-now")
    assert sorted(r["n"] for r in found) == list(range(1, 31))


def test_a_function_may_use_another_one(eagre_spark):
    inner = eg.udf(lambda n: n * 2, "long", name="inner")
    outer = eg.udf(lambda n: inner(n) + 1, "long", name="outer", on_error="fail")
    assert [r[0] for r in eagre_spark.range(3).select(outer("id")).collect()] == [1, 3, 5]


def test_a_model_is_loaded_once_in_the_worker(eagre_spark):
    @functools.cache
    def model():
        return [os.getpid()]

    def loaded(n):
        model().append(n)
        return len(model())

    counted = eg.udf(loaded, "int", on_error="fail")
    assert model() == [os.getpid()]
    found = eagre_spark.range(0, 5, 1, 1).select(counted("id").alias("n")).collect()
    assert [row.n for row in found] == [2, 3, 4, 5, 6]


def test_bytes_that_are_no_text_are_read_as_spark_does(eagre_spark):
    df = eagre_spark.sql("SELECT CAST(X'61FF62' AS STRING) AS s")
    told = eg.udf(lambda s: s, "string", on_error="fail")
    assert df.select(told("s")).first()[0] == "a\ufffdb"


def test_fields_of_a_struct_that_passes_by_stay_where_they_are(eagre_spark):
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


def test_some_of_many_columns_pass_by(run_in_both_modes):
    @eg.pipeline(
        source=eg.Kafka("many-in", schema="a STRING, b BIGINT, c STRING, d DOUBLE, e STRING"),
        sink=eg.Kafka("many-out"),
    )
    def some(df):
        return df.select("a", "c", "e", eg.udf(len, "int", name="len")("c").alias("n"))

    rows = [{"a": "one", "b": 2, "c": "three", "d": 4.0, "e": "five"}]
    assert run_in_both_modes(some, rows) == [{"a": "one", "c": "three", "e": "five", "n": 5}]


def test_functions_of_one_step_share_a_worker(eagre_spark):
    first = eg.udf(lambda _: os.getpid(), "int", name="first")
    second = eg.udf(lambda _: os.getpid(), "int", name="second")
    row = eagre_spark.range(1).select(first("id").alias("a"), second("id").alias("b")).first()
    assert row.a == row.b


def test_a_column_is_named_as_people_wrote_it(eagre_spark):
    plus = eg.udf(lambda n, m: n + m, "long", name="plus")
    assert eagre_spark.range(1).select(plus("id", F.lit(2))).columns == ["plus(id, 2)"]


def test_what_cannot_be_sent_says_what_to_do(eagre_spark):
    lock = threading.Lock()

    def locked(n):
        with lock:
            return n

    with pytest.raises(SettingsError, match=r"FUNCTION_NOT_PICKLABLE.*locked.*lock") as told:
        eagre_spark.range(1).select(eg.udf(locked, "long")("id"))
    assert "functools.cache" in told.value.hint


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
def test_what_cannot_be_a_function(make, code):
    with pytest.raises(SettingsError, match=code):
        make()


@pytest.mark.parametrize("kind", ["nonsense", "interval year"])
def test_a_return_type_that_cannot_be(eagre_spark, kind):
    with pytest.raises(SettingsError, match="RETURN_TYPE_UNUSABLE"):
        eg.udf(lambda n: n, kind)(F.lit(1))


def test_the_plain_function_is_there_for_tests():
    risk = eg.udf(lambda amount: amount > 10, "boolean")
    assert risk.function(11)
    assert isinstance(risk.function, types.FunctionType)
