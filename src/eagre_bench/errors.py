"""The errors of the benchmark."""

from eagre.errors import EagreError


class BenchError(EagreError):
    """An invalid workload, system or report."""
