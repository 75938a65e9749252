"""Injects the planned faults while the soak goes on, and notices when pipelines have recovered."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .faults import Fault, inject
from .load import now_us

if TYPE_CHECKING:
    from collections.abc import Callable

    from .pipelines import Pipeline

SETTLES_AFTER_SECONDS = 10

Report = tuple[str, dict[str, Any]]
"""The kind of a line of the record, and its entries."""


@dataclass
class Recovery:
    """A pipeline that was disturbed, and has not recovered yet; without a fault it has started."""

    pipeline: Pipeline
    fault: Fault | None
    since: float

    def is_over(self) -> bool:
        """Whether results flow again, and none is overdue."""
        tracker = self.pipeline.tracker
        waited = time.monotonic() - self.since
        return (
            waited > SETTLES_AFTER_SECONDS
            and tracker.resumed_us is not None
            and not tracker.waiting(now_us())
        )


class Disturbance:
    """The faults of a soak, one at a time.

    Args:
        faults: The faults, in the order of their times.
        pipelines: The pipelines by name.
        broker: The process of the broker.
        report: Receives what happened.
    """

    def __init__(
        self,
        faults: list[Fault],
        pipelines: dict[str, Pipeline],
        broker: int,
        report: Callable[[Report], None],
    ) -> None:
        self._faults, self._pipelines, self._broker = list(faults), pipelines, broker
        self._report = report
        self._hand = ThreadPoolExecutor(1, "soak-fault")
        self._under_way: tuple[Fault, Future[None]] | None = None
        self._recoveries: dict[str, Recovery] = {}

    def started(self, pipeline: Pipeline) -> None:
        """Note that a pipeline has started: its first results are late."""
        self._begin(pipeline, None)

    def is_calm(self, pipeline: Pipeline) -> bool:
        """Whether a pipeline has recovered from all faults."""
        return pipeline.case.name not in self._recoveries

    def step(self, seconds: float) -> None:
        """Inject the next fault if it is due, and look after the others."""
        if self._under_way is None and self._faults and seconds >= self._faults[0].seconds:
            self._inject(self._faults.pop(0))
        self._end_fault()
        for name, recovery in list(self._recoveries.items()):
            injecting = self._under_way and self._under_way[0] is recovery.fault
            if not injecting and recovery.is_over():
                self._end(self._recoveries.pop(name))

    def finish(self) -> None:
        """Wait for the fault that is under way."""
        self._hand.shutdown(wait=True)
        self._end_fault()

    def _inject(self, fault: Fault) -> None:
        """Inject a fault in the background: a drain takes its time, and the soak goes on."""
        entries = {"pipeline": fault.pipeline, "fault": fault.kind, "pause": fault.pause}
        self._report(("fault", entries))
        for name, pipeline in self._pipelines.items():
            if name == fault.pipeline or fault.hits_all:
                pipeline.kills += fault.explains_repeats
                self._begin(pipeline, fault)
        run = self._pipelines[fault.pipeline].run
        self._under_way = fault, self._hand.submit(inject, fault, run, self._broker)

    def _begin(self, pipeline: Pipeline, fault: Fault | None) -> None:
        pipeline.tracker.disturb(now_us(), explains_repeats=bool(fault and fault.explains_repeats))
        self._recoveries[pipeline.case.name] = Recovery(pipeline, fault, time.monotonic())

    def _end_fault(self) -> None:
        if self._under_way and self._under_way[1].done():
            (fault, done), self._under_way = self._under_way, None
            if error := done.exception():
                self._report(("problem", {"text": f"{fault.pipeline}: {fault.kind}: {error}"}))

    def _end(self, recovery: Recovery) -> None:
        tracker, fault = recovery.pipeline.tracker, recovery.fault
        tracker.settle(now_us())
        if fault:
            entries = {"pipeline": recovery.pipeline.case.name, "fault": fault.kind}
            self._report(("resumed", {**entries, "seconds": tracker.resumed_seconds}))
