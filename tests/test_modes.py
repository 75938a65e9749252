"""Each kind of pipeline has the same results in both modes."""

import pytest
from pyspark.sql import functions as F

import eagre as eg

PAYMENTS = "card STRING, amount DOUBLE, country STRING, tags ARRAY<STRING>, at TIMESTAMP"


def payment(card, amount, second=0, country="FR", tags=()):
    at = f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"
    return {"card": card, "amount": amount, "country": country, "tags": list(tags), "at": at}


ROWS = [
    payment(f"c{n % 5}", float(n * 10), second=n, country="FR" if n % 3 else "US", tags=["a", "b"])
    for n in range(60)
]


def source(topic, **options):
    return eg.Kafka(topic, schema=PAYMENTS, **options)


def last_by(rows, *keys):
    """Return the last row of each key, as an upsert of the results would store it."""
    return {tuple(str(row[key]) for key in keys): row for row in rows}


def test_project_and_filter(run_in_both_modes):
    @eg.pipeline(source=source("project-in"), sink=eg.Kafka("project-out", key="card"))
    def project(df):
        return df.where("amount >= 100").select("card", (F.col("amount") * 2).alias("double"))

    rows = run_in_both_modes(project, ROWS)
    assert [row["double"] for row in rows] == [r["amount"] * 2 for r in ROWS if r["amount"] >= 100]


def test_explode(run_in_both_modes):
    @eg.pipeline(source=source("explode-in"), sink=eg.Kafka("explode-out"))
    def explode(df):
        return df.select("card", F.explode("tags").alias("tag"))

    rows = run_in_both_modes(explode, ROWS)
    assert rows == [{"card": r["card"], "tag": tag} for r in ROWS for tag in r["tags"]]


def test_union_of_two_sources(run_in_both_modes):
    @eg.pipeline(source=[source("union-a"), source("union-b")], sink=eg.Kafka("union-out"))
    def union(left, right):
        return left.select("amount").union(right.select("amount"))

    rows = run_in_both_modes(union, {"union-a": ROWS[:30], "union-b": ROWS[30:]})
    assert sorted(row["amount"] for row in rows) == [r["amount"] for r in ROWS]


def test_one_source_of_two_topics(run_in_both_modes):
    both = source(("several-a", "several-b"))

    @eg.pipeline(source=both, sink=eg.Kafka("several-out"))
    def several(df):
        return df.select("amount", F.col("_source.topic").alias("topic_of_row"))

    rows = run_in_both_modes(several, {"several-a": ROWS[:30], "several-b": ROWS[30:]})
    assert {(row["amount"], row["topic_of_row"]) for row in rows} == {
        (r["amount"], "several-a" if n < 30 else "several-b") for n, r in enumerate(ROWS)
    }


def test_broadcast_join_with_a_static_table(run_in_both_modes):
    @eg.pipeline(source=source("join-in"), sink=eg.Kafka("join-out"))
    def join(df):
        table = df.sparkSession.createDataFrame(
            [("FR", "France"), ("US", "America")], "c STRING, name STRING"
        )
        return df.join(F.broadcast(table), F.col("country") == F.col("c")).select("amount", "name")

    rows = run_in_both_modes(join, ROWS)
    expected = {(r["amount"], {"FR": "France", "US": "America"}[r["country"]]) for r in ROWS}
    assert {(row["amount"], row["name"]) for row in rows} == expected


def test_hash_repartition(run_in_both_modes):
    @eg.pipeline(source=source("repartition-in"), sink=eg.Kafka("repartition-out"))
    def repartition(df):
        return df.repartition(2, "card").select("card", "amount")

    rows = run_in_both_modes(repartition, ROWS)
    assert sorted((row["card"], row["amount"]) for row in rows) == sorted(
        (r["card"], r["amount"]) for r in ROWS
    )


def test_grouped_aggregation(run_in_both_modes):
    @eg.pipeline(source=source("group-in", partitions=2), sink=eg.Kafka("group-out", key="card"))
    def group(df):
        return df.groupBy("card").agg(F.count("*").alias("n"), F.sum("amount").alias("sum"))

    final = last_by(run_in_both_modes(group, ROWS), "card")
    assert {card: (row["n"], row["sum"]) for (card,), row in final.items()} == {
        f"c{k}": (12, sum(r["amount"] for r in ROWS if r["card"] == f"c{k}")) for k in range(5)
    }


