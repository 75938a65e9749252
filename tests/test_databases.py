"""Rows in PostgreSQL and Redis: the newest version wins over replays, late writers and restarts."""

import itertools
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F

import eagre as eg
from database_servers import PASSWORD, PostgresServer, RedisServer
from eagre.broker import Topics
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.testing import Record
from eagre.waiting import wait_until
from queries import send
from test_dead_letters import DeadLetterTopic, offset_of

PAUSE_SECONDS = 45
"""Longer than a sink waits for its database."""
PAYMENTS = "card STRING, amount DOUBLE, n INT"
VERSION = ("_eagre_source", "_eagre_offset", "_eagre_ordinal", "_eagre_time")


@pytest.fixture(scope="module")
def postgres():
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def redis():
    server = RedisServer()
    yield server
    server.remove()


class PostgresTable:
    """A table as a sink, and its rows."""

    def __init__(self, server):
        self.server = server

    def sink(self, name, key="card", **options):
        options = {"credentials": self.server.credentials("eagre"), **options}
        return eg.Postgres(name, key=key, url=self.server.url, **options)

    def rows(self, name, key="card"):
        if not self.server.rows(f"SELECT 1 FROM pg_tables WHERE tablename = '{name}'"):
            return {}
        return {row[key]: row for row in self.server.rows(f'SELECT * FROM "{name}"')}

    def touched(self, name):
        """Return what every write changes, even one of the same values."""
        return self.server.rows(f'SELECT card, n, xmin::text, ctid::text FROM "{name}"')

    def refuse(self, name, card):
        """Refuse the rows of a card, and only these."""
        versions = (
            "_eagre_source text, _eagre_offset bigint, _eagre_ordinal int, _eagre_time timestamptz"
        )
        card = f"card text PRIMARY KEY CHECK (card <> '{card}')"
        self.server.run(f'CREATE TABLE "{name}" ({card}, n integer, {versions})')

    def accept(self, name, card):
        pass

    def turn_away(self, name):
        """Refuse every row, for a reason that has nothing to do with rows."""
        self.server.run(f'ALTER TABLE "{name}" RENAME COLUMN n TO away')

    def take_back(self, name):
        self.server.run(f'ALTER TABLE "{name}" RENAME COLUMN away TO n')

    def interrupt(self):
        """Terminate all sessions."""
        others = "usename = 'eagre' AND pid <> pg_backend_pid()"
        self.server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


class RedisHashes:
    """Hashes as a sink, and their fields."""

    def __init__(self, server):
        self.server = server

    def sink(self, name, key="card", **options):
        options = {"credentials": self.server.credentials("default"), **options}
        return eg.Redis(f"{name}:{{{key}}}", key=key, url=self.server.url, **options)

    def rows(self, name, key="card"):
        numbers = ("n", "sum")
        return {
            row[key]: {k: int(v) if k in numbers else v for k, v in row.items()}
            for row in self.server.hashes(f"{name}:").values()
        }

    def touched(self, name):
        return self.rows(name)

    def refuse(self, name, card):
        with self.server.client as client:
            client.set(f"{name}:{card}", "a string, and no hash")

    def accept(self, name, card):
        with self.server.client as client:
            client.delete(f"{name}:{card}")

    def turn_away(self, _):
        with self.server.client as client:
            client.config_set("maxmemory", 1)

    def take_back(self, _):
        with self.server.client as client:
            client.config_set("maxmemory", 0)

    def interrupt(self):
        with self.server.client as client:
            client.script_flush()


@pytest.fixture(params=[PostgresTable, RedisHashes])
def database(request):
    server = "postgres" if request.param is PostgresTable else "redis"
    return request.param(request.getfixturevalue(server))


def values(rows, *names):
    return {key: tuple(row[name] for name in names) for key, row in rows.items()}


ROWS = [{"card": f"c{n % 7}", "amount": float(n), "n": n} for n in range(200)]
LAST = {row["card"]: (row["n"],) for row in ROWS}


