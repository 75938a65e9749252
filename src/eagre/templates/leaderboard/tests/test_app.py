"""The pipeline with a real broker and Spark, in micro-batch and real-time mode."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random

from app import RANKS, leaderboard
from generate import events, expects

HOUR = datetime(2026, 1, 1, tzinfo=UTC)


def play(player, points, game="go", second=0):
    at = (HOUR + timedelta(seconds=second)).isoformat()
    return {"game": game, "player": player, "points": points, "at": at}


def boards_of(rows):
    """Return the boards: the newest record of each rank."""
    boards = {}
    for row in rows:
        ranks = boards.setdefault((row["game"], row["hour"][:13]), {})
        ranks[row["rank"]] = (row["player"], row["points"])
    return {name: [ranks[rank] for rank in sorted(ranks)] for name, ranks in boards.items()}


def test_only_changed_ranks_are_written(run_in_both_modes):
    rows = [play("ann", 10), play("bob", 20), play("cid", 5), play("bob", 15), play("cid", 30)]
    ranks = [(row["rank"], row["player"]) for row in run_in_both_modes(leaderboard, rows)]
    assert ranks == [
        *[(1, "ann")],
        *[(1, "bob"), (2, "ann")],
        *[(3, "cid")],
        *[(1, "cid"), (2, "bob"), (3, "ann")],
    ]


def test_each_game_and_hour_has_a_board(run_in_both_modes):
    rows = [play("ann", 10), play("bob", 9, game="pong"), play("cid", 8, second=3600)]
    assert boards_of(run_in_both_modes(leaderboard, rows)) == {
        ("go", "2026-01-01T00"): [("ann", 10)],
        ("pong", "2026-01-01T00"): [("bob", 9)],
        ("go", "2026-01-01T01"): [("cid", 8)],
    }


def test_late_plays_count_until_their_hour_is_closed(run_in_both_modes):
    rows = [play("ann", 10), play("bob", 9, second=3605), play("cid", 11, second=3599)]
    rows += [play("ann", 7, second=3620), play("dan", 99, second=3598)]
    assert boards_of(run_in_both_modes(leaderboard, rows)) == {
        ("go", "2026-01-01T00"): [("cid", 11), ("ann", 10)],
        ("go", "2026-01-01T01"): [("bob", 9), ("ann", 7)],
    }


def test_generated_plays_give_the_best_hundred_players(run_in_both_modes):
    """Including late, duplicate and malformed plays."""
    rows = []
    for number, (_, event) in enumerate(islice(events(Random(3)), 1_500)):
        at = HOUR + timedelta(seconds=60 + number / 1000, milliseconds=-event["late_ms"])
        rows.append({**event, "at": at.isoformat()})
    results = run_in_both_modes(leaderboard, rows)
    best = {}
    for row in rows:
        if row["points"] != "n/a":
            scores = best.setdefault((row["game"], "2026-01-01T00"), {})
            scores[row["player"]] = max(row["points"], scores.get(row["player"], 0))
    assert any(len(scores) > RANKS for scores in best.values())
    assert boards_of(results) == {
        name: sorted(scores.items(), key=lambda score: (-score[1], score[0]))[:RANKS]
        for name, scores in best.items()
    }


def test_the_generator_predicts_which_plays_change_a_board():
    rows = [play("ann", points, "x") for points in (10, 10, 9, "n/a")]
    assert [expects(row) for row in rows] == [True, False, False, False]
    full = [expects(play(f"q{n:03d}", 50, "x")) for n in range(RANKS + 5)]
    assert full == [True] * RANKS + [False] * 5
    assert not expects(play("ann", 11, "x"))
    assert expects(play("ann", 51, "x"))
