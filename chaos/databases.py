"""The databases of the shapes with a database sink: real servers on loopback, as in the tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from database_servers import PostgresServer, RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable


TABLE = "chaos_totals"


class _Totals:
    """A database with the totals of each card; a server of the tests is the other base class."""

    USER: str
    VARIABLE: str
    url: str
    credentials: Callable[[str], str]
    remove: Callable[[], None]

    def totals(self) -> list[dict[str, Any]]:
        """Return the rows."""
        raise NotImplementedError

    def settings(self) -> dict[str, str]:
        """Return the environment of a run that writes to it."""
        return {self.VARIABLE: self.url, "CHAOS_CREDENTIALS": self.credentials(self.USER)}

    def written(self) -> int:
        """Return how many rows of the source it has seen."""
        return sum(int(row["count"]) for row in self.totals())

    def newest(self) -> dict[Any, str]:
        """Return the newest result of each key, as the verifier compares them."""
        return {(row["card"],): f"{row['count']}/{row['total']}" for row in self.totals()}


class Postgres(_Totals, PostgresServer):
    """PostgreSQL."""

    USER, VARIABLE = "eagre", "CHAOS_POSTGRESQL_URL"

    def totals(self) -> list[dict[str, Any]]:
        """Return the rows; none before the pipeline has created the table."""
        made = self.run(f"SELECT to_regclass('{TABLE}') IS NOT NULL").strip() == "t"
        return self.rows(f"SELECT card, count, total FROM {TABLE}") if made else []  # noqa: S608


class Redis(_Totals, RedisServer):
    """Redis."""

    USER, VARIABLE = "default", "CHAOS_REDIS_URL"

    def totals(self) -> list[dict[str, Any]]:
        """Return the hashes."""
        return list(self.hashes("chaos:").values())


SERVERS = {"postgresql": Postgres, "redis": Redis}
