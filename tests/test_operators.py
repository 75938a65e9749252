"""Operators compared with plain oracles, in both modes, on streams with disorder and duplicates."""

import json
import os
import random
import sys

import pytest
from pyspark.sql import functions as F

import eagre as eg
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.testing.harness import Record
from streams import SCHEMA, absolute_ms, deduplicated, ms, payments, rolled, sessions_on_time
from test_python_failures import dead_letters

VARIANT = pytest.mark.e2e
"""Another variant of an operator whose main variant runs in ``make test``."""


@pytest.fixture
def seed():
    chosen = int(os.environ.get("EAGRE_SEED") or random.randrange(1 << 32))
    sys.stdout.write(f"EAGRE_SEED={chosen}\n")
    return chosen


def keyed(rows, key="card"):
    """Return rows as records with their key, so that a key's rows stay in order."""
    return [Record(row, key=row[key]) for row in rows]


def source(topic):
    return eg.Kafka(topic, schema=SCHEMA, partitions=2)


def by(rows, *columns):
    grouped = {}
    for row in rows:
        grouped.setdefault(tuple(row[c] for c in columns), []).append(row)
    return grouped


def ids(grouped):
    return {key: [row["id"] for row in rows] for key, rows in grouped.items()}


def late(spark, pipeline):
    return gateway.row_counts(spark).get(f"{pipeline}/late", 0)


def test_deduplicate(run_in_both_modes, eagre_spark, seed):
    @eg.pipeline(source=source("op-dedup-in"), sink=eg.Kafka("op-dedup-out"))
    def dedup(df):
        once = eg.deduplicate(df, ["card", "country"], "30 seconds", event_time="at")
        return once.select("id", "card", "country", F.col("_source.topic").alias("topic_of_row"))

    rows = payments(seed, 400, keys=4, grace=60)
    for row in rows:
        row["pair"] = (row["card"], row["country"])
    expected, too_late = deduplicated(rows, "pair", 30_000)
    assert len(expected) < len(rows)
    assert too_late
    before = late(eagre_spark, "dedup")
    results = run_in_both_modes(dedup, keyed(rows))
    assert [r["id"] for r in results if r["topic_of_row"] != "op-dedup-in"] == []
    results = [{"country": None, **row} for row in results]
    assert ids(by(results, "card", "country")) == ids(by(expected, "card", "country"))
    assert late(eagre_spark, "dedup") - before == len(too_late)


def test_rolling(run_in_both_modes, seed):
    @eg.pipeline(source=source("op-roll-in"), sink=eg.Kafka("op-roll-out"))
    def roll(df):
        minute = ["count", "sum(amount)", "min(amount)", "max(amount) as largest"]
        hour = ["avg(amount)", "distinct(country)", "sum(amount / 2) as half", "count(country)"]
        windows = {"1 minute": minute, "1 hour": hour}
        return eg.rolling(df, "card", windows, grace="10 seconds", event_time="at")

    rows = payments(seed, 300, grace=20)
    results = run_in_both_modes(roll, keyed(rows))
    minutes = rolled(rows, "card", 60_000, 60, 10_000)
    hours = rolled(rows, "card", 3_600_000, 60, 10_000)
    expected = [features(row, m, h) for (row, m), (_, h) in zip(minutes, hours, strict=True)]
    assert any(row["count_1_minute"] is None for row in expected)
    results = [{**row, "at": absolute_ms(row["at"])} for row in results]
    names = expected[0].keys()
    results = [{name: row.get(name) for name in names} for row in results]
    assert by(results, "card") == by(expected, "card")


NAMES = [
    *("count_1_minute", "sum_amount_1_minute", "min_amount_1_minute", "largest"),
    *("avg_amount_1_hour", "distinct_country_1_hour", "half", "count_country_1_hour"),
]


def features(row, minute, hour):
    """Return the expected result of a row."""
    values = dict.fromkeys(NAMES)
    if minute is not None:
        amounts = [r["amount"] for r in minute if r["amount"] is not None]
        longer = [r["amount"] for r in hour if r["amount"] is not None]
        countries = [r["country"] for r in hour if r["country"] is not None]
        values = {
            "count_1_minute": len(minute),
            "sum_amount_1_minute": sum(amounts) if amounts else None,
            "min_amount_1_minute": min(amounts, default=None),
            "largest": max(amounts, default=None),
            "avg_amount_1_hour": sum(longer) / len(longer) if longer else None,
            "distinct_country_1_hour": len(set(countries)),
            "half": sum(a / 2 for a in longer) if longer else None,
            "count_country_1_hour": len(countries),
        }
    return {**row, **values, "at": absolute_ms(row["at"])}