@pytest.mark.parametrize(("slide", "windows"), [(None, 6), ("5 seconds", 13)])
def test_windows_with_watermark(run_in_both_modes, slide, windows):
    name = f"window-{slide}".replace(" ", "-")
    timed = source(f"{name}-in", event_time="at", watermark="1 minute")

    @eg.pipeline(source=timed, sink=eg.Kafka(f"{name}-out"))
    def window(df):
        return df.groupBy(F.window("at", "10 seconds", slide)).count()

    final = last_by(run_in_both_modes(window, ROWS), "window").values()
    counts = {row["window"]["start"][14:19]: row["count"] for row in final}
    step = 5 if slide else 10
    first = -5 if slide else 0
    expected = {start: min(start + 10, 60) - max(start, 0) for start in range(first, 60, step)}
    assert len(counts) == windows
    assert counts == {
        f"{start // 60 % 60:02d}:{start % 60:02d}": n for start, n in expected.items()
    }


@pytest.mark.parametrize("mode", ["micro-batch", "real-time"])
@pytest.mark.parametrize("watermark", ["1 second", pytest.param("1 day", marks=pytest.mark.e2e)])
def test_the_watermark_drops_late_rows(run_pipeline, tmp_path, mode, watermark):
    name = f"late-{mode}-{watermark}".replace(" ", "-")
    timed = source(f"{name}-in", event_time="at", watermark=watermark)

    @eg.pipeline(source=timed, sink=eg.Kafka(f"{name}-out"))
    def window(df):
        return df.groupBy(F.window("at", "10 seconds")).count()

    run_pipeline(window, ROWS, mode=mode, checkpoint=tmp_path)
    run_pipeline(window, [payment("c", 1.0, second=60)], mode=mode, checkpoint=tmp_path)
    late = run_pipeline(window, [payment("c", 1.0, second=3)], mode=mode, checkpoint=tmp_path)
    assert [row["count"] for row in late] == ([] if watermark == "1 second" else [11])


def test_drop_duplicates(run_in_both_modes):
    @eg.pipeline(source=source("dedup-in"), sink=eg.Kafka("dedup-out", key="card"))
    def dedup(df):
        return df.select("card", "amount").dropDuplicates(["card", "amount"])

    rows = run_in_both_modes(dedup, ROWS + ROWS[:20])
    assert sorted((row["card"], row["amount"]) for row in rows) == sorted(
        (r["card"], r["amount"]) for r in ROWS
    )


def test_rows_are_routed_by_the_topic_column(run_in_both_modes):
    @eg.pipeline(source=source("route-in"), sink=eg.Kafka(["route-large", "route-small"]))
    def route(df):
        large = F.when(F.col("amount") >= 300, "route-large").otherwise("route-small")
        return df.select("amount", large.alias("topic"))

    results = run_in_both_modes(route, ROWS)
    assert [row["amount"] for row in results["route-large"]] == [n * 10.0 for n in range(30, 60)]
    assert results["route-small"] == [{"amount": n * 10.0} for n in range(30)]


def test_a_stateful_checkpoint_can_switch_modes(run_pipeline, tmp_path):
    @eg.pipeline(source=source("switch-in"), sink=eg.Kafka("switch-out", key="card"))
    def count(df):
        return df.groupBy("card").agg(F.count("*").alias("n"))

    modes = ["micro-batch", "real-time", "micro-batch", "available-now", "real-time"]
    for number, mode in enumerate(modes, 1):
        final = last_by(run_pipeline(count, ROWS, mode=mode, checkpoint=tmp_path), "card")
        assert {row["n"] for row in final.values()} == {12 * number}, mode
        assert len(final) == 5


def test_a_stateless_checkpoint_loses_no_rows_between_modes(run_pipeline, tmp_path):
    @eg.pipeline(source=source("pass-in", partitions=2), sink=eg.Kafka("pass-out"))
    def through(df):
        return df.select("amount")

    for number, mode in enumerate(["real-time", "micro-batch", "real-time", "available-now"]):
        rows = [payment("c", 1000.0 * number + n) for n in range(50)]
        written = run_pipeline(through, rows, mode=mode, checkpoint=tmp_path)
        assert {r["amount"] for r in rows} <= {row["amount"] for row in written}, mode
