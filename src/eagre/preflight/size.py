"""The resources that a pipeline needs, with the arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.config import counted
from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

SLOTS_PER_CORE = 4
"""How many slots one core serves at moderate rates: slots are threads that mostly wait."""
STORE_OVERHEAD = 1.5
"""The factor that RocksDB adds to keys and values: indexes, filters, uncompacted versions."""
BASE_MEMORY_MB = 1024
"""The memory of an executor without state."""
CACHED_SHARE = 0.25
"""The share of the state that should fit into memory, so that its hot part is cached."""
MOST_SLOTS = 100_000


@dataclass(frozen=True)
class Size:
    """Slots, cores, executors and memory.

    >>> size = Size.of(source=8, shuffles=[20])
    >>> size.sum, size.slots
    ('8 source + 20 shuffle = 28', 28)
    >>> Size.of(source=8, shuffles=[20, 20]).sum
    '8 source + 20 shuffle + 20 shuffle = 48'

    Attributes:
        terms: Slots of each stage, the sources first.
        cores_per_executor: Cores of one executor.
        keys: Keys in the state at the same time.
        bytes_per_key: Size of a key and its value.
        given: The executors and slots that a cluster has given, if it was asked.
    """

    terms: tuple[int, ...]
    cores_per_executor: int = 4
    keys: int = 0
    bytes_per_key: int = 0
    given: tuple[int, int] | None = None

    @classmethod
    def of(
        cls,
        source: int,
        shuffles: list[int],
        *,
        cores_per_executor: int = 4,
        keys: int = 0,
        bytes_per_key: int = 200,
    ) -> Size:
        """Add up the slots of a plan.

        Raises:
            SettingsError: A number is out of range.
        """
        if source < 1 or cores_per_executor < 1 or any(n < 1 for n in shuffles):
            raise SettingsError("SIZE_BELOW_ONE", "partitions and cores must be at least 1.")
        if source + sum(shuffles) > MOST_SLOTS:
            raise SettingsError("SIZE_TOO_LARGE", f"the limit is {MOST_SLOTS:,} slots.")
        return cls((source, *shuffles), cores_per_executor, keys, bytes_per_key)

    @property
    def slots(self) -> int:
        """The total number of slots."""
        return sum(self.terms)

    @property
    def sum(self) -> str:
        """The sum as text."""
        stages = [f"{self.terms[0]} source", *(f"{n} shuffle" for n in self.terms[1:])]
        return " + ".join(stages) + (f" = {self.slots}" if len(stages) > 1 else "")

    @property
    def executors(self) -> int:
        """The number of executors on a cluster, where each core is one slot."""
        return math.ceil(self.slots / self.cores_per_executor)

    @property
    def cores(self) -> int:
        """The number of cores in local mode, where slots are threads that share cores."""
        return math.ceil(self.slots / SLOTS_PER_CORE)

    @property
    def state_mb(self) -> int:
        """The size of the state on disk."""
        return math.ceil(self.keys * self.bytes_per_key * STORE_OVERHEAD / 1_000_000)

    @property
    def executor_memory_mb(self) -> int:
        """The memory of one executor: the base, plus the hot part of its share of the state."""
        hot = self.state_mb * CACHED_SHARE / self.executors
        return BASE_MEMORY_MB + math.ceil(hot)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "slots": self.slots,
            "terms": list(self.terms),
            "sum": self.sum,
            "cores": self.cores,
            "executors": self.executors,
            "cores_per_executor": self.cores_per_executor,
            "executor_memory_mb": self.executor_memory_mb,
            "keys": self.keys,
            "bytes_per_key": self.bytes_per_key,
            "state_mb": self.state_mb,
            "cluster": self._cluster(),
        }

    def _cluster(self) -> dict[str, Any] | None:
        if not self.given:
            return None
        executors, slots = self.given
        return {"executors": executors, "slots": slots, "enough": slots >= self.slots}

    def lines(self) -> list[str]:
        """Return the size as text, with the arithmetic."""
        each = f"{self.slots} / {self.cores_per_executor} cores"
        executors = counted(self.executors, "executor")
        shared = f"{self.slots} / {SLOTS_PER_CORE} = {counted(self.cores, 'busy core')}"
        lines = [
            f"slots      {self.sum}",
            f"cluster    {each} = {executors}, {self.executor_memory_mb:,} MB each",
            f"local      --master local[{self.slots}]: {shared}, because most slots wait",
        ]
        if self.given:
            count, slots = self.given
            enough = "enough" if slots >= self.slots else f"{self.slots - slots} too few"
            lines.append(
                f"given      {counted(count, 'executor')}, {counted(slots, 'slot')}: {enough}"
            )
        if self.keys:
            lines.append(
                f"state      {self.keys:,} keys x {self.bytes_per_key} bytes x {STORE_OVERHEAD} "
                f"(RocksDB) = {self.state_mb:,} MB on disk, in "
                f"{self.terms[-1]} partitions"
            )
        return lines


def added(terms: Sequence[int]) -> str:
    """Format a sum.

    >>> added([8, 20]), added([8])
    ('8 + 20 = 28', '8')
    """
    return " + ".join(map(str, terms)) + (f" = {sum(terms)}" if len(terms) > 1 else "")


def keys_alive(keys: int, keys_per_second: float, ttl_ms: int) -> int:
    """Return the number of keys that are in the state at the same time.

    >>> keys_alive(0, 100, 3_600_000)
    360000
    """
    return keys or round(keys_per_second * ttl_ms / 1000)
