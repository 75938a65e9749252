"""Sinks in Python: what they get, what they acknowledge, and what happens when they fail."""

import itertools
import json
import os
import threading
import time
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F

import eagre as eg
from eagre.commit import Checkpoint
from eagre.errors import SettingsError
from eagre.waiting import wait_until
from test_dead_letters import DeadLetterTopic
from test_run import produce, run  # noqa: F401  (a fixture)
from test_supervision import jvm_of

ROWS = [{"card": f"c{i % 3}", "n": i} for i in range(40)]
SCHEMA = "card STRING, n INT"


def lines(file):
    path = Path(file)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class File(eg.Sink):
    """Appends rows to a file, one line for each."""

    def __init__(self, file):
        self.file = str(file)

    def open(self):
        self.out = Path(self.file).open("a", buffering=1)  # noqa: SIM115  (closed in close)

    def write(self, rows):
        for row in rows:
            line = {**row.asDict(), "id": row._id, "rows": len(rows)}  # noqa: SLF001  (documented)
            if row._source is not None:  # noqa: SLF001  (documented)
                line["offset"] = row._source.offset  # noqa: SLF001  (documented)
            self.out.write(json.dumps(line) + "\n")

    def close(self):
        self.out.write(json.dumps({"closed": os.getpid()}) + "\n")
        self.out.close()


def source(name, **options):
    return eg.Kafka(name, schema=SCHEMA, partitions=2, **options)


def written(file):
    return [line for line in lines(file) if "n" in line]


def test_a_sink_gets_each_row_with_its_position_and_id(run_in_both_modes, tmp_path):
    @eg.pipeline(source=source("sink-in"), sink=File(tmp_path / "rows"))
    def copied(df):
        return df.where("n < 30").select("n", F.upper("card").alias("card"))

    run_in_both_modes(copied, ROWS)
    rows = written(tmp_path / "rows")
    assert sorted((row["n"], row["card"]) for row in rows) == [(n, f"C{n % 3}") for n in range(30)]
    assert all(row["id"].startswith("copied/sink-in/") for row in rows)
    assert all(row["id"].endswith(f"/{row['offset']}/0") for row in rows)
    assert len({row["id"] for row in rows}) == 30


def test_the_rows_of_one_record_have_different_ids(run_in_both_modes, tmp_path):
    @eg.pipeline(source=source("sink-many"), sink=File(tmp_path / "rows"))
    def repeated(df):
        return df.where("n = 7").select(F.explode(F.sequence(F.lit(1), "n")).alias("n"), "_source")

    run_in_both_modes(repeated, ROWS)
    rows = written(tmp_path / "rows")
    assert [row["n"] for row in rows] == list(range(1, 8))
    assert [row["id"].rsplit("/", 1)[1] for row in rows] == [str(n) for n in range(7)]


def test_rows_of_one_record_in_several_partitions_have_no_id(run_in_both_modes, tmp_path):
    @eg.pipeline(source=source("sink-apart"), sink=File(tmp_path / "rows"))
    def apart(df):
        many = df.where("n = 7").select(F.explode(F.sequence(F.lit(1), "n")).alias("n"), "_source")
        return many.repartition(2, "n")

    run_in_both_modes(apart, ROWS)
    rows = written(tmp_path / "rows")
    assert sorted(row["n"] for row in rows) == list(range(1, 8))
    assert {row["id"] for row in rows} == {None}
    assert len({row["offset"] for row in rows}) == 1


def test_rows_of_a_record_that_is_read_twice_have_no_id(run_pipeline, tmp_path):
    @eg.pipeline(source=source("sink-twice"), sink=File(tmp_path / "rows"))
    def twice(df):
        return df.union(df)

    run_pipeline(twice, ROWS, mode="micro-batch")
    rows = written(tmp_path / "rows")
    assert len(rows) == 80
    assert {row["id"] for row in rows} == {None}


class Columns(File):
    """Writes the rows as they are."""

    def write(self, rows):
        self.out.writelines(json.dumps(row.asDict()) + "\n" for row in rows)


