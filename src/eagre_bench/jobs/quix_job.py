"""Quix Streams: every workload as one (stateful) apply, its state in Quix's RocksDB.

Settings ``consumer.*`` and ``producer.*`` are librdkafka's, ``rocksdb.*`` those of
``RocksDBOptions``, all others those of ``quixstreams.Application``.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quixstreams import Application
from quixstreams.state.rocksdb import RocksDBOptions
from semantics import SEMANTICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from quixstreams import State
    from semantics import Event, Merchants, Result, Semantics

STATE = "state"
"""The name of the single entry of a key in the store."""


def main() -> None:
    """Run the job that the file named by the only argument describes."""
    job = json.loads(Path(sys.argv[1]).read_text())
    app = application(job)
    dataflow(app, job)
    app.run()


def application(job: dict[str, Any]) -> Application:
    """Return the application with the job's settings."""
    arguments = {name: value for name, value in job["settings"].items() if "." not in name}
    options = {
        "consumer_group": job["group"],
        "auto_offset_reset": "earliest",
        "commit_interval": job["epoch_ms"] / 1000,
        "state_dir": job["state"],
        "consumer_extra_config": settings_of(job, "consumer."),
        "producer_extra_config": settings_of(job, "producer."),
        "rocksdb_options": RocksDBOptions(**typed(settings_of(job, "rocksdb."))),
        **typed(arguments),
    }
    return Application(job["brokers"], **options)


def typed(settings: dict[str, Any]) -> dict[str, Any]:
    """Convert settings from text to the types of Python arguments."""
    return {name: as_value(value) for name, value in settings.items()}


def as_value(value: Any) -> Any:  # noqa: ANN401  (whatever JSON can say)
    """Parse a text if it is JSON; otherwise return it unchanged."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def settings_of(job: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the settings with a prefix, without the prefix."""
    settings = job["settings"].items()
    return {name.removeprefix(prefix): value for name, value in settings if name.startswith(prefix)}


def dataflow(app: Application, job: dict[str, Any]) -> None:
    """Connect source, workload and sink."""
    semantics = SEMANTICS[job["workload"]]
    step = (keyed if semantics.stateful else plain)(semantics, read_merchants(job))
    slot = semantics.slot[0]
    results = app.dataframe(app.topic(job["source"])).apply(
        step, stateful=semantics.stateful, expand=True
    )
    results.to_topic(app.topic(job["sink"], key_serializer="str"), key=lambda row: row[slot])


def plain(semantics: Semantics, merchants: Merchants) -> Callable[[Event], list[Result]]:
    """Return the step of a stateless workload."""
    step = semantics.step
    return lambda event: step({}, event, merchants)


def keyed(semantics: Semantics, merchants: Merchants) -> Callable[[Event, State], list[Result]]:
    """Return the step of a workload with state, which reads and writes a key's state as one entry.

    No workload changes a state without a result, so that nothing is written for one without.
    """
    step = semantics.step

    def apply(event: Event, store: State) -> list[Result]:
        state = store.get(STATE, {})
        results = step(state, event, merchants)
        if results:
            store.set(STATE, state)
        return results

    return apply


def read_merchants(job: dict[str, Any]) -> Merchants:
    """Read category and country by merchant."""
    with Path(job["merchants"]).open(newline="") as file:
        return {merchant: named for merchant, *named in csv.reader(file)}


if __name__ == "__main__":
    main()
