"""The embedded Kafka broker, and topic metadata of any cluster."""

from eagre.broker.client import Client
from eagre.broker.cluster import EmbeddedCluster
from eagre.broker.server import EmbeddedBroker
from eagre.broker.topics import Topic, Topics

__all__ = ["Client", "EmbeddedBroker", "EmbeddedCluster", "Topic", "Topics"]
