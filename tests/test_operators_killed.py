"""Every operator after kill -9: the results equal those of an uninterrupted stream."""

import json
import os
import signal
import subprocess
import sys

import pytest
from pyspark.sql import functions as F

import eagre as eg
from eagre.waiting import wait_until
from streams import SCHEMA, absolute_ms, deduplicated, payments, rolled
from test_operators import (
    bounds,
    keyed,
    ranks,
    renamed,
    seed,  # noqa: F401  (a fixture)
    source,
    table,
    version,
    window_of,
)
from test_operators_live import sum_of

OTHERS = "other INT, card STRING, price INT, shop STRING, when TIMESTAMP"
APP = f"""
import sys, threading
import eagre as eg

rows = eg.Kafka("op-kill-in", schema={SCHEMA!r})
others = eg.Kafka("op-kill-others", schema={OTHERS!r})

def made(name, transform, source=rows):
    sink = eg.Kafka("op-kill-" + name)
    return eg.pipeline(source=source, sink=sink, name=name)(transform)

def pair(transform):
    return {{"transform": transform, "source": [rows, others]}}

late = {{"grace": "1 hour", "event_time": "at"}}
both = {{"event_time": ("at", "when")}}
wanted = ["count", "sum(amount) as total"]
PIPELINES = [
    made("deduplicate", lambda df: eg.deduplicate(df, "id", "1 hour", event_time="at")),
    made("rolling", lambda df: eg.rolling(df, "card", {{"1 minute": wanted}}, **late)),
    made("session_windows", lambda df: eg.session_windows(df, "card", "20 s", wanted, **late)),
    made("windows", lambda df: eg.windows(
        df, "card", "30 s", ["count", "min(amount) as least"], **late)),
    made("top_n", lambda df: eg.top_n(
        df.where("country is not null"), "country", "sum(amount - 20)", 3, "1 minute",
        item="card", **late)),
    made("interval_join", **pair(lambda a, b: eg.interval_join(
        a, b, "card", ("2 s", "10 s"), grace="1 day", **both))),
    made("lookup", **pair(lambda a, b: eg.lookup(
        a, b, "card", as_of="event-time", deleted="shop = 'US'", history="1 day", **both))),
]

if __name__ == "__main__":
    brokers, folder = sys.argv[1:]
    spark = eg.session("killed", "local[24]", **{{"spark.sql.shuffle.partitions": "2"}})
    for one in PIPELINES:
        topics = [topic for source in one.sources for topic in source.topics]
        one.start(spark, checkpoint=folder + "/" + one.name, brokers=brokers, every="5 s",
            start={{topic: {{"0": 0}} for topic in topics}})
    spark.streams.awaitAnyTermination()
"""
KINDS = (
    *("deduplicate", "rolling", "session_windows", "windows"),
    *("top_n", "interval_join", "lookup"),
)


@pytest.mark.e2e
def test_results_are_the_same_after_a_kill(cli, eagre_broker, eagre_harness, tmp_path, seed):  # noqa: F811
    rows = payments(seed, 300, grace=20)
    others = [renamed(row) for row in payments(seed + 1, 300, grace=20)]
    app = cli.app(APP)
    outputs = {kind: f"op-kill-{kind}" for kind in KINDS}
    for topic in ("op-kill-in", "op-kill-others", *outputs.values()):
        eagre_harness.topics.create(topic, 1)

    @eg.pipeline(source=source("op-kill-in"), sink=eg.Kafka("op-kill-out"))
    def same(df):
        return df

    def send(topic, some):
        eagre_harness.write(same, {topic: keyed(some)})

    def start():
        command = [sys.executable, str(app), eagre_broker.address, str(tmp_path)]
        with (tmp_path / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def results(kind):
        records = eagre_harness.records(outputs[kind], {0: 0})
        return [json.loads(record.value()) for record in records]

    def commits(kind):
        folder = tmp_path / kind / "commits"
        return [p.name for p in folder.glob("[0-9]*")] if folder.exists() else []

    def await_all(condition, seconds, what):
        for kind in KINDS:
            wait_until(
                lambda kind=kind: process.poll() is not None or condition(kind),
                seconds,
                f"{kind}: {what}",
            )
        assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]

    send("op-kill-others", others)
    process = start()
    try:
        await_all(commits, 120, "no epoch ended")
        send("op-kill-in", rows[:100])
        await_all(results, 60, "no results were written")
        known = {kind: len(commits(kind)) for kind in KINDS}
        await_all(lambda kind: len(commits(kind)) > known[kind], 60, "no epoch ended with rows")
        seen = {kind: len(results(kind)) for kind in KINDS}
        send("op-kill-in", rows[100:200])
        await_all(
            lambda kind: len(results(kind)) > seen[kind], 60, "no further results were written"
        )
    finally:
        _kill(process)
    send("op-kill-in", rows[200:])
    process = start()
    try:
        expected = expectations(eagre_harness.spark, rows, others)
        await_all(lambda kind: LATEST[kind](results(kind)) == expected[kind], 120, "not the same")
    finally:
        _kill(process)


def _kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def expectations(spark, rows, others):
    """Return the results of the uninterrupted stream, by plain Python and by Spark in batch."""
    a, b = table(spark, rows), table(spark, others, OTHERS)
    near = (
        (a.card == b.card)
        & (b.when >= a["at"] - F.expr("interval 2 seconds"))
        & (b.when <= a["at"] + F.expr("interval 10 seconds"))
    )
    sessions = a.groupBy("card", F.session_window("at", "20 seconds").alias("w"))
    windows = a.groupBy("card", F.window("at", "30 seconds").alias("w"))
    return {
        "deduplicate": {row["id"] for row in deduplicated(rows, "id", 3_600_000)[0]},
        "rolling": {
            (row["id"], len(window), sum_of(window))
            for row, window in rolled(rows, "card", 60_000, 60, 3_600_000)
        },
        "session_windows": _batch(sessions.agg(F.count("*"), F.sum("amount"))),
        "windows": _batch(windows.agg(F.count("*"), F.min("amount"))),
        "top_n": set(ranks([r for r in rows if r["country"]], "sum(amount - 20)").items()),
        "interval_join": {tuple(row) for row in a.join(b, near).select(a.id, b.other).collect()},
        "lookup": {(row["id"], version(others, row, "event-time")) for row in rows},
    }


def _batch(made):
    return {tuple(row) for row in made.select("card", *bounds("w"), *made.columns[2:]).collect()}


def _alive(results):
    last = {(row["card"], row["session"]["start"]): row for row in results}
    return {
        (
            row["card"],
            *(absolute_ms(row["session"][end]) for end in ("start", "end")),
            row["count"],
            row.get("total"),
        )
        for row in last.values()
        if row["status"] != "merged"
    }


def _boards(results):
    return {
        (row["country"], absolute_ms(row["window"]["start"]), row["rank"]): (
            row["card"],
            row["score"],
        )
        for row in results
    }


def _windows(results):
    return {(row["card"], row["window"]["start"]): row for row in results}.values()


LATEST = {
    "deduplicate": lambda rows: {row["id"] for row in rows},
    "rolling": lambda rows: {(r["id"], r["count_1_minute"], r.get("total")) for r in rows},
    "session_windows": _alive,
    "windows": lambda rows: {window_of(row) for row in _windows(rows)},
    "top_n": lambda rows: set(_boards(rows).items()),
    "interval_join": lambda rows: {(row["id"], row["other"]) for row in rows},
    "lookup": lambda rows: {(row["id"], row.get("other")) for row in rows},
}
"""The latest result of each row or window, without duplicates."""