def named(request):
    """Return a name for topics and tables that no other test uses."""
    return request.node.name.split("[")[0][5:25] + str(abs(hash(request.node.name)) % 10_000)


def test_the_last_row_of_each_key_is_stored(run_in_both_modes, database, request):
    name = named(request)

    @eg.pipeline(
        source=eg.Kafka(f"{name}-in", schema=PAYMENTS, partitions=2), sink=database.sink(name)
    )
    def latest(df):
        return df.where("n % 2 >= 0").select("card", "n", "_source")

    keyed = [Record(row, key=row["card"]) for row in ROWS]
    assert run_in_both_modes(latest, keyed) == []
    assert values(database.rows(name), "n") == LAST


def test_aggregates_have_a_version(run_in_both_modes, database, request):
    name = named(request)

    @eg.pipeline(source=eg.Kafka(f"{name}-in", schema=PAYMENTS), sink=database.sink(name))
    def totals(df):
        return df.groupBy("card").agg(
            F.count("*").alias("n"), F.sum("n").alias("sum"), F.max("_source").alias("_source")
        )

    run_in_both_modes(totals, ROWS)
    expected = {
        card: (len(numbers), sum(numbers))
        for card in LAST
        if (numbers := [row["n"] for row in ROWS if row["card"] == card])
    }
    assert values(database.rows(name), "n", "sum") == expected


def test_the_last_row_of_one_record_is_stored(run_in_both_modes, database, request):
    name = named(request)

    @eg.pipeline(source=eg.Kafka(f"{name}-in", schema=PAYMENTS), sink=database.sink(name))
    def several(df):
        many = F.explode(F.sequence(F.lit(1), F.lit(3)))
        return df.select("card", "_source", many.alias("part")).select(
            "card", "_source", F.col("part").alias("n")
        )

    run_in_both_modes(several, ROWS[:20])
    assert set(values(database.rows(name), "n").values()) == {(3,)}


def test_a_replay_changes_nothing(run_pipeline, eagre_harness, database, request, tmp_path):
    name = named(request)
    source = eg.Kafka(f"{name}-in", schema=PAYMENTS, starting="earliest")

    @eg.pipeline(source=source, sink=database.sink(name))
    def noisy(df):
        return df.select("card", (F.rand() * 1_000_000_000).cast("int").alias("n"), "_source")

    run_pipeline(noisy, ROWS, mode="micro-batch")
    before = database.touched(name)
    assert len(before) == len(LAST)
    replay(eagre_harness, noisy, {f"{name}-in": {0: 0}}, tmp_path)
    assert database.touched(name) == before


def replay(harness, pipeline, start, checkpoint):
    """Read the whole topic again in real time, with a new checkpoint."""
    query = pipeline.start(
        harness.spark,
        checkpoint=str(checkpoint),
        brokers=harness.brokers,
        every="1 second",
        start=start,
    )

    def all_read():
        assert query.exception() is None
        return sum(progress.numInputRows for progress in query.recentProgress) >= len(ROWS)

    try:
        wait_until(all_read, 60, "the rows were not read again")
    finally:
        query.stop()


PLACED = "card STRING, n INT, topic STRING, partition INT, offset BIGINT, time BIGINT"


def placed(df):
    """Add a provenance to rows, from their columns."""
    place = F.struct("topic", "partition", "offset", F.timestamp_millis("time").alias("timestamp"))
    return df.select("card", "n", place.alias("_source"))


