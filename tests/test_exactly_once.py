"""Exactly-once delivery: supported plans, the identity in each record, and replays."""

import json
import re
from functools import partial

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import eagre as eg
from eagre.commit import Checkpoint, DeliveryLog
from eagre.delivery import Outputs, begin
from eagre.delivery.dead_letters import DeadLetter
from eagre.errors import CheckpointError, SettingsError
from eagre.reader import Fences
from eagre.testing.harness import Record

SCHEMA = "id BIGINT, card STRING, n BIGINT"


def exactly_once(name, function, *, source=None, partitioned_by=(), **sink):
    name = f"once-{name}"
    first = eg.Kafka(f"{name}-in", schema=SCHEMA, partitioned_by=partitioned_by, partitions=2)
    return eg.pipeline(
        source=source or first,
        sink=eg.Kafka(f"{name}-out", delivery="exactly-once", **sink),
        name=name.replace("-", "_"),
    )(function)


def rows(count, cards=3):
    return [
        Record({"id": i, "card": f"c{i % cards}", "n": i}, key=f"c{i % cards}")
        for i in range(count)
    ]


def identities(harness, topic):
    ends = harness.topics.ends([topic])[topic]
    records = harness.records(topic, dict.fromkeys(ends, 0))
    headers = [dict(record.headers() or ()) for record in records]
    return [h["eagre"].decode().split() for h in headers if "eagre" in h]


CARRIED = {
    "select": lambda df: df.select("id"),
    "filter": lambda df: df.where("n % 2 = 0").select("id", "n"),
    "expression": lambda df: df.select((F.col("n") * 2).alias("m")),
    "explode": lambda df: df.select("id", F.explode(F.array(F.lit(1), F.lit(2))).alias("copy")),
    "python": lambda df: df.select(eg.udf(lambda n: n + 1, "bigint")("n").alias("m")),
}


@pytest.mark.parametrize("shape", CARRIED)
def test_the_header_carries_the_provenance(eagre_harness, run_in_both_modes, shape):
    pipeline = exactly_once(f"carried-{shape}", CARRIED[shape])
    sent = rows(20)
    results = run_in_both_modes(pipeline, sent)
    headers = identities(eagre_harness, pipeline.sink.name)
    assert len(results) > 0
    positions = [words[2] for words in headers]
    assert len(set(positions)) == len(positions)
    assert all(re.fullmatch(rf"{pipeline.sources[0].name}/[01]/\d+/[01]", p) for p in positions)
    assert all(int(words[3]) > 1_700_000_000_000 for words in headers)
    assert {p.rsplit("/", 1)[1] for p in positions} == ({"0", "1"} if shape == "explode" else {"0"})


def test_keyed_results_carry_the_position_of_their_latest_row(eagre_harness, run_pipeline):
    pipeline = exactly_once(
        "keyed",
        lambda df: df.groupBy("card").agg(F.count("*").alias("count")),
        partitioned_by="card",
        key="card",
    )
    results = run_pipeline(pipeline, rows(30))
    assert sorted(row["count"] for row in results if row["card"] == "c0") == list(range(1, 11))
    positions = [words[2] for words in identities(eagre_harness, "once-keyed-out")]
    assert len(set(positions)) == len(positions) == 30


def test_keys_that_are_not_aligned_fail(run_pipeline):
    pipeline = exactly_once(
        "spread", lambda df: df.groupBy("card").agg(F.count("*")), partitioned_by="card"
    )
    spread = [Record({"id": i, "card": "c", "n": i}, partition=i % 2) for i in range(4)]
    with pytest.raises(Exception, match="KEY_NOT_ALIGNED"):
        run_pipeline(pipeline, spread)


def limits(df):
    return df.sparkSession.createDataFrame([("c0", 1)], "card STRING, limit INT")


REFUSED = {
    "state that is not declared aligned": (
        lambda df: df.groupBy("card").count(),
        "partitioned_by",
    ),
    "state by another key": (
        lambda df: df.groupBy((F.col("n") % 2).alias("odd")).count(),
        "partitioned_by",
    ),
    "explode before state": (
        lambda df: (
            df.select("card", F.explode(F.array("n", "id")).alias("n")).groupBy("card").count()
        ),
        "explode after the shuffle",
    ),
    "two shuffles": (
        lambda df: df.repartition(2, "n").groupBy("card").count(),
        "its own topic",
    ),
    "a watermark under state": (
        lambda df: (
            df.withColumn("at", F.timestamp_millis("n"))
            .withWatermark("at", "1 second")
            .groupBy("card", F.window("at", "1 minute"))
            .count()
        ),
        "database sink",
    ),
    "all columns as the key": (lambda df: df.select("card").dropDuplicates(), "name the columns"),
}


