"""Eagre: millisecond pipelines in PySpark.

Importing this package imports no PySpark and starts nothing.
"""

from eagre.broker import EmbeddedBroker
from eagre.connectors import (
    Kafka,
    KafkaSink,
    KafkaSource,
    Postgres,
    Redis,
    read_stream,
    write_stream,
)
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
from eagre.python import (
    Http,
    Refused,
    Sink,
    batch_udf,
    flat_map,
    transform_with_state,
    udf,
)
from eagre.session import configure, session

__version__ = "0.3.0"

__all__ = [
    "EagreError",
    "EmbeddedBroker",
    "Http",
    "Kafka",
    "KafkaSink",
    "KafkaSource",
    "Pipeline",
    "Postgres",
    "Redis",
    "Refused",
    "Sink",
    "__version__",
    "batch_udf",
    "check",
    "configure",
    "deduplicate",
    "flat_map",
    "interval_join",
    "lookup",
    "pipeline",
    "read_stream",
    "rolling",
    "session",
    "session_windows",
    "top_n",
    "transform_with_state",
    "udf",
    "windows",
    "write_stream",
]