def test_distinct_counts_are_bounded_and_approximate(run_pipeline):
    @eg.pipeline(source=source("op-many-in"), sink=eg.Kafka("op-many-out"))
    def many(df):
        windows = {"1 hour": ["distinct(id) as n"]}
        return eg.rolling(df, "card", windows, event_time="at").select("id", "n")

    at = "2026-01-01T00:00:00Z"
    rows = [{"id": n, "card": "c", "at": at} for n in range(2000)]
    counts = {row["id"] + 1: row["n"] for row in run_pipeline(many, keyed(rows))}
    assert all(counts[n] == n for n in range(1, 256))
    assert counts[2000] == pytest.approx(2000, rel=0.25)


def test_session_windows(run_in_both_modes, eagre_spark, seed):
    @eg.pipeline(source=source("op-session-in"), sink=eg.Kafka("op-session-out"))
    def session(df):
        aggregates = ["count", "sum(amount) as total", "max(amount) as largest"]
        return eg.session_windows(
            df, "card", "20 seconds", aggregates, grace="30 seconds", event_time="at"
        )

    rows = payments(seed, 300, grace=20)
    timely, too_late = sessions_on_time(rows, "card", 20_000, 30_000)
    assert not too_late
    results = run_in_both_modes(session, keyed(rows))
    assert {row["status"] for row in results} >= {"open", "final"}
    final = {}
    for row in results:
        final[row["card"], row["session"]["start"]] = row
    alive = [row for row in final.values() if row["status"] != "merged"]
    batch = (
        table(eagre_spark, timely)
        .groupBy("card", F.session_window("at", "20 seconds").alias("session"))
        .agg(F.count("*"), F.sum("amount"), F.max("amount"))
        .select("card", *bounds("session"), "count(1)", "sum(amount)", "max(amount)")
    )
    assert sorted(map(session_of, alive), key=str) == sorted(map(tuple, batch.collect()), key=str)


def session_of(row):
    window = row["session"]
    values = (row["count"], row.get("total"), row.get("largest"))
    return (row["card"], absolute_ms(window["start"]), absolute_ms(window["end"]), *values)


def test_late_rows_of_sessions_are_counted(run_in_both_modes, eagre_spark, seed):
    @eg.pipeline(source=source("op-tardy-in"), sink=eg.Kafka("op-tardy-out"))
    def tardy(df):
        return eg.session_windows(
            df, "card", "5 seconds", ["count"], emit="final", grace="1 second", event_time="at"
        )

    rows = payments(seed, 300, grace=60)
    timely, too_late = sessions_on_time(rows, "card", 5_000, 1_000)
    assert too_late
    before = late(eagre_spark, "tardy")
    results = run_in_both_modes(tardy, keyed(rows))
    assert late(eagre_spark, "tardy") - before == len(too_late)
    assert {row["status"] for row in results} == {"final"}
    assert sum(row["count"] for row in results) <= len(timely)


@pytest.mark.parametrize("slide", [pytest.param(None, marks=VARIANT), "10 seconds"])
def test_windows(run_in_both_modes, eagre_spark, seed, slide):
    name = f"op-windows-{slide}".replace(" ", "")

    def windows(emit):
        @eg.pipeline(source=source(f"{name}-{emit}-in"), sink=eg.Kafka(f"{name}-{emit}-out"))
        def pipeline(df):
            aggregates = ["count", "min(amount) as least"]
            options = {"emit": emit, "slide": slide, "grace": "20 seconds", "event_time": "at"}
            return eg.windows(df, "card", "30 seconds", aggregates, **options)

        return pipeline

    rows = payments(seed, 250, grace=20)
    batch = (
        table(eagre_spark, rows)
        .groupBy("card", F.window("at", "30 seconds", slide).alias("window"))
        .agg(F.count("*"), F.min("amount"))
        .select("card", *bounds("window"), "count(1)", "min(amount)")
    )
    expected = {tuple(row) for row in batch.collect()}
    updates = run_in_both_modes(windows("update"), keyed(rows))
    last = {(row["card"], row["window"]["start"]): row for row in updates}
    assert {window_of(row) for row in last.values()} == expected
    final = [window_of(row) for row in run_in_both_modes(windows("final"), keyed(rows))]
    assert len(final) == len(set(final))
    newest = {}
    for row in rows:
        newest[row["card"]] = max(newest.get(row["card"], 0), absolute_ms(row["at"]))
    assert set(final) == {row for row in expected if row[2] <= newest[row[0]] - 20_000}