@pytest.mark.parametrize("shape", REFUSED)
def test_plans_that_cannot_be_replayed_are_refused(eagre_spark, tmp_path, shape):
    function, alternative = REFUSED[shape]
    declared = () if "not declared" in shape else "card"
    pipeline = exactly_once("refused", function, partitioned_by=declared)
    with pytest.raises(SettingsError, match="EXACTLY_ONCE_SHAPE") as refused:
        pipeline.writer(eagre_spark, checkpoint=str(tmp_path), brokers="127.0.0.1:1")
    assert alternative in refused.value.hint


def test_state_over_several_topics_is_refused(eagre_spark, tmp_path):
    left, right = (eg.Kafka(f"{t}-in", schema=SCHEMA, partitioned_by="card") for t in ("l", "r"))
    pipeline = exactly_once(
        "both", lambda a, b: a.union(b).groupBy("card").count(), source=[left, right]
    )
    with pytest.raises(SettingsError, match="several topics"):
        pipeline.writer(eagre_spark, checkpoint=str(tmp_path), brokers="127.0.0.1:1")


def test_a_union_after_drop_duplicates_is_refused(eagre_spark, tmp_path):
    """The identity by key would be lost: a replay may write another row of the key."""
    left, right = (eg.Kafka(f"{t}-in", schema=SCHEMA) for t in ("l", "r"))
    pipeline = exactly_once(
        "both", lambda a, b: a.dropDuplicates(["card"]).union(b), source=[left, right]
    )
    with pytest.raises(SettingsError, match="unites deduplicated rows") as refused:
        pipeline.writer(eagre_spark, checkpoint=str(tmp_path), brokers="127.0.0.1:1")
    assert "dropDuplicates after the union" in refused.value.hint


def test_a_union_and_a_table_join_keep_the_provenance(eagre_harness, run_pipeline, eagre_spark):
    left, right = (eg.Kafka(f"{t}-union", schema=SCHEMA) for t in ("l", "r"))

    def joined(a, b):
        limits = eagre_spark.createDataFrame([("c0", 1), ("c1", 2)], "card STRING, most INT")
        return (
            a.select("id", "card").union(b.select("id", "card")).join(F.broadcast(limits), "card")
        )

    pipeline = exactly_once("union", joined, source=[left, right])
    results = run_pipeline(pipeline, {"l-union": rows(9), "r-union": rows(9)})
    assert len(results) == 12
    positions = {words[2] for words in identities(eagre_harness, "once-union-out")}
    assert len(positions) == 12
    assert {p.split("/")[0] for p in positions} == {"l-union", "r-union"}


@pytest.mark.parametrize("fence", [None, "in-band"])
def test_a_replay_writes_no_duplicates(eagre_harness, run_pipeline, tmp_path, fence):
    """An epoch without its commit is replayed, as after a kill: only new results are written."""
    name = f"replay-{fence}"
    pipeline = exactly_once(name, lambda df: df.select("id", "n"), fence=fence)
    folder = tmp_path / "c"
    first = run_pipeline(pipeline, rows(10), checkpoint=folder)
    assert len(first) == 10
    _forget_last_commit(folder)
    second = run_pipeline(pipeline, rows(3), checkpoint=folder)
    assert sorted(row["id"] for row in second) == [0, 1, 2]
    delivery_log = DeliveryLog.read(folder)
    assert delivery_log.incarnation == 2
    topic = pipeline.sink.name
    records = eagre_harness.records(topic, {0: 0})
    assert len(records) == (15 if fence else 13)
    fences = Fences()
    admitted = [r for r in records if fences.admit(r.topic(), r.partition(), r.headers())]
    assert len(admitted) == 13
    late = admitted[0]
    assert not fences.admit(late.topic(), late.partition(), late.headers())


def test_an_output_whose_results_expired_is_refused(eagre_harness, run_pipeline, tmp_path):
    """What was delivered since the last commit is unknown: a replay could repeat it."""
    pipeline = exactly_once("expired", lambda df: df.select("id"))
    folder = tmp_path / "c"
    run_pipeline(pipeline, rows(10), checkpoint=folder)
    _forget_last_commit(folder)
    topic = pipeline.sink.name
    [deleted] = eagre_harness.topics.admin.delete_records(
        [TopicPartition(topic, 0, len(eagre_harness.records(topic, {0: 0})))]
    ).values()
    deleted.result(10)
    with pytest.raises(CheckpointError, match="OUTPUT_EXPIRED"):
        run_pipeline(pipeline, rows(3), checkpoint=folder)
    DeliveryLog.read(folder).path.unlink()
    assert len(run_pipeline(pipeline, rows(3), checkpoint=folder)) >= 3, "as the hint says"


