"""Kafka topics as sources and sinks."""

from __future__ import annotations

from dataclasses import dataclass

from eagre.connectors.kafka.sink import EXACTLY_ONCE_OPTIONS, HEADER, PROVENANCE_HEADER, KafkaSink
from eagre.connectors.kafka.source import KafkaSource, refused_in_real_time
from eagre.connectors.kafka.topic import CLIENT_OPTIONS, KafkaTopic, find_option

__all__ = [
    "CLIENT_OPTIONS",
    "EXACTLY_ONCE_OPTIONS",
    "HEADER",
    "PROVENANCE_HEADER",
    "Kafka",
    "KafkaSink",
    "KafkaSource",
    "KafkaTopic",
    "find_option",
    "refused_in_real_time",
]


@dataclass(frozen=True)
class Kafka(KafkaSource, KafkaSink):
    """A Kafka topic, or several, to read from or write to.

    >>> payments = Kafka("payments", schema="card STRING, amount DOUBLE")
    >>> payments.topics
    ('payments',)

    ``KafkaSource`` and ``KafkaSink`` take only the arguments of their role.

    Attributes:
        topic: A topic, or several. A sink with several topics sends each row to the topic that its
            ``topic`` column names.
        schema: The columns of a value, as DDL or StructType.
        format: ``json``; ``string`` or ``bytes`` for a single, unparsed ``value`` column; or a
            registered format.
        key: For a sink, the column that becomes the record's key. For a source, the column that
            receives the record's key, unless the schema contains it.
        headers: Read the record's headers into a ``headers`` column. A sink writes this column
            if the rows have it.
        on_error: What to do with a record that cannot be parsed, or that is too large for a sink:
            ``dead-letter`` (send it to the topic ``SOURCE.dlq``), ``drop`` (count and log it) or
            ``fail`` (stop the query).
        event_time: The timestamp column of the watermark.
        watermark: The watermark's delay, such as ``"10 seconds"``. Requires ``event_time``.
        starting: Where a new checkpoint starts: ``earliest``, ``latest``, or an ISO 8601 time.
        partitions: The number of partitions if Eagre creates the topic.
        create: Whether Eagre may create the topic.
        brokers: ``host:port`` of its cluster; ``eagre run --brokers`` overrides it.
        delivery: For a sink, ``at-least-once``, where a failure repeats results since the last
            commit, or ``exactly-once`` (docs/explanation/exactly-once.md).
        fence: ``in-band`` also writes fence records into an exactly-once sink, for readers with
            ``eagre.reader``.
        partitioned_by: For a source, the columns that determine the partition: rows with equal
            values are in the same partition. Exactly once over keyed state requires it.
        config: A Kafka client properties file with the settings of the cluster, such as
            ``security.protocol``. Default: the file in ``EAGRE_KAFKA_CONFIG``.
        options: Options of Spark's Kafka connector, including ``kafka.*`` client settings.
    """
