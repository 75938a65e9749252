"""The hundred best players of each game in this hour, as it stands after each play."""

from pyspark.sql import DataFrame

import eagre as eg

plays = eg.Kafka(
    "plays",
    schema="game STRING, player STRING, points BIGINT, at TIMESTAMP",
    event_time="at",
    watermark="10 seconds",
)
boards = eg.Kafka("boards", key="game")

RANKS = 100
WINDOW = "1 hour"


@eg.pipeline(source=plays, sink=boards, slo="p99 < 300ms")
def leaderboard(df: DataFrame) -> DataFrame:
    """The ranks that a play changes: a reader that keeps the newest of each rank has the board.

    A player counts with the best play of the hour, so that a repeated play changes nothing, and
    neither does the order in which plays come.
    """
    fair = df.where("points > 0")
    return eg.top_n(
        fair, by="game", item="player", score="max(points)", n=RANKS, window=WINDOW
    ).selectExpr(
        "game",
        "window.start as hour",
        "rank",
        "player",
        "score as points",
        "_source",
    )
