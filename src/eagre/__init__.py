"""Eagre: millisecond pipelines in PySpark.

Importing this package imports no PySpark and starts nothing.
"""

from eagre.broker import EmbeddedBroker
from eagre.errors import EagreError
from eagre.pipeline import Pipeline, pipeline
from eagre.preflight import check
from eagre.session import configure, session
from eagre.sources import Kafka

__version__ = "0.1.0"

__all__ = [
    "EagreError",
    "EmbeddedBroker",
    "Kafka",
    "Pipeline",
    "__version__",
    "check",
    "configure",
    "pipeline",
    "session",
]
