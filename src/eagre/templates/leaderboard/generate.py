"""Generate plays: a few popular games and players; late, repeated and broken records."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

TOPIC = "plays"
RATE = 250
GAMES = ("chess", "go", "tetris", "pong", "snake", "darts", "golf", "uno")
PLAYERS = 20_000
RANKS = 100
REPEATED, BROKEN = 0.01, 0.001

boards: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
best: dict[tuple[str, str, str], int] = {}


def events(random: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield keys and events forever; ``late_ms`` becomes the event time, ``copy`` marks repeats."""
    while True:
        event = play(random)
        yield event["game"], event
        if random.random() < REPEATED:
            yield event["game"], {**event, "copy": True}


def play(random: Random) -> dict[str, Any]:
    """Create a play: 1 % of the players, the better ones, make 20 % of the plays."""
    game = GAMES[int(len(GAMES) * random.random() ** 2)]
    player = int(PLAYERS * random.random() ** 3)
    skill = 6 - (player / PLAYERS) ** 0.2
    event = {
        "game": game,
        "player": f"p{player:05d}",
        "points": int(random.lognormvariate(skill, 0.4)) + 1,
        "late_ms": random.choice((0, 0, 0, random.randrange(3_000))),
    }
    return {**event, "points": "n/a"} if random.random() < BROKEN else event


def expects(event: dict[str, Any]) -> bool:
    """Return whether a play changes a board and must have a result; called in order."""
    if event["points"] == "n/a":
        return False
    game, hour, player = event["game"], event["at"][:13], event["player"]
    board, previous = boards[game, hour], best.get((game, hour, player), 0)
    if event["points"] <= previous:
        return False
    if previous:
        del board[bisect_left(board, (-previous, player))]
    best[game, hour, player] = event["points"]
    insort(board, (-event["points"], player))
    return bisect_left(board, (-event["points"], player)) < RANKS
