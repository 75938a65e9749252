"""Low-latency Python functions for streams, in every mode."""

from eagre.python.functions import batch_udf, flat_map, udf
from eagre.python.state import transform_with_state

__all__ = ["batch_udf", "flat_map", "transform_with_state", "udf"]