def test_columns_may_have_the_names_that_eagre_uses(run_in_both_modes, tmp_path):
    names = ["_ordinal", "row", "_id", "a`b"]

    @eg.pipeline(source=source("sink-names"), sink=Columns(tmp_path / "rows"))
    def named(df):
        return df.select("n", *(F.lit(name).alias(name) for name in names))

    @eg.pipeline(source=source("sink-own"), sink=Columns(tmp_path / "own"))
    def own(df):
        return df.select("n", F.lit("mine").alias("_source"), F.lit("x").alias("_ordinal"))

    run_in_both_modes(named, ROWS[:1])
    run_in_both_modes(own, ROWS[:1])
    assert written(tmp_path / "rows") == [{"n": 0, **{name: name for name in names}}]
    assert written(tmp_path / "own") == [{"n": 0, "_source": "mine", "_ordinal": "x"}]


def test_a_row_that_python_cannot_represent_is_a_dead_letter(
    run_in_both_modes, eagre_harness, tmp_path
):
    @eg.pipeline(source=source("sink-late"), sink=File(tmp_path / "rows"))
    def late(df):
        far = F.when(F.col("n") == 3, F.timestamp_seconds(F.lit(1_700_000_000_000)))
        return df.select("n", far.alias("at"))

    dead_letters = DeadLetterTopic(eagre_harness, "sink-late")
    run_in_both_modes(late, ROWS)
    assert sorted(row["n"] for row in written(tmp_path / "rows")) == [
        n for n in range(40) if n != 3
    ]
    [reason] = dead_letters.reasons()
    assert "refuses the row: ValueError: year 55840 is out of range" in reason


@pytest.mark.parametrize("pause", [float("nan"), -1, "soon"])
def test_a_pause_that_is_no_time_is_ignored(run_pipeline, tmp_path, pause):
    class Busy(File):
        retry_for = "1 second"

        def write(self, rows):  # noqa: ARG002  (as eg.Sink)
            with Path(self.file).open("a") as out:
                out.write(json.dumps({"n": 1}) + "\n")
            error = OSError("the store is away")
            error.retry_after = pause
            raise error

    @eg.pipeline(source=source("sink-pause"), sink=Busy(tmp_path / "rows"))
    def busy(df):
        return df

    with pytest.raises(Exception, match="SINK_FAILED: Busy raised OSError"):
        run_pipeline(busy, ROWS[:1], mode="micro-batch")
    assert len(written(tmp_path / "rows")) < 10


def test_results_of_an_aggregation_have_no_id(run_in_both_modes, tmp_path):
    @eg.pipeline(source=source("sink-count"), sink=File(tmp_path / "rows"))
    def counted(df):
        return df.groupBy("card").agg(F.count("*").alias("n"))

    run_in_both_modes(counted, ROWS)
    rows = written(tmp_path / "rows")
    assert {row["id"] for row in rows} == {None}
    assert {
        card: max(r["n"] for r in rows if r["card"] == card) for card in ("c0", "c1", "c2")
    } == {
        "c0": 14,
        "c1": 13,
        "c2": 13,
    }


def test_a_batch_has_at_most_batch_rows(run_in_both_modes, tmp_path):
    class Pairs(File):
        batch_rows = 2

        def write(self, rows):
            time.sleep(0.01)
            super().write(rows)

    @eg.pipeline(source=source("sink-batch"), sink=Pairs(tmp_path / "rows"))
    def paired(df):
        return df

    run_in_both_modes(paired, ROWS)
    assert {row["rows"] for row in written(tmp_path / "rows")} <= {1, 2}


def test_a_refused_row_is_a_dead_letter_and_others_are_written(
    run_in_both_modes, eagre_harness, tmp_path
):
    class Choosy(File):
        def write(self, rows):
            refused = [eg.Refused(row, "n is 3") for row in rows if row.n == 3]
            if any(row.n == 5 for row in rows):
                raise eg.Refused(next(row for row in rows if row.n == 5), "n is 5")
            super().write([row for row in rows if row.n != 3])
            return refused

    @eg.pipeline(source=source("sink-refuse"), sink=Choosy(tmp_path / "rows"))
    def chosen(df):
        return df

    dead_letters = DeadLetterTopic(eagre_harness, "sink-refuse")
    run_in_both_modes(chosen, ROWS)
    rows = written(tmp_path / "rows")
    assert sorted(row["n"] for row in rows) == [n for n in range(40) if n not in (3, 5)]
    records = dead_letters.records()
    assert sorted(json.loads(record.value())["n"] for record in records) == [3, 5]
    assert sorted(dead_letters.reasons()) == [
        "Choosy refuses the row: n is 3",
        "Choosy refuses the row: n is 5",
    ]


