"""Completed epochs and micro-batches: phases, rows, state."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


class Epochs:
    """Tracks a query's progress; Spark reports an epoch when it ends."""

    def __init__(self) -> None:
        self._reported = -1

    def new(self, query: StreamingQuery, last: StreamingQueryProgress) -> list[dict[str, Any]]:
        """Return the epochs that ended since the last call, oldest first.

        An idle trigger has the number of the batch that follows, and is not counted as that batch.
        """
        if last.batchId <= self._reported:
            return []
        recent = [last]
        if self._reported >= 0 and last.batchId > self._reported + 1:
            recent = list(query.recentProgress)
        ended = {
            p.batchId: p
            for p in recent
            if p.batchId > self._reported and "addBatch" in p.durationMs
        }
        self._reported = max(ended, default=self._reported)
        return [described(p) for p in ended.values()]


def described(progress: StreamingQueryProgress) -> dict[str, Any]:
    """Describe an epoch: times in seconds since 1970, phases in milliseconds."""
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
            "keys": sum(operator.numRowsTotal for operator in operators),
            "changed": sum(operator.numRowsUpdated for operator in operators),
            "memory_bytes": sum(operator.memoryUsedBytes for operator in operators),
            "disk_bytes": sum(
                int(operator.customMetrics.get("rocksdbSstFileSize") or 0) for operator in operators
            ),
            "commit_ms": sum(operator.commitTimeMs for operator in operators),
        },
    }
