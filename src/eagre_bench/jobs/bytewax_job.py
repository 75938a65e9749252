"""Bytewax: every workload as one (stateful) flat map, its state snapshotted by Bytewax's recovery.

Settings ``consumer.*`` and ``producer.*`` are librdkafka's, ``source.*`` those of ``KafkaSource``;
``epoch_interval_ms``, ``backup_interval_ms`` and ``recovery_partitions`` are the recovery's.
"""

from __future__ import annotations

import csv
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main
from semantics import SEMANTICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from bytewax.connectors.kafka import KafkaSourceMessage
    from bytewax.dataflow import Stream
    from semantics import Merchants, Result, Semantics, State


def main() -> None:
    """Run the job that the file named by the only argument describes."""
    job = json.loads(Path(sys.argv[1]).read_text())
    epoch_ms = int(job["settings"].get("epoch_interval_ms", job["epoch_ms"]))
    cli_main(
        dataflow(job),
        epoch_interval=timedelta(milliseconds=epoch_ms),
        recovery_config=recovery(job),
    )


def recovery(job: dict[str, Any]) -> RecoveryConfig:
    """Return the recovery store; create it if it does not exist."""
    settings, store = job["settings"], Path(job["state"]) / "recovery"
    if not any(store.glob("*.sqlite3")):
        store.mkdir(parents=True, exist_ok=True)
        init_db_dir(store, int(settings.get("recovery_partitions", 1)))
    backup = timedelta(milliseconds=int(settings.get("backup_interval_ms", 0)))
    return RecoveryConfig(str(store), backup)


def dataflow(job: dict[str, Any]) -> Dataflow:
    """Connect source, workload and sink."""
    semantics, brokers = SEMANTICS[job["workload"]], [job["brokers"]]
    source = KafkaSource(
        brokers,
        [job["source"]],
        add_config=settings_of(job, "consumer."),
        **{name: int(value) for name, value in settings_of(job, "source.").items()},
    )
    flow = Dataflow(job["group"].replace(".", "-"))
    records = op.input("source", flow, source)
    results = (keyed if semantics.stateful else plain)(semantics, records, read_merchants(job))
    op.output("sink", results, KafkaSink(brokers, job["sink"], settings_of(job, "producer.")))
    return flow


def plain(semantics: Semantics, records: Stream, merchants: Merchants) -> Stream:
    """Apply a stateless step to the records."""
    step, written = semantics.step, writer(semantics)
    return op.flat_map(
        "step",
        records,
        lambda record: map(written, step({}, json.loads(record.value), merchants)),
    )


def keyed(semantics: Semantics, records: Stream, merchants: Merchants) -> Stream:
    """Apply a stateful step to the records of each key."""
    step, written = semantics.step, writer(semantics)

    def apply(
        state: State | None, record: KafkaSourceMessage
    ) -> tuple[State, list[KafkaSinkMessage]]:
        state = {} if state is None else state
        results = step(state, json.loads(record.value), merchants)
        return state, [written(result) for result in results]

    by_key = op.key_on("by_key", records, lambda record: record.key.decode())
    return op.key_rm("results", op.stateful_flat_map("step", by_key, apply))


def writer(semantics: Semantics) -> Callable[[Result], KafkaSinkMessage]:
    """Return the function that turns a result into a record of the sink."""
    slot = semantics.slot[0]
    return lambda result: KafkaSinkMessage(result[slot].encode(), json.dumps(result).encode())


def settings_of(job: dict[str, Any], prefix: str) -> dict[str, str]:
    """Return the settings with a prefix, without the prefix."""
    settings = job["settings"].items()
    return {name.removeprefix(prefix): value for name, value in settings if name.startswith(prefix)}


def read_merchants(job: dict[str, Any]) -> Merchants:
    """Read category and country by merchant."""
    with Path(job["merchants"]).open(newline="") as file:
        return {merchant: named for merchant, *named in csv.reader(file)}


if __name__ == "__main__":
    main()
