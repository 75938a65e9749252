"""Dead letters: unparsable records, rows too large for the sink, rows that crash their task."""

import json
import os
import random
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

import eagre as eg
from eagre.delivery.dead_letters import dead_letters
from eagre.errors import BrokerError
from eagre.jvm import gateway
from eagre.pipeline import Pipeline
from eagre.testing import Record, harness

SCHEMA = "card STRING, amount DOUBLE, n INT, nested STRUCT<x: INT>"
GOOD = {"card": "c", "amount": 1.5, "n": 1, "nested": {"x": 1}}
POISON = {
    "bytes that are no text": b"\xff\xfe not even text",
    "bad UTF-8 in a text": b'{"card": "\xff", "n": 1}',
    "malformed": b"{ malformed",
    "cut off": b'{"card": "cut off',
    "empty": b"",
    "blank": b" \n",
    "no value": None,
    "an array": b"[]",
    "an object in an array": b'[{"n": 1}]',
    "a number": b"17",
    "a text": b'"text"',
    "null": b"null",
    "trailing text": b'{"n": 1} x',
    "two objects": b'{"n": 1}{"n": 2}',
    "a brace too many": b'{"n": 1}}',
    "a word for a number": b'{"amount": "a word"}',
    "a number for an object": b'{"nested": 3}',
    "a huge number": b'{"n": 99999999999999999999}',
    "a huge number inside": b'{"nested": {"x": 99999999999999999999}}',
    "a number without end": b'{"n": ' + b"9" * 5000 + b"}",
    "a fraction for an int": b'{"n": 1.5}',
    "NaN for an int": b'{"n": NaN}',
    "nested too deep": b'{"other": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "objects too deep": b'{"a": ' * 5000 + b"1" + b"}" * 5000,
    "only braces": b"{" * 100_000,
}
FINE = {
    "as it should be": json.dumps(GOOD),
    "NaN": '{"amount": NaN}',
    "white space around": ' {"n": 1}\r\n',
    "braces in a text": '{"card": "}{ \\" }", "n": 1}',
    "single quotes": "{'card': '}', 'n': 1}",
    "no field of ours": '{"other": {"x": [1, 2]}}',
    "not ASCII": '{"card": "Zürich 🌊"}',
    "a long text": '{"card": "' + "x" * 100_000 + '"}',
}


def through(name, **source):
    @eg.pipeline(
        source=eg.Kafka(f"{name}-in", **({"schema": SCHEMA} | source)),
        sink=eg.Kafka(f"{name}-out"),
        name=name,
    )
    def offsets(df):
        return df.select(F.col("_source.offset").alias("offset"), *df.drop("_source").columns)

    return offsets


class DeadLetterTopic:
    """The dead letters that a topic receives from now on, as plain records."""

    def __init__(self, harness, source):
        self.harness, self.topic = harness, f"{source}.dlq"
        self.begin = self._ends()

    def _ends(self):
        with suppress(BrokerError):
            return self.harness.topics.ends([self.topic])[self.topic]
        return {0: 0}

    def records(self):
        exists = self.topic in self.harness.topics.names()
        return self.harness.records(self.topic, self.begin) if exists else []

    def headers(self):
        return [{k: v.decode() for k, v in record.headers()[-5:]} for record in self.records()]

    def reasons(self):
        return [head["eagre-reason"] for head in self.headers()]


def offset_of(record):
    return int(dict(record.headers())["eagre-source"].rsplit(b"/", 1)[1])


def test_unparsable_records_become_dead_letters_and_others_are_delivered(
    run_in_both_modes, eagre_harness
):
    rows = [Record(value) for value in FINE.values()]
    for number, value in enumerate(POISON.values()):
        headers = {"trace": bytes([number, 255])}
        rows += [Record(value, key=b"\x00\xff%d" % number, headers=headers), Record(GOOD)]
    rows.append(Record(b"{", headers={f"h{i}": b"x" * i for i in range(1000)}))
    rows.append(Record(None))
    pipeline = through("poison")
    run_in_both_modes(pipeline, [])
    dlq = DeadLetterTopic(eagre_harness, "poison-in")
    begin = eagre_harness.topics.ends(["poison-in"])["poison-in"][0]
    results = run_in_both_modes(pipeline, rows)
    dead = {offset_of(record) - begin: record for record in dlq.records()}
    assert len(dead) == len(dlq.records()) == len(POISON) + 2
    delivered = Counter(row["offset"] - begin for row in results)
    bad = {i for i, row in enumerate(rows) if row.data in POISON.values() or row.data == b"{"}
    assert set(dead) == bad
    assert delivered == Counter(set(range(len(rows))) - bad)
    for number, dead_letter in dead.items():
        record = rows[number]
        assert dead_letter.value() == record.data
        assert dead_letter.key() == record.key
        original, head = dead_letter.headers()[:-4], dict(dead_letter.headers()[-4:])
        assert original == list((record.headers or {}).items())
        assert head["eagre-pipeline"] == b"poison"
        assert head["eagre-reason"].startswith(b"UNPARSABLE: ")
        assert head["eagre-source"] == f"poison-in/0/{begin + number}".encode()
        assert head["eagre-time"].startswith(b"20")
    reasons = {
        row.data: dead[i].headers()[-3][1].decode() for i, row in enumerate(rows) if i in bad
    }
    assert "not UTF-8" in reasons[POISON["bad UTF-8 in a text"]]
    assert "no value" in reasons[None]
    assert "after the JSON object, at byte 9" in reasons[POISON["trailing text"]]
    assert "amount" in reasons[POISON["a word for a number"]]
    assert "column 3" in reasons[POISON["malformed"]]


def test_valid_records_are_parsed_as_spark_does(run_pipeline):
    results = run_pipeline(through("fine"), list(FINE.values()))
    rows = dict(zip(FINE, results, strict=True))
    assert {k: rows["as it should be"][k] for k in GOOD} == GOOD
    assert rows["NaN"]["amount"] == "NaN"
    assert rows["braces in a text"]["card"] == '}{ " }'
    assert rows["not ASCII"]["card"] == "Zürich 🌊"


def fuzzed(seed, count):
    """Yield records, about half of them corrupted at random."""
    rng = random.Random(seed)
    for number in range(count):
        event = {"card": f"card-{rng.randrange(99)}", "amount": rng.random(), "n": number}
        data = bytearray(json.dumps(event).encode())
        changed = rng.random() < 0.5
        for _ in range(rng.randrange(1, 4) if changed else 0):
            at = rng.randrange(len(data) + 1)
            match rng.randrange(3):
                case 0:
                    data[at : at + rng.randrange(1, 9)] = b""
                case 1:
                    data[at:at] = rng.randbytes(rng.randrange(1, 9))
                case _:
                    data[at : at + 1] = rng.choice([b"{", b"}", b'"', b",", b"\x00", b"\xc3", b"9"])
        yield bytes(data), changed


def parses(value):
    """Return whether Python parses an object; None where Python and Spark may differ."""
    if (
        b"'" in value
        or b"\\" in value
        or b"n" in value.lower().replace(b'"n"', b"").split(b":")[-1]
    ):
        return None
    try:
        return isinstance(json.loads(value.decode()), dict)
    except ValueError:
        return False


@pytest.mark.parametrize("count", [5_000, pytest.param(20_000, marks=pytest.mark.e2e)])
def test_fuzzed_records_are_delivered_or_become_dead_letters(eagre_harness, monkeypatch, count):
    count = int(os.environ.get("EAGRE_FUZZ_RECORDS", count))
    monkeypatch.setattr(harness, "TIMEOUT_SECONDS", max(60, count // 1000))
    seed = random.randrange(1 << 32)
    records = list(fuzzed(seed, count))
    name = f"fuzz-{count}"
    pipeline = through(name, schema="card STRING, amount DOUBLE, n INT")
    eagre_harness.run(pipeline, [])
    dlq = DeadLetterTopic(eagre_harness, f"{name}-in")
    begin = eagre_harness.topics.ends([f"{name}-in"])[f"{name}-in"][0]
    results = eagre_harness.run(pipeline, [value for value, _ in records])
    delivered = Counter(row["offset"] - begin for row in results)
    dead = Counter(offset_of(record) - begin for record in dlq.records())
    assert delivered + dead == Counter(range(count)), f"seed {seed}"
    for record in dlq.records():
        assert record.value() == records[offset_of(record) - begin][0]
    wrong = {number for number, (value, _) in enumerate(records) if parses(value) is False}
    assert wrong <= set(dead), f"seed {seed}"
    assert {number for number, (_, changed) in enumerate(records) if not changed} <= set(delivered)
    assert len(wrong) > count / 5
    assert gateway.row_counts(eagre_harness.spark)[f"{name}/dead-lettered"] == len(dead)


def test_records_can_be_dropped_or_fail_the_query(eagre_harness, run_in_both_modes):
    dlq = DeadLetterTopic(eagre_harness, "dropping-in")
    dropping = through("dropping", on_error="drop")
    before = gateway.row_counts(eagre_harness.spark).get("dropping/dropped", 0)
    assert len(run_in_both_modes(dropping, [GOOD, "{", GOOD, None])) == 2
    assert gateway.row_counts(eagre_harness.spark)["dropping/dropped"] == before + 2
    assert dlq.records() == []
    with pytest.raises(
        Exception, match=r"RECORD_REFUSED: UNPARSABLE: .* for the record failing-in/0"
    ):
        run_in_both_modes(through("failing", on_error="fail"), [GOOD, "{", GOOD])
    assert gateway.suspects(eagre_harness.spark, "failing") == []


def test_strings_must_be_utf8_and_bytes_may_be_anything(eagre_harness):
    dlq = DeadLetterTopic(eagre_harness, "strict-text-in")
    texts = eagre_harness.run(through("strict-text", format="string"), ["a", b"\xff", None, ""])
    assert [row["value"] for row in texts] == ["a", None, ""]
    assert dlq.reasons() == ["UNPARSABLE: the value is not UTF-8"]
    assert len(eagre_harness.run(through("raw-bytes", format="bytes"), [b"\xff", None])) == 2


def test_no_expression_contains_cluster_settings(eagre_spark):
    canary = "canary-7f3a"
    source = eg.Kafka("secret-in", schema="n INT", options={"kafka.sasl.jaas.config": canary})
    rows = source.read(eagre_spark, "localhost:1").where("n > 1")
    plan = rows._jdf.queryExecution().toString()  # noqa: SLF001
    lines = [line for line in plan.splitlines() if "parse_record" in line]
    assert lines
    assert not any(canary in line for line in lines)


def test_filters_stay_above_the_parser_which_runs_once(eagre_harness, tmp_path):
    @eg.pipeline(source=eg.Kafka("once-in", schema="n INT, m INT"), sink=eg.Kafka("once-out"))
    def once(df):
        return df.where("n > 1 AND m > n AND _source.partition = 0").select("n", "m")

    eagre_harness.run(once, [])
    eagre_harness.write(once, [{"n": 2, "m": 3}])
    start = {"checkpoint": str(tmp_path), "brokers": eagre_harness.brokers, "mode": "available-now"}
    query = once.start(eagre_harness.spark, start={"once-in": {0: 0}}, **start)
    assert query.awaitTermination(30)
    plans = query._jsq.explainInternal(True)  # noqa: FBT003, SLF001
    physical = plans.split("== Physical Plan ==")[1]
    assert physical.count("from_json") == 1
    assert "Filter" in physical.split("parse_record")[0]
    assert "Filter" not in physical.split("parse_record")[1]


def failing_half():
    @eg.udf("int")
    def half(n):
        return n // (n % 2)

    @eg.pipeline(
        source=eg.Kafka("half-in", schema="n INT", partitions=2),
        sink=eg.Kafka("half-out"),
        name="half",
    )
    def halves(df):
        return df.select("n", half("n").alias("m"))

    return halves


def test_dead_letters_of_python_functions_contain_the_record(run_in_both_modes, eagre_harness):
    pipeline = failing_half()
    run_in_both_modes(pipeline, [{"n": 0}])
    dlq = DeadLetterTopic(eagre_harness, "half-in")
    rows = [
        Record({"n": n}, key=f"k{n}", headers={"trace": b"%d" % n}, partition=n // 10 % 2)
        for n in range(3000)
    ]
    assert len(run_in_both_modes(pipeline, rows)) == 1500
    dead = {json.loads(record.value())["n"]: record for record in dlq.records()}
    assert len(dlq.records()) == 1500
    assert sorted(dead) == list(range(0, 3000, 2))
    for n, record in dead.items():
        assert record.key() == b"k%d" % n
        assert record.headers()[0] == ("trace", b"%d" % n)
        head = dict(record.headers()[-4:])
        assert b"half raised ZeroDivisionError" in head["eagre-reason"]
        assert head["eagre-source"].startswith(b"half-in/%d/" % (n // 10 % 2))


def test_a_dead_letter_reports_that_its_record_was_deleted(eagre_harness):
    @eg.udf("int")
    def never(n):
        raise ValueError("never")

    @eg.pipeline(source=eg.Kafka("deleted-in", schema="n INT"), sink=eg.Kafka("deleted-out"))
    def gone(df):
        older = F.col("_source").withField("offset", F.lit(1).cast("bigint"))
        return df.withColumn("_source", older).select(never("n").alias("m"), "_source")

    eagre_harness.run(gone, [{"n": n} for n in range(5)])
    from confluent_kafka import TopicPartition

    [deleted] = eagre_harness.topics.admin.delete_records(
        [TopicPartition("deleted-in", 0, 3)]
    ).values()
    deleted.result(10)
    dlq = DeadLetterTopic(eagre_harness, "deleted-in")
    eagre_harness.run(gone, [{"n": 9}])
    [head] = dlq.headers()
    assert head["eagre-lost"] == "the record is no longer in its topic"
    assert head["eagre-source"] == "deleted-in/0/1"
    assert dlq.records()[0].value() is None


LIMIT = 1_048_576
LARGEST = LIMIT - 61 - 21 - 1 - 3 - 1
"""The largest value of a record without key and headers."""


def test_rows_too_large_for_the_sink_become_dead_letters(run_in_both_modes, eagre_harness):
    @eg.pipeline(
        source=eg.Kafka("large-in", schema="n INT"),
        sink=eg.Kafka("large-out", format="string"),
        name="large",
    )
    def large(df):
        return df.select(F.repeat(F.lit("x"), F.col("n")).alias("value"))

    dlq = DeadLetterTopic(eagre_harness, "large-in")
    rows = [
        {"n": 3},
        Record({"n": LARGEST + 1}, key="k", headers={"h": b"1"}),
        {"n": LARGEST},
        {"n": 2_000_000},
        {"n": 4},
    ]
    results = run_in_both_modes(large, rows)
    assert [len(value) for value in results] == [3, LARGEST, 4]
    first, second = dlq.records()
    assert (json.loads(first.value()), first.key()) == ({"n": LARGEST + 1}, b"k")
    assert json.loads(second.value()) == {"n": 2_000_000}
    assert first.headers()[0] == ("h", b"1")
    assert dlq.reasons()[0] == (
        f"TOO_LARGE: the record has {LIMIT + 1} bytes, and the sink accepts {LIMIT}"
    )


@pytest.mark.e2e
def test_records_of_ten_megabytes(eagre_harness):
    size = 10_000_000
    for topic in ("huge-in", "huge-out"):
        settings = {"max.message.bytes": str(size + 100_000)} if topic == "huge-in" else {}
        eagre_harness.topics.create(topic, 1, settings)
    pipeline = through("huge")
    dlq = DeadLetterTopic(eagre_harness, "huge-in")
    bad, good = b"x" * size, json.dumps({"card": "y" * size, "n": 7}).encode()
    results = eagre_harness.run(pipeline, [GOOD, bad, good, GOOD])
    assert len(results) == 2
    assert [record.value() for record in dlq.records()] == [bad, good]
    assert [reason.split(":")[0] for reason in dlq.reasons()] == ["UNPARSABLE", "TOO_LARGE"]


def test_a_dead_letter_too_large_for_its_topic_has_no_value(eagre_harness):
    eagre_harness.topics.create("tight-in", 1)
    eagre_harness.topics.create("tight-in.dlq", 1, {"max.message.bytes": "2000"})
    dlq = DeadLetterTopic(eagre_harness, "tight-in")
    pipeline = through("tight")
    headers = {f"h{i}": b"x" * 100 for i in range(50)}
    rows = [Record("x" * 5000, key="k"), Record("{", headers=headers)]
    assert eagre_harness.run(pipeline, [*rows, GOOD])[0]["n"] == 1
    first, second = dlq.records()
    assert (first.key(), first.value()) == (b"k", None)
    assert (second.key(), second.value()) == (None, None)
    assert "exceeds the limit of this topic" in dlq.headers()[0]["eagre-lost"]
    assert "headers" in dlq.headers()[1]["eagre-lost"]


def test_a_dead_letter_that_cannot_be_written_fails_the_query(run_in_both_modes, eagre_harness):
    """The records of its epoch are not committed; they are read again when the topic takes it."""
    for topic, settings in (("lost-in", {}), ("lost-in.dlq", {"max.message.bytes": "10"})):
        if topic not in eagre_harness.topics.names():
            eagre_harness.topics.create(topic, 1, settings)
    with pytest.raises(Exception, match="DEAD_LETTER_LOST"):
        run_in_both_modes(through("lost"), [GOOD, "{"])


def quarantined(pipeline, positions):
    class Quarantining(Pipeline):
        def start(self, spark, **options):
            return super().start(spark, quarantine=positions, **options)

    return Quarantining(pipeline.name, pipeline.sources, pipeline.sink, pipeline.transform)


def divided(name, *, python):
    same = eg.udf(lambda n: n, "int", name="same")

    @eg.pipeline(
        source=eg.Kafka(f"{name}-in", schema="n INT"), sink=eg.Kafka(f"{name}-out"), name=name
    )
    def divides(df):
        m = same("n") if python else F.col("n")
        return df.select("n", m.alias("m"), "_source").select("n", F.expr("10 div m").alias("d"))

    return divides


@pytest.mark.e2e
@pytest.mark.parametrize("python", [False, True])
def test_a_row_that_crashes_its_task_can_be_quarantined(
    run_in_both_modes, eagre_harness, tmp_path, python
):
    name = f"crashing-{'python' if python else 'sql'}"
    pipeline = divided(name, python=python)
    spark = eagre_harness.spark
    for topic in (f"{name}-in", f"{name}-out"):
        with suppress(BrokerError):
            eagre_harness.topics.create(topic, 1)
    begin = eagre_harness.topics.ends([f"{name}-in"])[f"{name}-in"][0]
    output = eagre_harness.topics.ends([f"{name}-out"])[f"{name}-out"]
    crashing = (f"{name}-in", 0, begin + 400)
    rows = [{"n": n} for n in [*range(1, 401), 0, *range(401, 800)]]
    before = set(gateway.suspects(spark, name))
    for given in (rows, []):
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            run_in_both_modes(pipeline, given, checkpoint=tmp_path)
        assert set(gateway.suspects(spark, name)) - before == {crashing}
    dlq = DeadLetterTopic(eagre_harness, f"{name}-in")
    run_in_both_modes(quarantined(pipeline, {crashing}), [{"n": 9}], checkpoint=tmp_path)
    results = eagre_harness.records(f"{name}-out", output)
    assert {json.loads(result.value())["n"] for result in results} == {*range(1, 800)}
    [dead_letter] = dlq.records()
    assert json.loads(dead_letter.value()) == {"n": 0}
    assert offset_of(dead_letter) == crashing[2]
    assert dlq.reasons() == ["QUARANTINED: this record crashed its task repeatedly"]


def fails_until(fixed):
    """A pipeline whose function fails for one record until a file exists."""

    @eg.udf("int")
    def repaired(n):
        if n == 2 and not fixed.exists():
            raise ValueError("not yet")
        return n

    @eg.pipeline(
        source=eg.Kafka("again-in", schema="n INT", partitions=3, key="k"),
        sink=eg.Kafka("again-out", key="k"),
        name="again",
    )
    def again(df):
        return df.select("k", repaired("n").alias("n"))

    return again


def dlq_commands(cli, call, brokers):
    """Return a function that starts each command once in a process, and then calls it here."""
    started = set()

    def command(*args):
        line = ("dlq", *args, "--brokers", brokers)
        if args[0] not in started:
            started.add(args[0])
            done = cli.ok(*line)
            return SimpleNamespace(out=done.stdout, err=done.stderr)
        done = call(*line)
        assert done.code == 0, done.err
        return done

    return command


def test_dead_letters_are_listed_shown_and_replayed_once(cli, call, eagre_harness, tmp_path):
    fixed = tmp_path / "repaired"
    again = fails_until(fixed)

    def run(rows):
        return eagre_harness.run(again, rows, checkpoint=tmp_path / "checkpoint")

    command = dlq_commands(cli, call, eagre_harness.brokers)
    rows = [Record({"n": n}, key=f"k{n}", headers={"h": b"\xff"}, partition=2) for n in range(4)]
    assert len(run([*rows, Record(b"\x1b[2J{", key="bad", partition=1)])) == 3

    listed = json.loads(command("list", "--topic", "again-in", "--json", "-").out)
    assert {(g["pipeline"], g["reason"], g["letters"]) for g in listed} == {
        ("again", "repaired raised ValueError", 1),
        ("again", "UNPARSABLE", 1),
    }
    assert "again-in.dlq" in command("list").out
    text = command("show", "again-in").out
    assert '{"n": 2}' in text
    assert "\\x1b[2J{" in text
    assert "\x1b" not in text
    [shown] = json.loads(command("show", "again-in", "--reason", "raised", "--json", "-").out)
    assert (shown["value"], shown["key"]) == ('{"n": 2}', "k2")
    assert shown["headers"] == [{"name": "h", "value": None, "value_base64": "/w=="}]

    fixed.touch()
    begin = eagre_harness.topics.ends(["again-in"])["again-in"]
    assert "would replay 2 records" in command("replay", "again-in", "--dry-run").err
    assert eagre_harness.topics.ends(["again-in"])["again-in"] == begin
    assert "replayed 1 record " in command("replay", "again-in", "--reason", "not yet").err
    assert "replayed 1 record " in command("replay", "again-in.dlq", "--rate", "10").err
    assert "replayed 0 records" in command("replay", "again-in").err
    replayed = {r.key(): r for r in eagre_harness.records("again-in", begin)}
    assert replayed[b"k2"].partition() == 2
    assert replayed[b"k2"].value() == b'{"n": 2}'
    assert replayed[b"k2"].headers()[0] == ("h", b"\xff")
    assert replayed[b"k2"].headers()[1][0] == "eagre-replayed"
    assert len(replayed[b"k2"].headers()) == 2

    assert run([]) == [{"k": "k2", "n": 2}]
    failed = [
        dead_letter
        for dead_letter in dead_letters(eagre_harness.topics, "again-in.dlq")
        if dead_letter.replays
    ]
    assert [dead_letter.key for dead_letter in failed] == [b"bad"]
    done = command("replay", "again-in").err
    assert "replayed 0 records" in done
    assert "1 whose record failed again" in done
    assert "replayed 1 record " in command("replay", "again-in", "--again").err
    assert run([]) == []
    last = list(dead_letters(eagre_harness.topics, "again-in.dlq"))[-1]
    assert (
        max(dead_letter.replays for dead_letter in dead_letters(eagre_harness.topics, last.topic))
        == 2
    )
