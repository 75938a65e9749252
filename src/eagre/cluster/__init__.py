"""A Spark standalone cluster on loopback, for development and tests."""

from eagre.cluster.registry import RunningCluster, running
from eagre.cluster.standalone import start, status, stop

__all__ = ["RunningCluster", "running", "start", "status", "stop"]