def test_a_run_that_dies_while_catching_up_hides_no_results(eagre_harness, run_pipeline, tmp_path):
    """The next run looks for results after its commit where the run before wrote them."""
    slow = eg.Kafka("once-short-in", schema=SCHEMA, options={"maxOffsetsPerTrigger": "4"})
    pipeline = exactly_once("short", lambda df: df.select("id"), source=slow, fence="in-band")
    folder = tmp_path / "c"
    run = partial(run_pipeline, pipeline, mode="available-now", checkpoint=folder)
    assert len(run(rows(12))) == 12
    for _ in range(3):
        _forget_last_commit(folder)
    assert [row["id"] for row in run([Record({"id": 12})])] == [12]
    for _ in range(3):
        _forget_last_commit(folder)
    assert Checkpoint(folder).committed() == (0, {"once-short-in": {0: 4}})
    assert [row["id"] for row in run([Record({"id": 13})])] == [13]
    positions = [words[2] for words in identities(eagre_harness, pipeline.sink.name)]
    assert len(set(positions)) == len(positions) == 14


def test_a_dead_letter_stays_a_dead_letter_in_a_replay(eagre_harness, run_pipeline, tmp_path):
    """It is written once, even if the function would accept the row now."""
    accepted = tmp_path / "taken"

    def moody(n):
        if n % 5 == 0 and not accepted.exists():
            raise ValueError("not today")
        return n

    def moods(df):
        copies = df.select("id", "n", F.explode(F.array(F.lit(1), F.lit(2))).alias("copy"))
        m = eg.udf(moody, "bigint")(F.when(F.col("copy") == 1, F.col("n")).otherwise(1))
        return copies.select("id", m.alias("m"), "copy")

    pipeline = exactly_once("moods", moods)
    folder = tmp_path / "c"
    bad = Record(b"{", key="c0")
    first = run_pipeline(pipeline, [*rows(10), bad], checkpoint=folder)
    assert len(first) == 18
    _forget_last_commit(folder)
    accepted.touch()
    second = run_pipeline(
        pipeline, [Record({"id": 77, "card": "c", "n": 5}, key="c")], checkpoint=folder
    )
    assert sorted((row["id"], row["copy"]) for row in second) == [(77, 1), (77, 2)]
    dead_letters = eagre_harness.records("once-moods-in.dlq", {0: 0})
    headers = [dict(record.headers()) for record in dead_letters]
    assert len(headers) == 3
    kinds = {DeadLetter.of(record).kind for record in dead_letters}
    assert kinds == {"UNPARSABLE", "moody raised ValueError"}
    words = [head["eagre-letter"].decode().split() for head in headers]
    assert len({word[2] for word in words}) == 3
    assert sorted(word[3] for word in words) == ["moody", "moody", "source"]


class Total(StatefulProcessor):
    """The sum of a card's rows; rejects those divisible by 5 until a file exists."""

    def __init__(self, accepted):
        self.accepted = accepted

    def init(self, handle):
        self.total = handle.getValueState("total", "n LONG")

    def handleInputRows(self, key, rows, _timers):  # noqa: N802
        for row in rows:
            if row.n % 5 == 0 and not self.accepted.exists():
                raise ValueError("not today")
            before = self.total.get()[0] if self.total.exists() else 0
            self.total.update((before + row.n,))
            yield Row(card=key[0], total=before + row.n)

    def close(self):
        pass


def totals(accepted):
    def keep(df):
        return eg.transform_with_state(
            df.groupBy("card"), Total(accepted), "card STRING, total LONG"
        )

    return keep


def test_a_replay_restores_state_without_repeating_results(eagre_harness, run_pipeline, tmp_path):
    pipeline = exactly_once("totals", totals(tmp_path / "taken"), partitioned_by="card")
    folder = tmp_path / "c"
    first = run_pipeline(pipeline, rows(10), checkpoint=folder)
    assert len(first) == 8
    _forget_last_commit(folder)
    (tmp_path / "taken").touch()
    second = run_pipeline(pipeline, rows(1), checkpoint=folder)
    assert second == [{"card": "c0", "total": 3 + 6 + 9}]
    assert len(eagre_harness.records("once-totals-in.dlq", {0: 0})) == 2


def test_a_key_that_changes_its_partition_is_refused(run_pipeline, tmp_path):
    pipeline = exactly_once("strays", totals(tmp_path), partitioned_by="card")
    folder = tmp_path / "c"
    run_pipeline(pipeline, [Record({"id": 1, "card": "c", "n": 1}, partition=0)], checkpoint=folder)
    stray = [Record({"id": 2, "card": "c", "n": 1}, partition=1)]
    with pytest.raises(Exception, match="KEY_NOT_ALIGNED"):
        run_pipeline(pipeline, stray, checkpoint=folder)


