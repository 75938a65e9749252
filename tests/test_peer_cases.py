"""Cases of other projects' tests, as pipelines in both modes: docs/internals/peer-cases.md."""

import sys
import time

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import eagre as eg
from eagre.operators.plan import MAX_STATE
from eagre.testing.harness import Record
from test_operators import VARIANT, keyed, source
from test_operators_live import Live
from test_python_failures import dead_letters


def at(seconds):
    return f"2026-01-01T00:00:{seconds:06.3f}Z"


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("windows", "real-time"),
        pytest.param("windows", "micro-batch", marks=VARIANT),
        pytest.param("session_windows", "real-time", marks=VARIANT),
        pytest.param("session_windows", "micro-batch", marks=VARIANT),
    ],
)
def test_a_final_window_is_given_once(eagre_harness, tmp_path, kind, mode):
    """Quix, expiration: a late row neither opens a window again nor keeps it alive.

    The row comes when the state of the window alone would have expired by the wall clock.
    """
    name = f"peer-once-{kind}-{mode}"

    @eg.pipeline(source=source(f"{name}-in"), sink=eg.Kafka(f"{name}-out"), name=name)
    def once(df):
        operator = getattr(eg, kind)
        options = {"emit": "final", "grace": "100 ms", "event_time": "at"}
        made = operator(df, "card", "500 ms", ["count"], **options)
        return made.select("card", "count")

    with Live(eagre_harness, once, tmp_path / "c", mode) as live:
        live.send(*keyed([{"card": "a", "at": at(0.1)}, {"card": "a", "at": at(0.2)}]))
        live.await_row("the window", card="a", count=2)
        time.sleep(2.5)
        live.send(*keyed([{"card": "a", "at": at(0.15)}, {"card": "a", "at": at(5)}]))
        live.await_row("the next window", card="a", count=1)
        time.sleep(2.5)
        assert [row["count"] for _, row in live.results()] == [2, 1]


def test_null_is_an_item_of_a_leaderboard(run_in_both_modes):
    """Flink, top n: a row whose item is null is ranked like any other."""

    @eg.pipeline(source=source("peer-null-in"), sink=eg.Kafka("peer-null-out"))
    def board(df):
        made = eg.top_n(df, "country", "sum(amount)", 2, "1 minute", item="card", event_time="at")
        return made.select("rank", "card", "score")

    amounts = [("c", 1), (None, 5), ("d", 2)]
    rows = [{"country": "CH", "card": c, "amount": a, "at": at(1)} for c, a in amounts]
    results = run_in_both_modes(board, [Record(row, key="CH") for row in rows])
    last = {row["rank"]: (row.get("card"), row["score"]) for row in results}
    assert last == {1: (None, 5), 2: ("d", 2)}


class PerPlace(StatefulProcessor):
    """Counts the rows of each place; the key of the map is a plain string, as in Spark's test."""

    def init(self, handle):
        self.places = handle.getMapState("places", "place STRING", "n LONG")

    def handleInputRows(self, key, rows, _timers):  # noqa: N802
        for row in rows:
            before = self.places.getValue(row.country)[0] if self._has(row) else 0
            self.places.updateValue(row.country, (before + 1,))
            yield Row(card=key[0], country=row.country, n=before + 1)

    def _has(self, row):
        return self.places.containsKey(row.country)

    def close(self):
        pass


def test_a_plain_string_is_a_key_of_a_map_state(run_in_both_modes):
    """Spark, composite types: two keys that begin with the same letter are two keys."""

    @eg.pipeline(source=source("peer-map-in"), sink=eg.Kafka("peer-map-out"))
    def places(df):
        schema = "card STRING, country STRING, n LONG"
        return eg.transform_with_state(df.groupBy("card"), PerPlace(), schema)

    countries = ["CH", "CL", "CH", "CL", "CH"]
    rows = keyed([{"card": "a", "country": country} for country in countries])
    results = [(row["country"], row["n"]) for row in run_in_both_modes(places, rows)]
    assert results == [("CH", 1), ("CL", 1), ("CH", 2), ("CL", 2), ("CH", 3)]


def test_a_join_holds_a_limited_number_of_bytes_for_a_key(run_in_both_modes, eagre_harness):
    """Flink and Spark hold any number; here a key has a limit, and says so."""

    @eg.pipeline(
        source=[
            eg.Kafka("peer-full-in", schema="card STRING, text STRING"),
            eg.Kafka("peer-full-other", schema="card STRING, n INT"),
        ],
        sink=eg.Kafka("peer-full-out"),
        name="peer-full",
    )
    def joined(left, right):
        left.sparkSession.conf.set(MAX_STATE, "1m")
        try:
            both = eg.interval_join(left, right, "card", within="10 minutes")
        finally:
            left.sparkSession.conf.unset(MAX_STATE)
        return both.select("card", F.length("text").alias("size"), "n")

    large = [{"card": "a", "text": "x" * 400_000}] * 4
    rows = {"peer-full-in": large, "peer-full-other": [{"card": "b", "n": 1}]}
    assert run_in_both_modes(joined, rows) == []
    reasons = [letter["eagre-reason"] for letter in dead_letters(eagre_harness, "peer-full")]
    assert len(reasons) in {2, 4}, "two of the four rows fit; the topic has those of both modes"
    assert all(reason.startswith("STATE_FULL: ") for reason in reasons)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import it
