"""Low-latency Python functions and sinks for streams, in every mode."""

from eagre.connectors import register_adapter
from eagre.python.functions import batch_udf, flat_map, udf
from eagre.python.sinks import Http, Refused, Sink
from eagre.python.sinks.connector import adapted
from eagre.python.state import transform_with_state

__all__ = ["Http", "Refused", "Sink", "batch_udf", "flat_map", "transform_with_state", "udf"]

register_adapter(adapted)
