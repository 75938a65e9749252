"""Commands for Kafka: topics and their records, dead letters, the embedded broker."""
