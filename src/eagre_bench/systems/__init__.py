"""The systems: each has a driver that starts its job with its settings."""

from eagre_bench.errors import BenchError
from eagre_bench.systems.base import Job, System
from eagre_bench.systems.floor import Floor
from eagre_bench.systems.java import Flink, FlinkThroughput, KafkaStreams
from eagre_bench.systems.python import Bytewax, PyFlink, Quix
from eagre_bench.systems.spark import (
    OPERATORS,
    Eagre,
    EagreBatchFunction,
    EagreCluster,
    EagreDashboard,
    EagreExactlyOnce,
    EagreOperator,
    EagrePoisoned,
    EagreSql,
    EagreThroughput,
    SparkDefaults,
    SparkMicroBatch,
)

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        Floor(),
        Eagre(),
        EagreCluster(),
        EagreBatchFunction(),
        EagreSql(),
        EagreExactlyOnce(),
        EagreThroughput(),
        *OPERATORS.values(),
        EagreDashboard(),
        EagrePoisoned(),
        SparkDefaults(),
        SparkMicroBatch(),
        Flink(),
        FlinkThroughput(),
        KafkaStreams(),
        PyFlink(),
        Quix(),
        Bytewax(),
    )
}
"""The systems by name, in the order of the tables."""
OLD_NAMES = {"eagre-page": "eagre-dashboard"}
"""The names of systems until 0.2, which are still accepted."""


def system(name: str) -> System:
    """Return a driver by its name.

    Raises:
        BenchError: It does not exist.
    """
    name = OLD_NAMES.get(name, name)
    if name not in SYSTEMS:
        raise BenchError(
            "SYSTEM_UNKNOWN",
            f"there is no system {name!r}.",
            hint=f"choose from: {', '.join(SYSTEMS)}.",
        )
    return SYSTEMS[name]


__all__ = ["OPERATORS", "SYSTEMS", "EagreOperator", "Job", "System", "system"]
