"""What the benchmark raises on purpose."""

from eagre.errors import EagreError


class BenchError(EagreError):
    """A workload, a system or a report of the benchmark is not as it must be."""
