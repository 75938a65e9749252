"""The warm-up of a new broker."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from eagre.broker import Topics
from eagre.trial.trial import Trial, starter
from eagre_bench.systems.base import Job
from eagre_bench.systems.floor import Floor
from eagre_bench.workload import workload

if TYPE_CHECKING:
    from pathlib import Path

WARM_RATE, WARM_SECONDS = 2_000.0, 25.0
"""The warm-up load of a new broker: until its hot code is compiled."""


def warm_broker(brokers: str, folder: Path) -> None:
    """Load a new broker, producing and consuming: its first seconds are many times slower."""
    source, sink = "warm-up-events", "warm-up-results"
    topics = Topics(brokers)
    for topic in (source, sink):
        topics.create(topic, 1)
    state = folder / "warm-up"
    state.mkdir()
    job = Job("field", brokers, source, sink, "warm-up", 1_000, 0, str(state), "")
    events = workload("field").reference
    trial = Trial(events, source, sink, WARM_RATE, 0, WARM_SECONDS, forwards=True)
    start = starter(Floor().command(job), state, state / "log")
    trial.run(brokers, start, lambda _: None)
    topics.delete([source, sink])
    shutil.rmtree(state)
