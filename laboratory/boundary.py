"""The epoch boundary, phase by phase: the time in which no row is processed.

Spark's log shows when each phase ends, to the millisecond. ``make boundary`` runs a count and
a sum per key, with and without a setting, in turn, and prints the phases.
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
from eagre_bench.campaign import Options, Testbed
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
    "newest offsets of the source": "Delay offset logging",
    "planning and job creation": "DAGScheduler Got job ",
    "tasks start": "Creating Kafka reader",
    "consumer seeks and fetches": "Kafka source record timestamp type",
}
"""Each phase with the text that Spark logs at its end."""
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
WITHOUT = {"profile": {}, "Hadoop's checkpoint files": {FILES.key: str(FILES.without)}}

Times = list[int]


class Logged(Eagre):
    """Eagre, with Spark's log of epoch boundaries in a file."""

    def __init__(self, path: Path, overrides: dict[str, str]) -> None:
        super().__init__(overrides)
        self._path = path

    def command(self, job: Job) -> Command:
        """Return the usual command with a separate log."""
        file = self._path.with_suffix(".properties")
        file.write_text(LOG.format(path=self._path))
        usual = super().command(job)
        option = {"JAVA_TOOL_OPTIONS": f"-Dlog4j2.configurationFile={file}"}
        return replace(usual, environment={**usual.environment, **option})


def boundaries(lines: Iterable[str]) -> Iterator[Times]:
    """Yield each complete epoch boundary: the times at which its phases ended.

    >>> lines = [f"{10**12 + 5 * at} {text} 7" for at, text in enumerate(PHASES.values())]
    >>> [[at - times[0] for at in times] for times in boundaries(lines)]
    [[0, 5, 10, 15, 20, 25, 30, 35]]
    """
    texts = list(PHASES.values())
    times: Times = []
    for line in lines:
        entry = re.match(r"(\d{13}) (.*)", line)
        if not entry:
            continue
        if texts[0] in entry[2]:
            times = [int(entry[1])]
        elif times and texts[len(times)] in entry[2]:
            times.append(int(entry[1]))
            if len(times) == len(texts):
                yield times
                times = []


def phases(measured: list[Times]) -> dict[str, float]:
    """Return the median of each phase and of the total, in milliseconds."""
    names = list(PHASES)
    medians = {
        name: statistics.median(times[at] - times[at - 1] for times in measured)
        for at, name in enumerate(names)
        if at
    }
    return {**medians, "total": statistics.median(times[-1] - times[0] for times in measured)}


def run(rounds: int) -> dict[str, dict[str, float]]:
    """Run each variant in each round, and return its phases."""
    seen: dict[str, list[Times]] = {name: [] for name in WITHOUT}
    chosen = OPTIONS.applied("count")
    with (
        tempfile.TemporaryDirectory() as scratch,
        Testbed(Path(scratch), OPTIONS, Quiet()) as bench,
    ):
        for number in range(rounds):
            for variant, (name, settings) in enumerate(WITHOUT.items()):
                log = Path(scratch) / f"{number}-{variant}.log"
                figures: dict[str, Any] = bench.measure(chosen, Logged(log, settings))
                sys.stderr.write(f"round {number + 1}: {name}: {figures.get('gaps_ms')}\n")
                with log.open() as lines:
                    seen[name] += boundaries(lines)
    return {name: phases(times) for name, times in seen.items()}


def main() -> None:
    """Measure, and print the table of ``docs/internals/boundary.md``."""
    medians = run(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    sys.stdout.write(f"| phase | {' | '.join(medians)} |\n|---|{'---|' * len(medians)}\n")
    for phase in next(iter(medians.values())):
        figures = " | ".join(f"{of[phase]:.0f}" for of in medians.values())
        sys.stdout.write(f"| {phase} | {figures} |\n")


if __name__ == "__main__":
    main()