def newest(rows):
    """Apply the versioning rule in plain Python: return the expected row of each key."""
    newest_rows, places = {}, {}
    for row in rows:
        source = f"{row['topic']}/{row['partition']}"
        if places.get(source, (None,))[0] != row["offset"]:
            places[source] = (row["offset"], {})
        counts = places[source][1]
        ordinal = counts[row["card"]] = counts.get(row["card"], -1) + 1
        old = newest_rows.get(row["card"])
        time = row["time"]
        if old is None:
            newer = True
        elif old["source"] == source:
            newer = (row["offset"], ordinal) > old["place"]
            time = max(time, old["time"])
        else:
            newer = (time, source) > (old["time"], old["source"])
        if newer:
            place = (row["offset"], ordinal)
            newest_rows[row["card"]] = {
                "n": row["n"],
                "source": source,
                "place": place,
                "time": time,
            }
    return newest_rows


def moving_keys(chance):
    """Yield records of four partitions; keys move between them, out of order and with replays."""
    logs = {(topic, partition): [] for topic in "ab" for partition in range(2)}
    read = dict.fromkeys(logs, 0)
    for n in range(3000):
        at = chance.choice(list(logs))
        if n % 500 == 499:
            read = {at: chance.randrange(read[at] + 1) for at in logs}
        if read[at] == len(logs[at]):
            time = 1_700_000_000_000 + n // 100 + chance.randrange(10)
            place = {"topic": at[0], "partition": at[1], "offset": 2**60 + read[at], "time": time}
            cards = chance.choices([f"c{k}" for k in range(20)], k=chance.randrange(1, 4))
            logs[at].append([{"card": card, **place} for card in cards])
        yield from logs[at][read[at]]
        read[at] += 1


def test_versions_follow_the_documented_rule(run_pipeline, database, request):
    name, seed = named(request), random.randrange(10_000)
    rows = [{**row, "n": n} for n, row in enumerate(moving_keys(random.Random(seed)))]

    @eg.pipeline(source=eg.Kafka(f"{name}-in", schema=PLACED), sink=database.sink(name))
    def compared(df):
        return placed(df)

    run_pipeline(compared, rows, mode="micro-batch")
    stored = {
        card: (row["n"], row["_eagre_source"], int(row["_eagre_offset"]))
        for card, row in database.rows(name).items()
    }
    expected = {
        card: (row["n"], row["source"], row["place"][0]) for card, row in newest(rows).items()
    }
    assert stored == expected, f"seed {seed}"


def test_a_late_writer_does_not_overwrite_newer_rows(run_pipeline, database, request):
    name = named(request)
    at = {"card": "c", "topic": "t", "time": 1000}
    late = {**at, "n": 1, "partition": 0, "offset": 5}
    newer = {**at, "n": 2, "partition": 0, "offset": 6}
    elsewhere = {**at, "n": 3, "partition": 1, "offset": 0, "time": 999}

    @eg.pipeline(source=eg.Kafka(f"{name}-in", schema=PLACED), sink=database.sink(name))
    def written(df):
        return placed(df)

    for row, expected in ((newer, 2), (late, 2), (elsewhere, 2)):
        run_pipeline(written, [row], mode="available-now")
        assert values(database.rows(name), "n") == {"c": (expected,)}


def test_a_column_can_be_the_version(run_pipeline, database, request):
    name = named(request)
    sink = database.sink(name, version="n")

    @eg.pipeline(
        source=eg.Kafka(f"{name}-in", schema="card STRING, n BIGINT, by STRING"), sink=sink
    )
    def versioned(df):
        return df.select("card", "n", "by")

    updates = [(3, "a"), (1, "b"), (2**60, "c"), (2**60 - 1, "d"), (2**60, "e"), (-5, "f")]
    rows = [{"card": "c", "n": n, "by": by} for n, by in updates]
    run_pipeline(versioned, [*rows, {"card": "below", "n": -7, "by": "g"}], mode="micro-batch")
    run_pipeline(versioned, [{"card": "below", "n": -8, "by": "h"}], mode="micro-batch")
    assert values(database.rows(name), "by") == {"c": ("c",), "below": ("g",)}


