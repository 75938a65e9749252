"""Answer bid requests from the user's profile, within the user's budget per hour."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

import eagre as eg

requests = eg.Kafka(
    "requests", schema="id STRING, user STRING, subject STRING, floor DOUBLE, at TIMESTAMP"
)
profiles = eg.Kafka(
    "profiles",
    schema="user STRING, interest STRING, value DOUBLE, budget DOUBLE",
    starting="earliest",
)
bids = eg.Kafka("bids", key="user")

KNOWN = "interest STRING, value DOUBLE, budget DOUBLE, hour BIGINT, spent DOUBLE, ids ARRAY<STRING>"
ANSWER = "id STRING, user STRING, price DOUBLE, reason STRING, interest STRING, remaining DOUBLE"
RETAINED_IDS = 8


class Bidder(StatefulProcessor):
    """Stores each user's profile and spending in the current hour, and answers bid requests."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: one value per user with a profile, none for unknown users."""
        self.known = handle.getValueState("known", KNOWN)

    def handleInputRows(
        self, key: tuple[str], rows: Iterable[Any], timerValues: TimerValues
    ) -> Iterator[Any]:
        """Store profiles and answer requests; skip requests that are already answered."""
        for row in rows:
            known = self.known.get()
            if row.id is None:
                self.learn(row, known)
            elif known is None:
                yield row.id, key[0], None, "unknown", None, None
            elif row.id not in known[-1]:
                yield self.answer(row, known)

    def learn(self, row: Row, known: tuple[Any, ...] | None) -> None:
        """Update the profile and retain the spending; a profile without a value deletes both."""
        if row.value is None:
            self.known.clear()
        else:
            account = known[-3:] if known else (0, 0.0, [])
            self.known.update((row.interest, row.value, row.budget, *account))

    def answer(self, row: Row, known: tuple[Any, ...]) -> tuple[Any, ...]:
        """Bid the user's value, or half of it outside the interest, within budget and floor."""
        interest, value, budget, hour, spent, ids = known
        spent = spent if row.hour <= hour else 0.0
        price = round(value if row.subject == interest else value / 2, 2)
        reason = "floor" if price < row.floor else "budget" if spent + price > budget else "bid"
        price = price if reason == "bid" else None
        spent = round(spent + (price or 0.0), 2)
        ids = [*ids[1 - RETAINED_IDS :], row.id]
        self.known.update((interest, value, budget, max(hour, row.hour), spent, ids))
        return row.id, row.user, price, reason, interest, round(budget - spent, 2)


@eg.pipeline(source=[requests, profiles], sink=bids, slo="p99 < 100ms")
def personalise(requests: DataFrame, profiles: DataFrame) -> DataFrame:
    """Join requests and profiles by user, in one state for profile and spending."""
    hour = F.floor(F.unix_timestamp("at") / 3600)
    valid = requests.where("id IS NOT NULL").withColumn("hour", hour).drop("at")
    rows = profiles.unionByName(valid, allowMissingColumns=True)
    return eg.transform_with_state(rows.groupBy("user"), Bidder(), ANSWER)
