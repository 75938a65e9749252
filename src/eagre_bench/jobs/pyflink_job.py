"""PyFlink: every workload as one (keyed) process function, its state in Flink's RocksDB.

Settings ``consumer.*`` and ``producer.*`` are those of Kafka's Java clients, all others Flink's.
``env.java.opts.all`` goes to the one JVM that holds the cluster.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from pyflink.common import Configuration, Row, Types
from pyflink.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.data_stream import KeyedStream
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, Schema, StreamTableEnvironment, TableDescriptor
from semantics import SEMANTICS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyflink.datastream import DataStream, RuntimeContext
    from pyflink.table import TableResult
    from semantics import Merchants

JVM_OPTIONS = "env.java.opts.all"
CHECKPOINTS = "checkpoints"
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
RECORD = Types.ROW_NAMED(["key", "value"], [Types.STRING(), BYTES])


class Stateless(ProcessFunction):
    """A workload without state."""

    def __init__(self, workload: str, merchants: Merchants) -> None:
        self._semantics = SEMANTICS[workload]
        self._merchants = merchants

    def process_element(self, value: Row, _: ProcessFunction.Context) -> Iterator[Row]:
        """Return the results of one record."""
        results = self._semantics.step({}, orjson.loads(value[1]), self._merchants)
        slot = self._semantics.slot[0]
        return (Row(result[slot], orjson.dumps(result)) for result in results)


class Stateful(KeyedProcessFunction):
    """A workload with state: a key's is read and written as one value.

    No workload changes a state without a result, so that nothing is written for one without.
    """

    def __init__(self, workload: str, merchants: Merchants) -> None:
        self._semantics = SEMANTICS[workload]
        self._merchants = merchants

    def open(self, runtime_context: RuntimeContext) -> None:
        """Request the state."""
        described = ValueStateDescriptor("state", Types.PICKLED_BYTE_ARRAY())
        self._store = runtime_context.get_state(described)

    def process_element(self, value: bytes, _: KeyedProcessFunction.Context) -> Iterator[Row]:
        """Return the results of one record, and store the new state."""
        state = self._store.value() or {}
        results = self._semantics.step(state, orjson.loads(value), self._merchants)
        if results:
            self._store.update(state)
        slot = self._semantics.slot[0]
        return (Row(result[slot], orjson.dumps(result)) for result in results)


def main() -> None:
    """Run the job that the file named by the only argument describes."""
    job = json.loads(Path(sys.argv[1]).read_text())
    os.environ["JVM_ARGS"] = job["settings"].get(JVM_OPTIONS, "")
    os.environ.setdefault("FLINK_LOG_DIR", job["state"])
    env = StreamExecutionEnvironment.get_execution_environment(configuration(job))
    dataflow(StreamTableEnvironment.create(env), job).wait()


def configuration(job: dict[str, Any]) -> Configuration:
    """Return Flink's configuration: the job's settings, its checkpoints, this interpreter."""
    clients = ("consumer.", "producer.", JVM_OPTIONS)
    settings = {
        "execution.checkpointing.interval": f"{job['epoch_ms']} ms",
        "execution.checkpointing.dir": (Path(job["state"]) / CHECKPOINTS).absolute().as_uri(),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "io.tmp.dirs": job["state"],
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.pythonpath": os.pathsep.join(path for path in sys.path if path),
        **{name: text for name, text in job["settings"].items() if not name.startswith(clients)},
    }
    if newest := newest_checkpoint(job):
        settings["execution.state-recovery.path"] = newest
    conf = Configuration()
    for name, value in settings.items():
        conf.set_string(name, str(value))
    return conf


def newest_checkpoint(job: dict[str, Any]) -> str | None:
    """Find the newest complete checkpoint of earlier runs."""
    complete = (Path(job["state"]) / CHECKPOINTS).glob("*/chk-*/_metadata")
    newest = max(complete, key=lambda file: file.stat().st_mtime, default=None)
    return newest.parent.absolute().as_uri() if newest else None


def dataflow(tables: StreamTableEnvironment, job: dict[str, Any]) -> TableResult:
    """Connect source, workload and sink, and start."""
    tables.create_temporary_table("source", kafka(job, "source", "consumer."))
    tables.create_temporary_table("sink", kafka(job, "sink", "producer."))
    records = tables.to_append_stream(tables.from_path("source"), RECORD)
    results = process(records, job)
    return tables.from_data_stream(results).execute_insert("sink")


def process(records: DataStream, job: dict[str, Any]) -> DataStream:
    """Apply the workload's function to the records."""
    merchants = read_merchants(job)
    if SEMANTICS[job["workload"]].stateful:
        return by_key(records).process(Stateful(job["workload"], merchants), RECORD)
    return records.process(Stateless(job["workload"], merchants), RECORD)


def by_key(records: DataStream) -> KeyedStream:
    """Key by the records' own key, which is the first column already.

    ``DataStream.key_by`` does the same, after a Python function that puts the key there: that
    would be a second way through Python for each record.
    """
    jvm = get_gateway().jvm
    key_type = Types.ROW([Types.STRING()]).get_java_type_info()
    java = records._j_data_stream.keyBy(jvm.KeyByKeySelector(), key_type)  # noqa: SLF001
    return KeyedStream(java, BYTES, records)


def kafka(job: dict[str, Any], side: str, prefix: str) -> TableDescriptor:
    """Describe a topic with raw keys and values."""
    columns = Schema.new_builder().column("key", DataTypes.STRING())
    table = TableDescriptor.for_connector("kafka").schema(
        columns.column("value", DataTypes.BYTES()).build()
    )
    options = {
        "topic": job[side],
        "key.format": "raw",
        "key.fields": "key",
        "value.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
        "properties.bootstrap.servers": job["brokers"],
        **(reading(job) if side == "source" else {}),
        **settings_of(job, prefix),
    }
    for name, value in options.items():
        table = table.option(name, str(value))
    return table.build()


def reading(job: dict[str, Any]) -> dict[str, str]:
    """Return the options of a source; without a checkpoint it starts at the first record."""
    return {"scan.startup.mode": "earliest-offset", "properties.group.id": job["group"]}


def settings_of(job: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a client's settings as options of the table."""
    named = {
        name.removeprefix(prefix): value
        for name, value in job["settings"].items()
        if name.startswith(prefix)
    }
    return {f"properties.{name}": value for name, value in named.items()}


def read_merchants(job: dict[str, Any]) -> Merchants:
    """Read category and country by merchant."""
    with Path(job["merchants"]).open(newline="") as file:
        return {merchant: named for merchant, *named in csv.reader(file)}


if __name__ == "__main__":
    main()