@pytest.fixture
def running(eagre_harness, database, request, tmp_path):
    """A real-time pipeline whose epoch is longer than the test."""
    name = named(request)
    eagre_harness.topics.create(f"{name}-in", 1)

    @eg.pipeline(source=eg.Kafka(f"{name}-in", schema=PAYMENTS), sink=database.sink(name))
    def through(df):
        return df.select("card", "n", "_source")

    query = through.start(
        eagre_harness.spark,
        checkpoint=str(tmp_path),
        brokers=eagre_harness.brokers,
        every="5 minutes",
        start={f"{name}-in": {0: 0}},
    )
    yield lambda *rows: send(eagre_harness.brokers, f"{name}-in", *rows), query, name
    query.stop()


def test_rows_are_visible_immediately_and_a_restart_loses_none(running, database):
    produce, query, name = running

    def has_rows(number):
        def condition():
            assert query.exception() is None
            return len(database.rows(name)) == number

        return condition

    produce({"card": "first", "n": 0})
    wait_until(has_rows(1), 30, "the first row was not written")
    database.interrupt()
    produce({"card": "second", "n": 0})
    wait_until(has_rows(2), 10, "no row was written after the sessions were terminated")
    produce(*[{"card": f"c{n}", "n": n} for n in range(200)])
    database.server.stop()
    produce(*[{"card": f"c{n}", "n": n} for n in range(200, 400)])
    database.server.start()
    wait_until(has_rows(402), 20, "rows were lost in the restart")
    assert query.lastProgress is None


def through_to(database, name, partitions=1):
    source = eg.Kafka(f"{name}-in", schema=PAYMENTS, partitions=partitions)

    @eg.pipeline(source=source, sink=database.sink(name), name=name)
    def through(df):
        return df.select("card", "n", "_source")

    return through


def started(harness, pipeline, checkpoint, every="5 minutes", **options):
    """Start a query at the beginning of its topic."""
    [source] = pipeline.sources
    return pipeline.start(
        harness.spark,
        checkpoint=str(checkpoint),
        brokers=harness.brokers,
        every=every,
        start={source.name: dict.fromkeys(range(source.partitions), 0)},
        **options,
    )


@pytest.mark.e2e
def test_the_record_that_a_database_refuses_is_quarantined(
    eagre_harness, database, request, tmp_path
):
    """Rows are written together, and in another thread: a later one is in work."""
    name, spark = named(request), eagre_harness.spark
    pipeline, culprit = through_to(database, name), (f"{name}-in", 0, 100)
    eagre_harness.topics.create(f"{name}-in", 1)
    database.refuse(name, "bad")
    rows = [{"card": "bad" if n == culprit[2] else f"c{n}", "n": n} for n in range(300)]
    send(eagre_harness.brokers, f"{name}-in", *rows)
    for crashes in (1, 2):
        query = started(eagre_harness, pipeline, tmp_path / str(crashes), "5 seconds")
        wait_until(query.exception, 60, "the row was not refused")
        assert "DATABASE_REFUSED" in str(query.exception())
        assert gateway.suspects(spark, name) == [culprit] * crashes
        assert gateway.suspects_of(spark, query) == [culprit]
    query = started(eagre_harness, pipeline, tmp_path / "3", quarantine={culprit})
    dead = DeadLetterTopic(eagre_harness, f"{name}-in")
    dead.begin = {0: 0}
    try:
        wait_until(dead.records, 60, "the record was not quarantined")
        database.accept(name, "bad")
        wait_until(lambda: len(database.rows(name)) == len(rows) - 1, 30, "rows are missing")
    finally:
        query.stop()
    assert [offset_of(letter) for letter in dead.records()] == [culprit[2]]


