"""The hundred best players of each game and hour, updated after each play."""

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
    """Return the ranks that a play changes; the newest row of each rank is the board.

    A player is ranked by the best play of the hour, so repeated plays and the order of plays do not
    matter.
    """
    valid = df.where("points > 0")
    return eg.top_n(
        valid, by="game", item="player", score="max(points)", n=RANKS, window=WINDOW
    ).selectExpr(
        "game",
        "window.start as hour",
        "rank",
        "player",
        "score as points",
        "_source",
    )
