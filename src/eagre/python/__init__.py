"""Python functions inside a stream, at a millisecond, in every mode."""

from eagre.python.functions import batch_udf, flat_map, udf

__all__ = ["batch_udf", "flat_map", "udf"]