@pytest.mark.e2e
def test_an_error_that_concerns_all_rows_blames_none(eagre_harness, postgres, request, tmp_path):
    name, database = named(request), PostgresTable(postgres)
    eagre_harness.topics.create(f"{name}-in", 1)
    query = started(eagre_harness, through_to(database, name), tmp_path, "5 seconds")
    send(eagre_harness.brokers, f"{name}-in", {"card": "first", "n": 1})
    wait_until(lambda: database.rows(name), 60, "the first row was not written")
    database.turn_away(name)
    send(eagre_harness.brokers, f"{name}-in", *[{"card": f"c{n}", "n": n} for n in range(100)])
    wait_until(query.exception, 60, "no row was refused")
    assert "DATABASE_REFUSED" in str(query.exception())
    assert gateway.suspects(eagre_harness.spark, name) == []


@pytest.mark.e2e
def test_a_failover_to_a_replica_is_waited_for(eagre_harness, postgres, request, tmp_path):
    """Until it is promoted, the other server accepts connections and refuses every write."""
    name, database = named(request), PostgresTable(postgres)
    eagre_harness.topics.create(f"{name}-in", 1)
    query = started(eagre_harness, through_to(database, name), tmp_path)
    try:
        send(eagre_harness.brokers, f"{name}-in", {"card": "first", "n": 1})
        wait_until(lambda: database.rows(name), 60, "the first row was not written")
        postgres.read_only("on")
        send(eagre_harness.brokers, f"{name}-in", {"card": "second", "n": 2})
        time.sleep(3)
        assert query.exception() is None
        postgres.read_only("off")
        wait_until(lambda: len(database.rows(name)) == 2, 30, "the second row was not written")
    finally:
        postgres.read_only("off")
        query.stop()


def faults(database, name):
    """Kill the database, pause it for longer than the sink waits, and let it refuse all rows."""
    time.sleep(3)
    database.server.stop()
    time.sleep(3)
    database.server.start()
    time.sleep(3)
    with database.server.paused():
        time.sleep(PAUSE_SECONDS)
    time.sleep(3)
    database.turn_away(name)
    time.sleep(5)
    database.take_back(name)


@pytest.mark.e2e
def test_faults_of_a_database_leave_the_exact_state(eagre_harness, database, request, tmp_path):
    name, expected = named(request), {}
    pipeline = through_to(database, name, partitions=2)
    eagre_harness.topics.create(f"{name}-in", 2)
    producer = Producer({"bootstrap.servers": eagre_harness.brokers})
    queries = []

    def is_exact():
        """Restart a query that has ended, as ``eagre run`` does, and look at the database."""
        keep_running()
        return values(database.rows(name), "n") == expected

    def keep_running():
        if not queries or not queries[-1].isActive:
            queries.append(started(eagre_harness, pipeline, tmp_path, every="5 seconds"))

    with ThreadPoolExecutor(1) as pool:
        over = pool.submit(faults, database, name)
        for n in itertools.count():
            card = f"c{n % 50}"
            expected[card] = (n,)
            producer.produce(f"{name}-in", json.dumps({"card": card, "n": n}), card)
            producer.poll(0.02)
            if n % 50 == 0:
                keep_running()
            if over.done():
                break
        over.result()
    producer.flush()
    try:
        wait_until(is_exact, 60, "the state is not exact")
    finally:
        queries[-1].stop()
    assert len(queries) > 1, "no fault lasted long enough to end a query"
    assert gateway.suspects(eagre_harness.spark, name) == []


TYPES = (
    "card STRING, text STRING, whole BIGINT, exact DECIMAL(20,5), half DOUBLE, yes BOOLEAN, "
    "at TIMESTAMP, day DATE, tags ARRAY<STRING>, place STRUCT<x: INT, y: STRING>"
)


def typed(df):
    local = F.to_timestamp_ntz(F.lit("2026-07-01 12:30:00.5"))
    return df.withColumn("raw", F.encode("text", "UTF-8")).withColumn("local", local)


FULL = {
    "card": "é…😀'\"\\",
    "text": "a\nb\t☃",
    "whole": 2**62,
    "exact": "123456789012345.67890",
    "half": 1e300,
    "yes": True,
    "at": "2026-01-02T03:04:05.678901Z",
    "day": "2024-02-29",
    "tags": ["a", None, "ü"],
    "place": {"x": 1, "y": None},
}
EMPTY = {"card": "empty"}