def window_of(row):
    window = row["window"]
    start, end = absolute_ms(window["start"]), absolute_ms(window["end"])
    return row["card"], start, end, row["count"], row.get("least")


@pytest.mark.parametrize("score", ["sum(amount - 20)", pytest.param("min(amount)", marks=VARIANT)])
def test_top_n(run_in_both_modes, seed, score):
    name = f"op-top-{score.partition('(')[0]}"

    @eg.pipeline(source=source(f"{name}-in"), sink=eg.Kafka(f"{name}-out"))
    def board(df):
        return eg.top_n(
            df, "country", score, 3, "1 minute", item="card", grace="20 seconds", event_time="at"
        )

    rows = [row for row in payments(seed, 300, keys=8, grace=20) if row["country"]]
    results = run_in_both_modes(board, keyed(rows, "country"))
    boards = {}
    for row in results:
        place = (row["country"], absolute_ms(row["window"]["start"]), row["rank"])
        assert boards.get(place) != (row["card"], row["score"]), "not a change"
        boards[place] = row["card"], row["score"]
    assert boards == ranks(rows, score)


def ranks(rows, score):
    """Return the expected leaderboards of each country and minute."""
    scores = {}
    for row in rows:
        group = scores.setdefault((row["country"], absolute_ms(row["at"]) // 60_000 * 60_000), {})
        group.setdefault(row["card"], []).append(row["amount"])
    boards = {}
    for group, items in scores.items():
        totals = []
        for item, amounts in items.items():
            known = [a for a in amounts if a is not None]
            if score == "count":
                totals.append((-len(amounts), item, len(amounts)))
            elif known and score.startswith("sum"):
                totals.append((-sum(a - 20 for a in known), item, sum(a - 20 for a in known)))
            elif known:
                best = max(known) if score.startswith("max") else min(known)
                totals.append((-best if score.startswith("max") else best, item, best))
        for rank, (_, item, total) in enumerate(sorted(totals)[:3], 1):
            boards[(*group, rank)] = item, total
    return boards


@pytest.mark.parametrize("mode", ["micro-batch", "real-time"])
@pytest.mark.parametrize(
    "how", [pytest.param("inner", marks=VARIANT), pytest.param("left", marks=VARIANT), "full"]
)
def test_interval_join(run_pipeline, eagre_spark, tmp_path, seed, how, mode):
    name = f"op-join-{how}-{mode}"
    right = "other INT, card STRING, price INT, shop STRING, when TIMESTAMP"

    @eg.pipeline(
        source=[source(f"{name}-left"), eg.Kafka(f"{name}-right", schema=right, partitions=2)],
        sink=eg.Kafka(f"{name}-out"),
    )
    def join(left, right):
        within, times = ("2 seconds", "10 seconds"), ("at", "when")
        joined = eg.interval_join(left, right, "card", within, how, grace="1 day", event_time=times)
        return joined.select("id", "other", "card", F.col("_source.topic").alias("by"))

    lefts = payments(seed, 120, grace=20)
    rights = [renamed(row) for row in payments(seed + 1, 120, keys=6, grace=20)]
    left, other = f"{name}-left", f"{name}-right"
    both = {left: keyed(lefts), other: keyed(rights)}
    results = run_pipeline(join, both, mode=mode, checkpoint=tmp_path)
    assert {row["by"] for row in results} <= {left, other}
    if how != "inner":
        later = {"at": "2026-06-01T00:00:00Z"}
        last = [{"id": -1, "card": f"c{k}", **later} for k in range(6)]
        results += run_pipeline(join, {left: keyed(last)}, mode=mode, checkpoint=tmp_path)
    a, b = table(eagre_spark, lefts), table(eagre_spark, rights, right)
    near = (
        (a.card == b.card)
        & (b.when >= a["at"] - F.expr("interval 2 seconds"))
        & (b.when <= a["at"] + F.expr("interval 10 seconds"))
    )
    expected = a.join(b, near, how).select(a.id, b.other).collect()
    results = [(row.get("id"), row.get("other")) for row in results]
    assert len(expected) > 20
    assert sorted(results, key=str) == sorted(map(tuple, expected), key=str)


@pytest.mark.parametrize(
    ("within", "seconds"), [(("-5 s", "10 s"), (5, 10)), (("10 s", "-5 s"), (-10, -5))]
)
def test_both_bounds_of_a_join_can_have_one_sign(run_in_both_modes, within, seconds):
    """As in Flink's tests of two positive and two negative bounds."""
    name = f"op-signed-{within[0][0]}".replace("-", "n")
    right = eg.Kafka(f"{name}-right", schema="other INT, card STRING, when TIMESTAMP")

    @eg.pipeline(source=[source(f"{name}-left"), right], sink=eg.Kafka(f"{name}-out"))
    def signed(left, right):
        times = {"grace": "1 day", "event_time": ("at", "when")}
        return eg.interval_join(left, right, "card", within, **times).select("id", "other")

    at = "2026-01-01T00:00:{:02}Z".format
    lefts = [{"id": n, "card": "c", "at": at(n)} for n in range(0, 40, 7)]
    rights = [{"other": n, "card": "c", "when": at(n)} for n in range(0, 40, 3)]
    both = {f"{name}-left": keyed(lefts), f"{name}-right": keyed(rights)}
    results = run_in_both_modes(signed, both)
    expected = {
        (row["id"], other["other"])
        for row in lefts
        for other in rights
        if seconds[0] <= other["other"] - row["id"] <= seconds[1]
    }
    assert len(expected) > 5
    assert {(row["id"], row["other"]) for row in results} == expected
    assert len(results) == len(expected)


@pytest.mark.parametrize("wrap", [lambda key: key, F.struct])
def test_keys_of_equal_numbers_are_equal(run_in_both_modes, wrap):
    """As in ``groupBy``. A batch would put zero and minus zero together, and real time apart."""
    name = f"op-zero-{wrap.__name__.strip('<>')}"

    @eg.pipeline(source=source(f"{name}-in"), sink=eg.Kafka(f"{name}-out"))
    def zero(df):
        number = F.when(df.id < 2, F.lit(0.0)).otherwise(F.lit(float("nan")))
        key = wrap(F.when(df.id == 1, -number).otherwise(number)).alias("number")
        once = eg.deduplicate(df.select("*", key), "number", "1 minute", event_time="at")
        return once.select("id")

    rows = [{"id": n, "card": "c", "at": f"2026-01-01T00:00:0{n}Z"} for n in range(4)]
    assert [row["id"] for row in run_in_both_modes(zero, keyed(rows))] == [0, 2]


def test_a_key_of_null_has_no_partner(run_in_both_modes):
    """As in SQL, and in Flink and Kafka Streams."""
    right = eg.Kafka("op-null-right", schema="other INT, card STRING, when TIMESTAMP")

    @eg.pipeline(source=[source("op-null-left"), right], sink=eg.Kafka("op-null-out"))
    def null(left, right):
        times = {"grace": "1 day", "event_time": ("at", "when")}
        joined = eg.interval_join(left, right, "card", "1 minute", "full", **times)
        return joined.select("id", "other", "card")

    at = "2026-01-01T00:00:00Z"
    both = {
        "op-null-left": [{"id": 1, "card": None, "at": at}],
        "op-null-right": [{"other": 2, "card": None, "when": at}],
    }
    results = [(row.get("id"), row.get("other")) for row in run_in_both_modes(null, both)]
    assert sorted(results, key=str) == [(1, None), (None, 2)]


@pytest.mark.parametrize("mode", ["micro-batch", "real-time"])
@pytest.mark.parametrize("as_of", [pytest.param("now", marks=VARIANT), "event-time"])
def test_lookup(run_pipeline, tmp_path, seed, as_of, mode):
    name = f"op-look-{as_of}-{mode}"
    prices = "other INT, card STRING, price INT, shop STRING, when TIMESTAMP"

    @eg.pipeline(
        source=[source(f"{name}-in"), eg.Kafka(f"{name}-table", schema=prices, partitions=2)],
        sink=eg.Kafka(f"{name}-out"),
    )
    def look(df, table):
        options = {"history": "1 day", "event_time": ("at", "when")}
        joined = eg.lookup(df, table, "card", as_of=as_of, deleted="shop = 'US'", **options)
        return joined.select("id", "card", "other", F.col("_source.topic").alias("topic_of_row"))

    changes = [renamed(row) for row in payments(seed, 150, keys=16, grace=20)]
    rows = payments(seed + 1, 150, keys=20, grace=20)
    run_pipeline(look, {f"{name}-table": keyed(changes)}, mode=mode, checkpoint=tmp_path)
    results = run_pipeline(look, keyed(rows), mode=mode, checkpoint=tmp_path)
    assert {row["topic_of_row"] for row in results} == {f"{name}-in"}
    expected = [(row["id"], version(changes, row, as_of)) for row in rows]
    assert len({other for _, other in expected}) > 3
    results = [(row["id"], row.get("other")) for row in results]
    assert sorted(results, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("mode", ["micro-batch", "real-time"])
def test_an_older_version_does_not_undo_a_deletion(run_pipeline, tmp_path, mode):
    name = f"op-undo-{mode}"
    prices = eg.Kafka(f"{name}-table", schema="card STRING, price INT, when TIMESTAMP")

    @eg.pipeline(source=[source(f"{name}-in"), prices], sink=eg.Kafka(f"{name}-out"))
    def look(df, table):
        times = {"history": "1 day", "event_time": ("at", "when")}
        joined = eg.lookup(df, table, "card", as_of="event-time", deleted="price = 0", **times)
        return joined.select("id", "price")

    at = "2026-01-01T00:00:{}Z".format
    deleted, older, newer = (
        {"card": "c", "price": price, "when": at(second)}
        for price, second in ((0, 30), (7, 20), (9, 40))
    )
    rows = [{"id": second, "card": "c", "at": at(second)} for second in (25, 35, 45)]
    for changes in ([deleted], [older, newer]):
        table = {f"{name}-table": keyed(changes)}
        assert run_pipeline(look, table, mode=mode, checkpoint=tmp_path) == []
    results = run_pipeline(look, keyed(rows), mode=mode, checkpoint=tmp_path)
    assert {row["id"]: row.get("price") for row in results} == {25: 7, 35: None, 45: 9}


def test_a_row_far_ahead_goes_to_the_dead_letters(run_in_both_modes, eagre_harness):
    @eg.pipeline(source=source("op-ahead-in"), sink=eg.Kafka("op-ahead-out"), name="op-ahead")
    def ahead(df):
        made = eg.windows(df, "card", "10 seconds", ["count"], grace="1 second", event_time="at")
        return made.select("card", "count")

    def row(number, at):
        return {"id": number, "card": "c", "at": at}

    first = [row(n, f"2026-01-01T00:00:0{n}Z") for n in (1, 2)]
    later = [row(n, f"2026-01-01T00:00:0{n}Z") for n in (4, 5)]
    rows = [*first, row(3, "2226-01-01T00:00:03Z"), *later]
    counts = [result["count"] for result in run_in_both_modes(ahead, keyed(rows))]
    assert counts == [1, 2, 3, 4]
    letters = dead_letters(eagre_harness, "op-ahead")
    assert letters
    for letter in letters:
        assert letter["eagre-source"].startswith("op-ahead-in/")
        assert letter["eagre-reason"].startswith(
            "EVENT_TIME_AHEAD: windows: the event time 2226-01-01T00:00:03Z is more than PT24H"
        )


def version(changes, row, as_of):
    """Return the expected version of the table for a row."""
    best, valid = None, None
    for change in changes:
        when = ms(change["when"])
        if change["card"] != row["card"] or (as_of == "event-time" and when > ms(row["at"])):
            continue
        if as_of == "now" or best is None or when >= best:
            best, valid = when, None if change["shop"] == "US" else change["other"]
    return valid


def renamed(row):
    return {
        "other": row["id"],
        "card": row["card"],
        "price": row["amount"],
        "shop": row["country"],
        "when": row["at"],
    }


def table(spark, rows, schema=SCHEMA):
    """Return the rows as a batch DataFrame."""
    lines = spark.createDataFrame([(json.dumps(row),) for row in rows], "value STRING")
    return lines.select(F.from_json("value", schema).alias("row")).select("row.*")


def bounds(window):
    return [F.unix_millis(f"{window}.start"), F.unix_millis(f"{window}.end")]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda df: eg.deduplicate(df, "nothing", "1 s"), "COLUMN_UNKNOWN"),
        (lambda df: eg.deduplicate(df, [], "1 s"), "COLUMN_UNKNOWN"),
        (
            lambda df: eg.deduplicate(df.select(F.array("id").alias("ids")), "ids", "1 s"),
            "KEY_ARRAY",
        ),
        (lambda df: eg.deduplicate(df, "card", "0 s", event_time="at"), "INTERVAL_EMPTY"),
        (lambda df: eg.deduplicate(df, "card", "1 s", event_time="id"), "EVENT_TIME_TYPE"),
        (lambda df: eg.deduplicate(df, "card", "1 s", event_time="no"), "COLUMN_UNKNOWN"),
        (lambda df: eg.deduplicate(df, "card", "1 s"), "EVENT_TIME_MISSING"),
        (lambda df: eg.rolling(df, "card", {}, event_time="at"), "AGGREGATE_MISSING"),
        (lambda df: eg.windows(df, "card", "1 s", "count", event_time="at"), "AGGREGATE_MISSING"),
        (lambda df: windows_of(df, emit="soon"), "EMIT_UNKNOWN"),
        (lambda df: windows_of(df, slide="2 minutes"), "SLIDE_TOO_LONG"),
        (lambda df: windows_of(df, "count as window"), "RESULT_NAMED_TWICE"),
        (
            lambda df: top_of(df.withColumnRenamed("country", "rank"), by="rank"),
            "RESULT_NAMED_TWICE",
        ),
        (lambda df: top_of(df, "avg(amount)"), "SCORE_UNKNOWN"),
        (lambda df: top_of(df, item="country"), "COLUMN_UNKNOWN"),
        (lambda df: top_of(df, item="at"), "ITEM_TYPE"),
        (lambda df: top_of(df, n=0), "RANKS"),
        (lambda df: eg.interval_join(df, df, "card", "1 s", "outer"), "HOW_UNKNOWN"),
        (lambda df: eg.interval_join(df, df, "card", "1 s"), "COLUMN_IN_BOTH"),
        (lambda df: join_of(df, ("-5 s", "4 s")), "INTERVAL_EMPTY"),
        (lambda df: join_of(df, "-5 s"), "INTERVAL_EMPTY"),
        (lambda df: join_of(df, ("--5 s", "9 s")), "INTERVAL_MALFORMED"),
        (lambda df: eg.interval_join(df, other_key(df), "card", "1 s"), "KEY_TYPES"),
        (lambda df: eg.lookup(df, df, "card", as_of="then"), "LOOKUP_KIND"),
        (lambda df: eg.lookup(df, df, "card"), "COLUMN_IN_BOTH"),
        (lambda df: roll_of(df, "median(amount)"), "AGGREGATE_MALFORMED"),
        (lambda df: roll_of(df, "sum"), "AGGREGATE_MALFORMED"),
        (lambda df: roll_of(df, "sum(nothing)"), "AGGREGATE_ARGUMENT"),
        (lambda df: roll_of(df, "sum(card)"), "AGGREGATE_ARGUMENT"),
        (lambda df: roll_of(df, "count as amount"), "RESULT_NAMED_TWICE"),
        (lambda df: roll_of(df, "count", slices=7), "SLICES"),
    ],
)
def test_invalid_operators_are_refused(eagre_spark, make, code):
    df = eagre_spark.createDataFrame([], SCHEMA)
    with pytest.raises(SettingsError, match=code):
        make(df)


