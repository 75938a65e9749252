"""The floor: the same records through the broker, two hops without processing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from eagre.trial.process import Command
from eagre_bench.systems.base import JOBS, System

if TYPE_CHECKING:
    from eagre_bench.systems.base import Job


class Floor(System):
    """A loop that consumes and produces."""

    name = "floor"
    title = "Kafka alone, two hops"
    forwards = True

    def settings(self, job: Job) -> dict[str, str]:
        """Return the settings: no lingering, commits once per epoch."""
        return {
            "consumer.auto.commit.interval.ms": str(job.epoch_ms),
            "consumer.socket.nagle.disable": "true",
            "producer.linger.ms": "0",
            "producer.acks": "1",
            "producer.socket.nagle.disable": "true",
        }

    def command(self, job: Job) -> Command:
        """Run the loop in this environment."""
        path = job.write(self.settings(job))
        return Command([sys.executable, str(JOBS / "floor_job.py"), str(path)])