@pytest.mark.e2e
def test_types_in_postgres(run_pipeline, postgres, request):
    name = named(request)

    @eg.pipeline(
        source=eg.Kafka(f"{name}-in", schema=TYPES), sink=PostgresTable(postgres).sink(name)
    )
    def types(df):
        return typed(df)

    run_pipeline(types, [FULL, EMPTY])
    rows = PostgresTable(postgres).rows(name)
    full, empty = rows[FULL["card"]], rows["empty"]
    assert {k: full[k] for k in ("text", "whole", "half", "yes", "day", "tags", "place")} == {
        k: FULL[k] for k in ("text", "whole", "half", "yes", "day", "tags", "place")
    }
    assert full["exact"] == 123456789012345.67890
    assert datetime.fromisoformat(full["at"]) == datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    assert full["local"] == "2026-07-01T12:30:00.5"
    assert full["raw"] == "\\x" + FULL["text"].encode().hex()
    assert {empty[k] for k in FULL if k != "card"} == {None}
    kinds = postgres.rows(
        "SELECT column_name AS name, data_type AS kind FROM information_schema.columns "
        f"WHERE table_name = '{name}'"
    )
    assert {row["name"]: row["kind"] for row in kinds}["exact"] == "numeric"


@pytest.mark.e2e
def test_types_in_redis(run_pipeline, redis, request):
    name = named(request)
    hashes = RedisHashes(redis)

    @eg.pipeline(source=eg.Kafka(f"{name}-in", schema=TYPES), sink=hashes.sink(name))
    def types(df):
        return typed(df)

    run_pipeline(types, [FULL, EMPTY])
    rows = hashes.rows(name)
    full = rows[FULL["card"]]
    assert {k: full[k] for k in ("text", "exact", "at", "day", "raw")} == {
        **{k: FULL[k] for k in ("text", "exact", "at", "day")},
        "raw": FULL["text"],
    }
    assert (full["whole"], full["yes"]) == (str(2**62), "true")
    assert (json.loads(full["tags"]), json.loads(full["place"])) == (FULL["tags"], FULL["place"])
    assert set(rows["empty"]) == {"card", "local", *VERSION}
    run_pipeline(types, [{"card": FULL["card"], "text": "now"}])
    assert set(hashes.rows(name)[FULL["card"]]) == {"card", "text", "raw", "local", *VERSION}


def refused(run_pipeline, sink, name, rows=({"card": "c", "n": 1},)):
    """Return the error of a query that cannot write."""

    @eg.pipeline(source=eg.Kafka(f"{name}-in", schema=PAYMENTS), sink=sink)
    def through(df):
        return df.select("card", "n", "_source")

    with pytest.raises(Exception) as failed:  # noqa: PT011  (Spark's, by what it says)
        run_pipeline(through, list(rows), mode="available-now")
    return str(failed.value)


def test_a_wrong_password_is_reported_and_not_printed(run_pipeline, database, request):
    wrong = "another-" + PASSWORD
    user = "eagre" if isinstance(database, PostgresTable) else "default"
    sink = database.sink("never", credentials=database.server.credentials(user, wrong))
    error = refused(run_pipeline, sink, named(request))
    assert "DATABASE_LOGIN" in error
    assert "credentials=" in error
    assert PASSWORD not in error


def test_a_missing_table_is_only_created_on_request(run_pipeline, postgres, request):
    name = named(request)
    error = refused(run_pipeline, PostgresTable(postgres).sink(name, create=False), name)
    assert f"TABLE_MISSING: rows cannot be written to the table {name}" in error
    assert postgres.rows(f"SELECT 1 FROM pg_tables WHERE tablename = '{name}'") == []


