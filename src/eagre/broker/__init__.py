"""The embedded Kafka broker, and topic metadata of any cluster."""

from eagre.broker.client_settings import ClientSettings
from eagre.broker.cluster import EmbeddedCluster
from eagre.broker.server import EmbeddedBroker
from eagre.broker.topics import Topic, Topics

__all__ = ["ClientSettings", "EmbeddedBroker", "EmbeddedCluster", "Topic", "Topics"]
