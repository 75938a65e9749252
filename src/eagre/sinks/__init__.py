"""Where the rows of a pipeline go."""

from eagre.sinks.kafka import Gate, encode, writer

__all__ = ["Gate", "encode", "writer"]