OVER = {
    "deduplicate": lambda df: eg.deduplicate(df, "card", "1 s", event_time="at"),
    "rolling": lambda df: roll_of(df, "count"),
    "windows": lambda df: windows_of(df, emit="final"),
    "session_windows": lambda df: eg.session_windows(df, "card", "1 s", ["count"], event_time="at"),
    "top_n": lambda df: top_of(df, n=3),
    "interval_join": lambda df: join_of(df, "1 s"),
    "lookup": lambda df: eg.lookup(df, df.select("card", F.col("id").alias("other")), "card"),
}


@pytest.mark.parametrize("operator", OVER)
def test_operators_refuse_static_rows(eagre_spark, operator):
    df = eagre_spark.createDataFrame([], SCHEMA)
    with pytest.raises(SettingsError, match=f"ROWS_STATIC: {operator} needs a stream"):
        OVER[operator](df)


def roll_of(df, *aggregates, **options):
    return eg.rolling(df, "card", {"1 minute": aggregates}, event_time="at", **options)


def windows_of(df, *aggregates, **options):
    return eg.windows(df, "card", "1 minute", aggregates or ["count"], event_time="at", **options)


def top_of(df, score="count", n=3, item="card", by="country"):
    return eg.top_n(df, by, score, n, "1 minute", item=item, event_time="at")


def other_key(df):
    return df.select(F.lit(1).alias("card"), F.col("at").alias("when"))


def join_of(df, within):
    right = df.select("card", F.col("at").alias("when"))
    return eg.interval_join(df, right, "card", within, event_time=("at", "when"))


def ranked(df):
    return df.withColumnRenamed("country", "rank")