def test_a_write_that_fails_is_repeated_with_a_new_connection(run_in_both_modes, tmp_path):
    class Unsteady(File):
        def write(self, rows):
            counter = Path(self.file + ".tries")
            tries = int(counter.read_text()) if counter.exists() else 0
            counter.write_text(str(tries + 1))
            if tries < 3:
                raise OSError("the store is away")
            super().write(rows)

    @eg.pipeline(source=source("sink-again"), sink=Unsteady(tmp_path / "rows"))
    def again(df):
        return df

    run_in_both_modes(again, ROWS)
    rows = written(tmp_path / "rows")
    assert sorted(row["n"] for row in rows) == list(range(40))
    assert len([line for line in lines(tmp_path / "rows") if "closed" in line]) >= 3


def test_a_sink_that_stays_away_fails_the_query_with_the_reason(run_in_both_modes):
    class Away(eg.Sink):
        retry_for = "500 ms"

        def write(self, rows):  # noqa: ARG002  (as eg.Sink)
            raise OSError("the store is away")

    @eg.pipeline(source=source("sink-away"), sink=Away())
    def away(df):
        return df

    with pytest.raises(Exception, match="SINK_FAILED: Away raised OSError: the store is away"):
        run_in_both_modes(away, ROWS)


def test_a_hanging_write_is_ended_and_repeated(run_in_both_modes, tmp_path):
    class Hanging(File):
        timeout = "1 second"

        def write(self, rows):
            marker = Path(self.file + ".hung")
            if not marker.exists():
                marker.touch()
                time.sleep(60)
            super().write(rows)

    @eg.pipeline(source=source("sink-hang"), sink=Hanging(tmp_path / "rows"))
    def hangs(df):
        return df

    run_in_both_modes(hangs, ROWS)
    assert sorted(row["n"] for row in written(tmp_path / "rows")) == list(range(40))


def test_pysparks_foreach_objects_and_functions_are_sinks(run_in_both_modes, tmp_path):
    file = str(tmp_path / "rows")

    class Buffered:
        def open(self, partition_id, epoch_id):  # noqa: ARG002  (as PySpark calls it)
            self.rows = []
            return True

        def process(self, row):
            self.rows.append(row.asDict())

        def close(self, error):  # noqa: ARG002  (as PySpark calls it)
            with Path(file).open("a") as out:
                out.writelines(json.dumps(row) + "\n" for row in self.rows)

    @eg.pipeline(source=source("foreach-in"), sink=Buffered())
    def buffered(df):
        return df

    def process(row):
        with Path(file).open("a") as out:
            out.write(json.dumps({"n": row.n + 100}) + "\n")

    @eg.pipeline(source=source("foreach-fn"), sink=process)
    def single(df):
        return df

    run_in_both_modes(buffered, ROWS)
    run_in_both_modes(single, ROWS)
    numbers = sorted(row["n"] for row in written(file))
    assert numbers == [*range(40), *range(100, 140)]


def test_what_is_no_sink_is_refused():
    with pytest.raises(SettingsError, match="PIPELINE_ENDS"):
        eg.pipeline(source=source("x"), sink=3)
    with pytest.raises(SettingsError, match="PIPELINE_ENDS"):
        eg.pipeline(source=source("x"), sink=File)

    class Zero(eg.Sink):
        batch_rows = 0

    with pytest.raises(SettingsError, match="SINK_BATCH"):
        eg.pipeline(source=source("x"), sink=Zero())


def test_a_sink_writes_a_stream_outside_a_pipeline(eagre_spark, eagre_harness, tmp_path):
    brokers = eagre_harness.brokers
    eagre_harness.topics.create("sink-plain", 1)
    rows = eg.read_stream(eagre_spark, source("sink-plain", starting="earliest").on(brokers))
    writer = eg.write_stream(rows, File(tmp_path / "rows"))
    query = (
        writer.option("checkpointLocation", str(tmp_path / "c"))
        .trigger(realTime="5 seconds")
        .start()
    )
    try:
        producer = Producer({"bootstrap.servers": brokers})
        for row in ROWS:
            producer.produce("sink-plain", json.dumps(row))
        producer.flush()
        wait_until(lambda: len(written(tmp_path / "rows")) >= 40, 60, "the rows did not arrive")
    finally:
        query.stop()


