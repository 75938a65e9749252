"""Where the rows of a pipeline go."""

from eagre.sinks.kafka import encode, writer

__all__ = ["encode", "writer"]