def test_the_columns_of_a_table_must_match(run_pipeline, postgres, request):
    name = named(request)
    postgres.run(f'CREATE TABLE "{name}" (card text PRIMARY KEY, n integer)')
    error = refused(run_pipeline, PostgresTable(postgres).sink(name), name)
    assert "TABLE_UNFIT: " in error
    assert 'column "_eagre_source" of relation' in error
    assert f'CREATE TABLE IF NOT EXISTS "{name}"' in error


def test_a_row_without_a_key_is_refused(run_pipeline, database, request):
    error = refused(run_pipeline, database.sink("keyless"), named(request), [{"n": 1}])
    assert "KEY_NULL: a row has no value in the column 'card'" in error


def test_an_existing_table_may_have_other_types(run_pipeline, postgres, request):
    name = named(request)
    key = "0b5c3e7a-0d4e-4a3c-9f0a-2f6f7c8d9e0f"
    versions = (
        "_eagre_source text, _eagre_offset bigint, _eagre_ordinal int, _eagre_time timestamptz"
    )
    postgres.run(
        f'CREATE SCHEMA own; CREATE TABLE own."{name}" (card uuid PRIMARY KEY, n numeric, '
        f"seen timestamptz DEFAULT now(), {versions}); "
        f"INSERT INTO own.\"{name}\" (card, n) VALUES ('{key}', 0)"
    )

    @eg.pipeline(
        source=eg.Kafka(f"{name}-in", schema=PAYMENTS),
        sink=PostgresTable(postgres).sink(f"own.{name}", create=False),
    )
    def through(df):
        return df.select("card", "n", "_source")

    rows = [{"card": key.upper() if n % 2 else key, "n": n} for n in range(51)]
    run_pipeline(through, rows, mode="micro-batch")
    assert postgres.rows(f'SELECT card, n FROM own."{name}"') == [{"card": key, "n": 50}]


def test_a_check_writes_nothing(eagre_harness, postgres, request):
    name = named(request)

    @eg.pipeline(
        source=eg.Kafka(f"{name}-in", schema=PAYMENTS), sink=PostgresTable(postgres).sink(name)
    )
    def checked(df):
        return df.select("card", "n", "_source")

    report = eg.check(checked, eagre_harness.spark, brokers=eagre_harness.brokers)
    assert report.ok, report.findings
    assert postgres.rows(f"SELECT 1 FROM pg_tables WHERE tablename = '{name}'") == []


APP = """
import eagre as eg

@eg.pipeline(source=eg.Kafka("shop-in", schema="card STRING, n INT"),
             sink=eg.Postgres("shop", key="card"))
def shop(df):
    return df
"""


@pytest.mark.e2e
def test_a_run_takes_its_credentials_from_the_environment(cli, eagre_broker, postgres):
    Topics(eagre_broker.address).create("shop-in", 1)
    send(eagre_broker.address, "shop-in", *[{"card": f"c{n}", "n": n} for n in range(30)])
    env = {"PGUSER": "eagre", "PGPASSWORD": PASSWORD, "DATABASE_URL": postgres.url}
    words = ("run", cli.app(APP), "--mode", "available-now", "--brokers", eagre_broker.address)
    done = cli.ok(*words, **env)
    rows = postgres.rows("SELECT * FROM shop")
    assert {row["card"]: row["n"] for row in rows} == {f"c{n}": n for n in range(30)}
    assert all(row["_eagre_source"].startswith("shop-in@") for row in rows)
    files = [path for path in cli.folder.rglob("*") if path.is_file()]
    assert any("checkpoints" in str(path) for path in files)
    assert PASSWORD not in done.stdout + done.stderr
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []


URL = "postgresql://127.0.0.1:5432/shop"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (
            lambda: eg.Postgres("t", key="k", url=f"postgresql://u:{PASSWORD}@h/d"),
            "PASSWORD_IN_URL",
        ),
        (lambda: eg.Postgres("t", key="k", url=f"{URL}?password={PASSWORD}"), "PASSWORD_IN_URL"),
        (lambda: eg.Redis("t:{k}", key="k", url=f"redis://:{PASSWORD}@h"), "PASSWORD_IN_URL"),
        (lambda: eg.Postgres("t", key="k", url="mysql://h/d"), "URL_MALFORMED"),
        (lambda: eg.Postgres("t", key="k", url="postgresql://h"), "URL_MALFORMED"),
        (lambda: eg.Postgres("t", key="k", url=f"postgresql://h:{PASSWORD}/d"), "URL_MALFORMED"),
        (lambda: eg.Redis("t:{k}", key="k", url="redis://h/one"), "URL_MALFORMED"),
        (lambda: eg.Postgres("t", key=(), url=URL), "KEY_MISSING"),
        (lambda: eg.Postgres("", key="k", url=URL), "TABLE_NAME"),
        (lambda: eg.Redis("t:{other}", key="k"), "KEY_TEMPLATE"),
        (lambda: eg.Redis("t:{k", key="k"), "KEY_TEMPLATE"),
        (lambda: eg.Redis("t:{k}{l}", key=("k", "l")), "KEY_TEMPLATE"),
        (lambda: eg.Redis("t:{k}%3A{l}", key=("k", "l")), "KEY_TEMPLATE"),
    ],
)
def test_invalid_sinks_have_an_error_code_and_show_no_password(make, code):
    with pytest.raises(SettingsError) as wrong:
        make()
    assert wrong.value.code == code
    assert PASSWORD not in str(wrong.value)


@pytest.mark.parametrize(
    ("sink", "columns", "code"),
    [
        (eg.Postgres("t", key="card", url=URL), "card, n", "VERSION_MISSING"),
        (eg.Postgres("t", key="card", url=URL), "card, 1 AS _source", "VERSION_MISSING"),
        (eg.Postgres("t", key="other", url=URL), "card, _source", "COLUMN_MISSING"),
        (eg.Postgres("t", key="card", url=URL, version="card"), "card, n", "VERSION_TYPE"),
        (eg.Postgres("t", key="card", url=URL, version="m"), "card, n", "VERSION_TYPE"),
        (eg.Postgres("t", key="a", url=URL), "array(card) AS a, _source", "KEY_TYPE"),
        (eg.Postgres("t", key="card"), "card, _source", "URL_MISSING"),
        (
            eg.Postgres("t", key="card", url=URL),
            "card, interval 1 day AS i, _source",
            "COLUMN_TYPE",
        ),
    ],
)
def test_rows_that_cannot_be_written_are_refused_before_the_start(
    check_setup, monkeypatch, sink, columns, code
):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    rows = eg.Kafka("corpus", schema=PAYMENTS).read(check_setup.spark, check_setup.brokers)
    with pytest.raises(SettingsError) as wrong:
        eg.write_stream(rows.selectExpr(*columns.split(", ")), sink)
    assert wrong.value.code == code
    assert wrong.value.hint


def test_keys_of_several_columns(run_pipeline, postgres, redis, request):
    name = named(request)
    key = ("card", "n")
    in_redis = eg.Redis(
        f"{name}:{{n}}:{{card}}",
        key=key,
        url=redis.url,
        credentials=redis.credentials("default"),
    )
    for sink in (PostgresTable(postgres).sink(name, key), in_redis):

        @eg.pipeline(source=eg.Kafka(f"{name}-in", schema=PAYMENTS), sink=sink)
        def pairs(df):
            return df.select("card", "n", "amount", "_source")

        rows = [{"card": f"c{n % 2}", "n": n % 3, "amount": float(n)} for n in range(12)]
        run_pipeline(pairs, rows, mode="micro-batch")
    assert len(postgres.rows(f'SELECT DISTINCT card, n FROM "{name}"')) == 6
    assert {k: float(row["amount"]) for k, row in redis.hashes(name).items()} == {
        f"{name}:{n % 3}:c{n % 2}": float(n) for n in range(6, 12)
    }