APP = """
import json, os, time
import eagre as eg

class Store(eg.Sink):
    timeout = "3 seconds"
    retry_for = "5 seconds"

    def write(self, rows):
        if os.path.exists({file!r} + ".down"):
            raise OSError("the store is down")
        while os.path.exists({file!r} + ".hangs"):
            time.sleep(0.1)
        with open({file!r}, "a") as out:
            out.write("".join(json.dumps({{"n": row.n, "id": row._id}}) + "\\n" for row in rows))

@eg.pipeline(source=eg.Kafka("{name}-in", schema="n BIGINT"), sink=Store())
def {name}(df):
    return df
"""


@pytest.fixture
def stream(eagre_broker):
    """Write numbers to a topic, 200 a second, until the test ends; ``sent`` is how many."""
    stopping = threading.Event()
    threads = []

    class Stream:
        sent = 0

        def start(self, topic):
            def write():
                for number in itertools.count():
                    if stopping.is_set():
                        return
                    produce(eagre_broker.address, topic, [{"n": number}])
                    self.sent = number + 1
                    time.sleep(0.005)

            threads.append(threading.Thread(target=write, daemon=True))
            threads[-1].start()

        def stop(self):
            stopping.set()
            for thread in threads:
                thread.join()

    started = Stream()
    yield started
    started.stop()


def numbers(file):
    return [row["n"] for row in written(file)]


@pytest.mark.e2e
def test_a_killed_run_loses_no_row_and_repeats_since_its_commit(cli, run, eagre_broker, stream):  # noqa: F811
    file = str(cli.folder / "rows")
    app = cli.app(APP.format(file=file, name="stored"), "stored.py")
    checkpoint = Checkpoint(cli.folder / ".eagre" / "checkpoints" / "stored")
    options = ("--brokers", eagre_broker.address, "--every", "5 seconds", "--from", "earliest")
    run(app, *options).wait_for("running in real-time")
    stream.start("stored-in")
    repeatable = set()
    for _ in range(3):
        before = len(numbers(file))
        wait_until(lambda: len(numbers(file)) > before + 400, 90, "no rows arrive")  # noqa: B023
        jvm = jvm_of(cli)
        processes = [jvm, *jvm.children(recursive=True)]
        jvm.kill()
        psutil.wait_procs(processes, 30)  # a worker may still write the rows that it has
        killed, position = max(numbers(file)), checkpoint.reached().get("stored-in", {}).get(0, 0)
        assert position <= killed + 1, "a commit covers a row that is not written"
        repeatable |= set(range(position, killed + 2))
        wait_until(lambda: max(numbers(file)) > killed + 20, 120, "the run did not continue")  # noqa: B023
    stream.stop()
    wait_until(lambda: set(numbers(file)) == set(range(stream.sent)), 60, "rows are missing")
    ids = {}
    for row in written(file):
        assert row["n"] not in ids or row["n"] in repeatable
        assert ids.setdefault(row["n"], row["id"]) == row["id"]


@pytest.mark.e2e
@pytest.mark.parametrize("trouble", ["down", "hangs"])
def test_a_store_that_is_away_for_longer_than_the_retries_loses_no_row(
    cli,
    run,  # noqa: F811
    eagre_broker,
    stream,
    trouble,
):
    name = f"away_{trouble}"
    file = str(cli.folder / "rows")
    app = cli.app(APP.format(file=file, name=name), f"{name}.py")
    started = run(
        app, "--brokers", eagre_broker.address, "--every", "5 seconds", "--from", "earliest"
    )
    started.wait_for("running in real-time")
    stream.start(f"{name}-in")
    wait_until(lambda: len(numbers(file)) > 200, 60, "no rows arrive")
    Path(f"{file}.{trouble}").touch()
    started.wait_for("SINK_FAILED", 60)
    Path(f"{file}.{trouble}").unlink()
    sent = stream.sent
    wait_until(lambda: numbers(file) and max(numbers(file)) > sent, 120, "the run did not continue")
    stream.stop()
    wait_until(lambda: set(numbers(file)) == set(range(stream.sent)), 60, "rows are missing")