def test_deduplicated_results_are_identified_by_their_key(eagre_harness, run_pipeline, tmp_path):
    """In a replay another row of the key may arrive first: it must not be delivered as well."""
    pipeline = exactly_once("unique", lambda df: df.dropDuplicates(["card"]).select("card", "id"))
    folder = tmp_path / "c"
    spread = [Record({"id": i, "card": f"c{i % 4}", "n": i}, partition=i % 2) for i in range(12)]
    first = run_pipeline(pipeline, spread, checkpoint=folder)
    assert sorted(row["card"] for row in first) == ["c0", "c1", "c2", "c3"]
    _forget_last_commit(folder)
    second = run_pipeline(pipeline, rows(7, cards=7), checkpoint=folder)
    assert sorted(row["card"] for row in second) == ["c4", "c5", "c6"]
    positions = [words[2] for words in identities(eagre_harness, "once-unique-out")]
    assert len(set(positions)) == 7
    assert all(re.fullmatch(r"\*/-?\d+/-?\d+/0", position) for position in positions)


def _forget_last_commit(folder):
    batch = max(int(p.name) for p in (folder / "commits").iterdir() if p.name.isdigit())
    for log in ("commits", "offsets"):
        for path in (folder / log).glob(f"*{batch}*"):
            path.unlink()


def test_a_query_without_its_replay_filter_fails(
    eagre_spark, eagre_broker, eagre_harness, tmp_path
):
    pipeline = exactly_once("unfiltered", lambda df: df)
    eagre_harness._make_topics(pipeline)  # noqa: SLF001
    eagre_harness.write(pipeline, rows(2))
    query = pipeline.start(
        eagre_spark,
        checkpoint=str(tmp_path),
        brokers=eagre_broker.address,
        mode="available-now",
        start=eagre_harness.topics.begins(["once-unfiltered-in"]),
    )
    with pytest.raises(Exception, match="EXACTLY_ONCE_UNOPENED"):
        query.awaitTermination(60)


def test_a_producer_without_acks_is_refused(eagre_spark, tmp_path):
    pipeline = exactly_once("acks", lambda df: df, options={"kafka.acks": "1"})
    with pytest.raises(SettingsError, match=r"EXACTLY_ONCE_PRODUCER.*kafka.acks=1"):
        pipeline.writer(eagre_spark, checkpoint=str(tmp_path), brokers="127.0.0.1:1")


def test_output_snapshots_lie_before_the_replayed_epoch(tmp_path):
    delivery_log = DeliveryLog.read(tmp_path)
    delivery_log.begin()
    delivery_log.add_snapshot(-2, {"t": {0: 5}})
    assert delivery_log.before(-1).ends == {"t": {0: 5}}
    for batch in range(20):
        delivery_log.add_snapshot(batch, {"t": {0: 10 + batch}})
    again = DeliveryLog.read(tmp_path)
    assert again.before(19).after == 18
    assert again.before(19).ends == {"t": {0: 28}}
    assert len(again.snapshots) == 8


def test_a_source_that_is_gone_is_not_waited_for():
    """Its rows never come again: a run that waited until it has passed them would never commit."""
    source, sink = eg.KafkaSource("a", schema="n INT"), eg.KafkaSink("out")
    outputs = Outputs((source,), sink, None, None)
    assert outputs.reach('{"a": {"0": 5}, "gone": {"0": 9}}') == {"a": {0: 5}}


def test_a_broken_delivery_log_is_reported(tmp_path):
    (tmp_path / "eagre-delivery.json").write_text("{")
    with pytest.raises(CheckpointError, match="DELIVERY_LOG_BROKEN"):
        DeliveryLog.read(tmp_path)


def test_a_locked_checkpoint_is_in_use(eagre_spark, tmp_path):
    from eagre.jvm import gateway

    checkpoint = Checkpoint(tmp_path)
    (tmp_path / "metadata").write_text(json.dumps({}))
    assert not checkpoint.in_use
    assert gateway.lock(eagre_spark, checkpoint.lock_file, 1)
    assert checkpoint.in_use
    with pytest.raises(CheckpointError, match="CHECKPOINT_IN_USE"):
        checkpoint.reset()


def test_a_kill_before_the_first_output_snapshot_is_harmless(eagre_spark, eagre_harness, tmp_path):
    DeliveryLog.read(tmp_path).begin()
    pipeline = exactly_once("early", lambda df: df)
    eagre_harness._make_topics(pipeline)  # noqa: SLF001
    topics = eagre_harness.topics
    outputs = Outputs(pipeline.sources, pipeline.sink, topics, topics)
    replay_filter, delivery_log = begin(
        eagre_spark, outputs, Checkpoint(tmp_path), {}, lambda _: None
    )
    assert replay_filter.prefix == f"{delivery_log.id} 2"
    assert [snapshot.after for snapshot in delivery_log.snapshots] == [-2]
