"""The end of an epoch, phase by phase: where the time goes in which no row is processed.

Spark's own log tells when each phase begins, to the millisecond. ``make boundary`` runs a count and
a sum per key, as it is and with settings taken back, in turn, and prints the phases.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.profile import PROFILE
from eagre_bench.campaign import Bench, Options
from eagre_bench.systems.spark import Eagre
from laboratory.ablation import Quiet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eagre.trial.process import Command
    from eagre_bench.systems.base import Job

OPTIONS = Options(warmup=30.0, seconds=60.0, epoch="5 seconds")
PHASES = {
    "last row": "KafkaDataConsumer From Kafka topicPartition",
    "tasks end, state is committed": "DAGScheduler Job ",
    "offset log": "Committed offsets for batch",
    "commit log, progress": "Streaming query made progress",
    "the source's newest offsets": "Delay offset logging",
    "planning, and the job's making": "DAGScheduler Got job ",
    "tasks start": "Creating Kafka reader",
    "consumer seeks and fetches": "Kafka source record timestamp type",
}
"""Each with what Spark logs at its end."""
LOG = """status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{UNIX_MILLIS}} %c{{1}} %m%n%ex{{0}}
logger.streaming.name = org.apache.spark.sql.execution.streaming
logger.streaming.level = info
logger.scheduler.name = org.apache.spark.scheduler.DAGScheduler
logger.scheduler.level = info
logger.kafka.name = org.apache.spark.sql.kafka010
logger.kafka.level = info
"""
FILES = next(setting for setting in PROFILE if setting.key.endswith("checkpointFileManagerClass"))
WITHOUT = {"as it is": {}, "Hadoop's checkpoint files": {FILES.key: str(FILES.without)}}

Times = list[int]


class Logged(Eagre):
    """Eagre, with what Spark logs of the ends of epochs in a file."""

    def __init__(self, path: Path, overrides: dict[str, str]) -> None:
        super().__init__(overrides)
        self._path = path

    def command(self, job: Job) -> Command:
        """The same, with a log of its own."""
        file = self._path.with_suffix(".properties")
        file.write_text(LOG.format(path=self._path))
        usual = super().command(job)
        option = {"JAVA_TOOL_OPTIONS": f"-Dlog4j2.configurationFile={file}"}
        return replace(usual, environment={**usual.environment, **option})


def boundaries(lines: Iterable[str]) -> Iterator[Times]:
    """Find each end of an epoch that is whole, and when its phases ended.

    >>> lines = [f"{10**12 + 5 * at} {mark} 7" for at, mark in enumerate(PHASES.values())]
    >>> [[at - found[0] for at in found] for found in boundaries(lines)]
    [[0, 5, 10, 15, 20, 25, 30, 35]]
    """
    marks = list(PHASES.values())
    found: Times = []
    for line in lines:
        told = re.match(r"(\d{13}) (.*)", line)
        if not told:
            continue
        if marks[0] in told[2]:
            found = [int(told[1])]
        elif found and marks[len(found)] in told[2]:
            found.append(int(told[1]))
            if len(found) == len(marks):
                yield found
                found = []


def phases(found: list[Times]) -> dict[str, float]:
    """The median of each phase, and of their sum, in milliseconds."""
    names = list(PHASES)
    told = {
        name: statistics.median(times[at] - times[at - 1] for times in found)
        for at, name in enumerate(names)
        if at
    }
    return {**told, "in all": statistics.median(times[-1] - times[0] for times in found)}


def run(rounds: int) -> dict[str, dict[str, float]]:
    """Run each variant in each round, and give its phases."""
    seen: dict[str, list[Times]] = {name: [] for name in WITHOUT}
    chosen = OPTIONS.applied("count")
    with (
        tempfile.TemporaryDirectory() as scratch,
        Bench(Path(scratch), OPTIONS, Quiet()) as bench,
    ):
        for number in range(rounds):
            for variant, (name, settings) in enumerate(WITHOUT.items()):
                log = Path(scratch) / f"{number}-{variant}.log"
                figures: dict[str, Any] = bench.measure(chosen, Logged(log, settings))
                sys.stderr.write(f"round {number + 1}: {name}: {figures.get('gaps_ms')}\n")
                with log.open() as lines:
                    seen[name] += boundaries(lines)
    return {name: phases(found) for name, found in seen.items()}


def main() -> None:
    """Measure, and print the table of ``docs/internals/boundary.md``."""
    told = run(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    sys.stdout.write(f"| phase | {' | '.join(told)} |\n|---|{'---|' * len(told)}\n")
    for phase in next(iter(told.values())):
        figures = " | ".join(f"{of[phase]:.0f}" for of in told.values())
        sys.stdout.write(f"| {phase} | {figures} |\n")


if __name__ == "__main__":
    main()
