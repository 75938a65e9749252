"""One use case under soak: its run, its tracker, and what is sampled and counted of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagre.broker import Topics
from eagre.runtime import runs as register

from .delivery_tracker import DeliveryTracker
from .jvm import inspect
from .load import now_us
from .samples import names, sample

if TYPE_CHECKING:
    from .runs import Run
    from .use_cases import UseCase

EXAMPLES = 3

Entries = dict[str, Any]


@dataclass
class Pipeline:
    """One use case under soak.

    Attributes:
        case: The use case.
        run: Its processes.
        tracker: Its events and results.
        kills: How often a part of it was killed.
    """

    case: UseCase
    run: Run
    tracker: DeliveryTracker = field(default_factory=DeliveryTracker)
    kills: int = 0
    _restarts: dict[int, int] = field(default_factory=dict)

    @property
    def phase(self) -> str:
        """Its phase, as ``eagre status`` has it; empty if it is not registered."""
        return "".join(status.phase for _, status in self._statuses())

    def sample(self) -> Entries:
        """Measure its processes and folders."""
        values, lives = sample(self.run)
        self.tracker.forget(now_us())
        return {"values": values, "lives": lives}

    def inspect(self) -> Entries:
        """Measure what costs more: the latencies since the last call, and the inside of the JVM."""
        window = self.tracker.window()
        latency = {"latency.p50_ms": window.p50_ms, "latency.p99_ms": window.p99_ms}
        entries: Entries = {"values": latency, "lives": {}, "names": names(self.run)}
        for process in self.run.processes().get("jvm", ()):
            values, entries["classes"] = inspect(process.pid)
            entries["values"] |= values
            entries["lives"] |= dict.fromkeys(values, str(process.pid))
        return {**entries, "records": window.records}

    def overdue(self) -> list[str]:
        """Note its restarts, and return what Eagre says about commits that are overdue."""
        statuses = self._statuses()
        self._restarts |= {pid: status.restarts for pid, status in statuses}
        return [status.overdue for _, status in statuses if status.overdue]

    def counts(self, brokers: str) -> Entries:
        """Return its counts at the end."""
        tracker, missing, topic = self.tracker, self.tracker.missing(), self.case.dead_letters
        return {
            "sent": tracker.sent,
            "expected": tracker.expected,
            "answered": tracker.answered,
            "results": tracker.results,
            "missing": len(missing),
            "examples": missing[:EXAMPLES],
            "repeated": tracker.repeated,
            "unexplained": tracker.unexplained,
            "broken": tracker.broken,
            "dead_letters": sum(Topics(brokers).ends([topic])[topic].values()),
            "kills": self.kills,
            "restarts": sum(self._restarts.values()),
        }

    def _statuses(self) -> list[tuple[int, register.PipelineStatus]]:
        """Return the status of its run with the id of the supervisor."""
        supervisors = {process.pid for process in self.run.processes().get("supervisor", ())}
        return [
            (run.pid, status)
            for run in register.running()
            if run.pid in supervisors
            for status in run.pipelines.values()
        ]
