"""Eagre: millisecond pipelines in PySpark.

Importing this package imports no PySpark and starts nothing.
"""

from eagre.broker import EmbeddedBroker
from eagre.errors import EagreError
from eagre.operators import (
    deduplicate,
    interval_join,
    lookup,
    rolling,
    session_windows,
    top_n,
    windows,
)
from eagre.pipeline import Pipeline, pipeline
from eagre.preflight import check
from eagre.python import batch_udf, flat_map, transform_with_state, udf
from eagre.session import configure, session
from eagre.sinks import Postgres, Redis
from eagre.sources import Kafka

__version__ = "0.2.0"

__all__ = [
    "EagreError",
    "EmbeddedBroker",
    "Kafka",
    "Pipeline",
    "Postgres",
    "Redis",
    "__version__",
    "batch_udf",
    "check",
    "configure",
    "deduplicate",
    "flat_map",
    "interval_join",
    "lookup",
    "pipeline",
    "rolling",
    "session",
    "session_windows",
    "top_n",
    "transform_with_state",
    "udf",
    "windows",
]
