"""Commands about Kafka: topics and their records, dead letters, the embedded broker."""
