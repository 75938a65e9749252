"""Connectors as a user would write them, outside of Eagre: three sinks, a source, a format."""

from dataclasses import dataclass
from typing import ClassVar

from eagre.connectors import Capabilities, Format, Sink, Source, register


@register
class Csv(Format):
    """A line of comma-separated values."""

    name = "csv"

    def parse(self, value, schema):
        from pyspark.sql import functions as F

        columns = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in schema.fields)
        return F.from_csv(value.cast("string"), columns, {"mode": "FAILFAST"})

    def encode(self, rows, columns):
        from pyspark.sql import functions as F

        return F.to_csv(F.struct(*(rows[name] for name in columns)))

    def decode(self, value):
        return value.decode().split(",")


@register
@dataclass(frozen=True)
class JsonLines(Sink):
    """A folder of JSON files; it takes whole files only, so it has no real time."""

    folder: str
    capabilities: ClassVar = Capabilities(modes=("micro-batch", "available-now"))

    def write_stream(self, rows, query):
        del query
        return rows.writeStream.format("json").outputMode("append").option("path", self.folder)


@register
@dataclass(frozen=True)
class Console(Sink):
    """Spark's console, as rows of one key come to one task."""

    key: str
    capabilities: ClassVar = Capabilities(needs_shuffle=True)

    @property
    def keys(self):
        return (self.key,)

    def write_stream(self, rows, query):
        del query
        return rows.writeStream.format("console").outputMode("update")

    def rows_written(self, spark, pipeline):
        del spark, pipeline
        return 7


@register
@dataclass(frozen=True)
class JsonTopic(Sink):
    """A topic of JSON objects, written by Spark's own sink: it works in every mode."""

    topic: str
    brokers: str

    def write_stream(self, rows, query):
        del query
        values = rows.selectExpr("to_json(struct(*)) AS value").writeStream.format("kafka")
        cluster = values.option("kafka.bootstrap.servers", self.brokers).option("topic", self.topic)
        return cluster.outputMode("update")


@register
@dataclass(frozen=True)
class Counter(Source):
    """Numbers, as many a second."""

    per_second: int
    capabilities: ClassVar = Capabilities(modes=("micro-batch",))

    def read_stream(self, spark, query):
        del query
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", self.per_second)
        return rate.load().selectExpr("value AS n")
