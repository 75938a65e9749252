"""Records as rows and rows as records: keys, headers, formats."""

import json

from pyspark.sql import functions as F

import eagre as eg
from eagre.testing import Record


def test_every_row_carries_its_provenance(run_in_both_modes):
    @eg.pipeline(
        source=eg.Kafka("origin-in", schema="n INT", partitions=2), sink=eg.Kafka("origin-out")
    )
    def provenance(df):
        source = F.col("_source")
        return df.select(
            "n",
            source["topic"].alias("topic"),
            source["partition"].alias("partition"),
            source["offset"].alias("offset"),
            F.unix_millis(source["timestamp"]).alias("ms"),
        )

    rows = [Record({"n": n}, partition=n % 2, timestamp_ms=1_700_000_000_000 + n) for n in range(6)]
    rows_read = sorted(run_in_both_modes(provenance, rows), key=lambda row: row["n"])
    assert [row["partition"] for row in rows_read] == [0, 1] * 3
    assert [row["ms"] for row in rows_read] == [1_700_000_000_000 + n for n in range(6)]
    assert {row["topic"] for row in rows_read} == {"origin-in"}
    assert rows_read[4]["offset"] == rows_read[0]["offset"] + 2


def test_source_column_is_not_written(run_in_both_modes):
    @eg.pipeline(source=eg.Kafka("plain-in", schema="n INT"), sink=eg.Kafka("plain-out"))
    def plain(df):
        return df

    assert run_in_both_modes(plain, [{"n": 1}]) == [{"n": 1}]


def test_key_and_headers_are_read_and_written(eagre_harness):
    @eg.pipeline(
        source=eg.Kafka("keyed-in", schema="n INT", key="device", headers=True),
        sink=eg.Kafka("keyed-out", key="device"),
    )
    def keyed(df):
        return df

    eagre_harness.run(keyed, [])
    begin = eagre_harness.topics.ends(["keyed-out"])["keyed-out"]
    row = Record({"n": 1}, key="d7", headers={"trace": b"\x00\x01"})
    assert eagre_harness.run(keyed, [row]) == [{"n": 1, "device": "d7"}]
    [record] = eagre_harness.records("keyed-out", begin)
    assert record.key() == b"d7"
    trace, origin = record.headers()
    assert trace == ("trace", b"\x00\x01")
    assert (origin[0], origin[1].split()[0]) == ("eagre-origin", b"keyed-in/0/0")


def test_string_and_bytes_values_are_unchanged(run_in_both_modes):
    @eg.pipeline(
        source=eg.Kafka("text-in", format="string"), sink=eg.Kafka("text-out", format="string")
    )
    def text(df):
        return df.select(F.upper("value").alias("value"))

    @eg.pipeline(
        source=eg.Kafka("raw-in", format="bytes"), sink=eg.Kafka("raw-out", format="bytes")
    )
    def raw(df):
        return df

    assert run_in_both_modes(text, ["abc", ""]) == ["ABC", ""]
    assert run_in_both_modes(raw, [b"\x00\xff", None]) == [b"\x00\xff", None]


def test_nulls_are_written_and_a_struct_type_is_a_schema(run_pipeline):
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    schema = StructType([StructField("a", StringType()), StructField("b", IntegerType())])

    @eg.pipeline(source=eg.Kafka("struct-in", schema=schema), sink=eg.Kafka("struct-out"))
    def struct(df):
        return df

    assert run_pipeline(struct, [{"b": 1}]) == [{"a": None, "b": 1}]


def test_options_that_real_time_rejects_are_skipped(run_in_both_modes):
    source = eg.Kafka(
        "limited-in",
        schema="n INT",
        options={"maxOffsetsPerTrigger": "5", "minPartitions": "4", "kafka.fetch.max.wait.ms": "5"},
    )
    options = source.on("b:1").reader_options("real-time")
    assert "maxOffsetsPerTrigger" not in options
    assert options["kafka.fetch.max.wait.ms"] == "5"
    assert source.on("b:1").reader_options("micro-batch")["maxOffsetsPerTrigger"] == "5"

    @eg.pipeline(source=source, sink=eg.Kafka("limited-out"))
    def limited(df):
        return df

    rows = run_in_both_modes(limited, [{"n": n} for n in range(12)])
    assert sorted(row["n"] for row in rows) == list(range(12))


def test_plain_pyspark_needs_no_decorator(eagre_harness, tmp_path):
    from eagre.sinks import writer

    for topic in ("own-in", "own-out"):
        if topic not in eagre_harness.topics.names():
            eagre_harness.topics.create(topic, 1)
    source = eg.Kafka("own-in", schema="n INT", starting="earliest")
    rows = source.read(eagre_harness.spark, eagre_harness.brokers).where("n > 1")
    query = (
        writer(rows, eg.Kafka("own-out"), eagre_harness.brokers)
        .option("checkpointLocation", str(tmp_path))
        .trigger(realTime="1 second")
        .start()
    )
    try:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": eagre_harness.brokers})
        for n in range(4):
            producer.produce("own-in", json.dumps({"n": n}))
        producer.flush()
        from eagre.waiting import wait_until

        wait_until(
            lambda: eagre_harness.topics.ends(["own-out"])["own-out"][0] >= 2, 30, "no results"
        )
    finally:
        query.stop()
    values = [json.loads(r.value()) for r in eagre_harness.records("own-out", {0: 0})]
    assert values[:2] == [{"n": 2}, {"n": 3}]
