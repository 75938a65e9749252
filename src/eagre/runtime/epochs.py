"""Epochs and micro-batches as they ended: phases, rows, state."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


class Epochs:
    """Follows a query's progress; Spark reports an epoch when it is over."""

    def __init__(self) -> None:
        self._told = -1

    def new(self, query: StreamingQuery, last: StreamingQueryProgress) -> list[dict[str, Any]]:
        """Give the epochs that ended since the last question, the oldest first."""
        if last.batchId == self._told:
            return []
        between = [last]
        if self._told >= 0 and last.batchId > self._told + 1:
            between = list(query.recentProgress)
        found = {one.batchId: one for one in between if one.batchId > self._told}
        self._told = last.batchId
        return [described(one) for one in found.values() if "addBatch" in one.durationMs]


def described(progress: StreamingQueryProgress) -> dict[str, Any]:
    """Say what an epoch was: times in seconds since 1970, phases in milliseconds."""
    began = datetime.fromisoformat(progress.timestamp).timestamp()
    phases = {name: int(ms) for name, ms in progress.durationMs.items()}
    operators = progress.stateOperators
    return {
        "batch": progress.batchId,
        "began": began,
        "ended": began + phases.get("triggerExecution", 0) / 1000,
        "rows": progress.numInputRows,
        "phases": phases,
        "state": {
            "operators": len(operators),
            "keys": sum(one.numRowsTotal for one in operators),
            "changed": sum(one.numRowsUpdated for one in operators),
            "memory_bytes": sum(one.memoryUsedBytes for one in operators),
            "disk_bytes": sum(
                int(one.customMetrics.get("rocksdbSstFileSize") or 0) for one in operators
            ),
            "commit_ms": sum(one.commitTimeMs for one in operators),
        },
    }
