"""Operators against plain oracles, in both modes, on streams with disorder and repeats."""

import os
import random
import sys

import pytest
from pyspark.sql import functions as F

import eagre as eg
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.testing.harness import Record
from streams import SCHEMA, absolute_ms, deduplicated, payments, rolled


@pytest.fixture
def seed():
    chosen = int(os.environ.get("EAGRE_SEED") or random.randrange(1 << 32))
    sys.stdout.write(f"EAGRE_SEED={chosen}\n")
    return chosen


def keyed(rows, key="card"):
    """Rows as records of their key: its order is kept over several partitions."""
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
    found = run_in_both_modes(dedup, keyed(rows))
    assert [r["id"] for r in found if r["topic_of_row"] != "op-dedup-in"] == []
    found = [{"country": None, **row} for row in found]
    assert ids(by(found, "card", "country")) == ids(by(expected, "card", "country"))
    assert late(eagre_spark, "dedup") - before == len(too_late)


def test_rolling(run_in_both_modes, seed):
    @eg.pipeline(source=source("op-roll-in"), sink=eg.Kafka("op-roll-out"))
    def roll(df):
        minute = ["count", "sum(amount)", "min(amount)", "max(amount) as largest"]
        hour = ["avg(amount)", "distinct(country)", "sum(amount / 2) as half", "count(country)"]
        windows = {"1 minute": minute, "1 hour": hour}
        return eg.rolling(df, "card", windows, grace="10 seconds", event_time="at")

    rows = payments(seed, 300, grace=20)
    found = run_in_both_modes(roll, keyed(rows))
    minutes = rolled(rows, "card", 60_000, 60, 10_000)
    hours = rolled(rows, "card", 3_600_000, 60, 10_000)
    expected = [features(row, m, h) for (row, m), (_, h) in zip(minutes, hours, strict=True)]
    assert any(row["count_1_minute"] is None for row in expected)
    found = [{**row, "at": absolute_ms(row["at"])} for row in found]
    names = expected[0].keys()
    found = [{name: row.get(name) for name in names} for row in found]
    assert by(found, "card") == by(expected, "card")


NAMES = [
    *("count_1_minute", "sum_amount_1_minute", "min_amount_1_minute", "largest"),
    *("avg_amount_1_hour", "distinct_country_1_hour", "half", "count_country_1_hour"),
]


def features(row, minute, hour):
    """What a row must come with."""
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


def test_distinct_counts_are_bounded_and_near(run_pipeline):
    @eg.pipeline(source=source("op-many-in"), sink=eg.Kafka("op-many-out"))
    def many(df):
        windows = {"1 hour": ["distinct(id) as n"]}
        return eg.rolling(df, "card", windows, event_time="at").select("id", "n")

    at = "2026-01-01T00:00:00Z"
    rows = [{"id": n, "card": "c", "at": at} for n in range(2000)]
    counts = {row["id"] + 1: row["n"] for row in run_pipeline(many, keyed(rows))}
    assert all(counts[n] == n for n in range(1, 256))
    assert counts[2000] == pytest.approx(2000, rel=0.25)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda df: eg.deduplicate(df, "nothing", "1 s"), "COLUMN_UNKNOWN"),
        (lambda df: eg.deduplicate(df, [], "1 s"), "COLUMN_UNKNOWN"),
        (lambda df: eg.deduplicate(df, "card", "0 s", event_time="at"), "INTERVAL_EMPTY"),
        (lambda df: eg.deduplicate(df, "card", "1 s", event_time="id"), "EVENT_TIME_TYPE"),
        (lambda df: eg.deduplicate(df, "card", "1 s", event_time="no"), "COLUMN_UNKNOWN"),
        (lambda df: eg.deduplicate(df, "card", "1 s"), "EVENT_TIME_MISSING"),
        (lambda df: eg.rolling(df, "card", {}, event_time="at"), "AGGREGATE_MISSING"),
        (lambda df: roll_of(df, "median(amount)"), "AGGREGATE_MALFORMED"),
        (lambda df: roll_of(df, "sum"), "AGGREGATE_MALFORMED"),
        (lambda df: roll_of(df, "sum(nothing)"), "AGGREGATE_ARGUMENT"),
        (lambda df: roll_of(df, "sum(card)"), "AGGREGATE_ARGUMENT"),
        (lambda df: roll_of(df, "count as amount"), "RESULT_NAMED_TWICE"),
        (lambda df: roll_of(df, "count", slices=7), "SLICES"),
    ],
)
def test_what_cannot_be_an_operator(eagre_spark, make, code):
    df = eagre_spark.createDataFrame([], SCHEMA)
    with pytest.raises(SettingsError, match=code):
        make(df)


def roll_of(df, *aggregates, **options):
    return eg.rolling(df, "card", {"1 minute": aggregates}, event_time="at", **options)
