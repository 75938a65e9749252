"""The effect of each setting of the latency profile: with it, and with it alone taken back.

A count and a sum per key at 2,000 records/s in real time, with epochs short enough that their
boundaries are in the figures; rounds interleaved, medians taken. Writes ``docs/profile.md``.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.profile import GC_OPTIONS, PROFILE, Setting
from eagre_bench.campaign import Bench, Options
from eagre_bench.systems.spark import Eagre

if TYPE_CHECKING:
    from collections.abc import Iterator

OPTIONS = Options(warmup=30.0, seconds=15.0, epoch="10 seconds")
FIGURES = ("p50_ms", "p99_ms", "max_ms")
TARGET = Path("docs/profile.md")
PAGE = """# The profiles

What `eg.configure` and `eg.session` set, unless you did. Your own settings, in the builder or in
`spark-defaults.conf`, always win; each that differs is reported once.

## For latency
The default.

| setting | value | reason | p50, ms without → with | p99, ms without → with |
|---|---|---|---|---|
{table}

Measured on {date}, {cores} cores, by `make profile`: count and sum per key, {rate:,.0f} records/s,
epochs of {epoch} with their boundaries in the figures, medians of {rounds} rounds of
{seconds:.0f} s. *Without* is Spark's default (for the shuffle partitions 8, since 200 need as many
slots). The profile measured twice differs by itself: p50 {base[p50_ms]:.1f} and
{again[p50_ms]:.1f} ms, p99 {base[p99_ms]:.0f} and {again[p99_ms]:.0f} ms; smaller differences mean
nothing.

This is one JVM, where rows go from hand to hand instead of through Spark's shuffle
([decision 17](decisions/0017-local-shuffle.md)) and state is written while the epoch goes on
([decision 16](decisions/0016-state-bookmarks.md)): what the first four settings mend is hardly
there any more. They are for where Spark's own shuffle and ends of epochs are at work, such as a
cluster. With those, on one machine, measured in the same way on 2026-11-15:

| setting | p50, ms without → with | p99, ms without → with |
|---|---|---|
| `spark.shuffle.streaming.networkBufferMaxWaitTimeMs` | 34.5 → 8.3 | 1166 → 811 |
| `spark.sql.shuffle.partitions` (8 → 2) | 43.1 → 8.3 | 2172 → 811 |
| `...stateStore.rocksdb.changelogCheckpointing.enabled` | 8.0 → 8.3 | 1382 → 811 |
| `spark.sql.streaming.checkpointFileManagerClass` | see [the end of an epoch](boundary.md) | |

One shuffle partition instead of two, with epochs of 5 minutes: p50 2.1 → 1.6 ms, p99 13 → 7 ms. The
profile differed by itself there too: p50 8.3 and 5.2 ms, p99 811 and 620 ms. No effect could be
seen of 2 GB of driver memory instead of 1 (p99 793 ms) and of adaptive planning off (714 ms), which
are left out. The collector and the heap: [decision 7](decisions/0007-heap-and-threads.md).

Beside the table: `kafka.linger.ms=0` on the sink's producer (a producer that lingers adds its wait
to every record) and `kafka.enable.metrics.push=false` on its clients (they look with every request
whether to push their metrics to the broker: 4 % of a stateless pipeline's JVM); Spark's ports, its
UI included, on 127.0.0.1 in local mode; 64 task slots (threads) where no master is named.

## For throughput
`eagre run --profile throughput`, or the Spark setting `spark.eagre.profile=throughput` for sessions
of your own. Where records are apart, Kafka's clients fetch and send each in its own request; on
few cores those requests, in the clients and in the broker, are most of the work. This profile lets
a record wait up to 5 ms on its way in and 5 ms on its way out, and share its request:

| | for latency | for throughput |
|---|---|---|
| source: `kafka.fetch.min.bytes` | Kafka's default, 1 | 65536 |
| source: `kafka.fetch.max.wait.ms` | Kafka's default, without effect then | 5 |
| sink: `kafka.linger.ms` | 0 | 5 |
| sink: `kafka.batch.size` | Kafka's default, 16384 | 131072 |
| sink: `kafka.compression.type` | Kafka's default, none | lz4 |

Spark's settings are the same in both, so a checkpoint serves either and a run may change its
profile. Options of `eg.Kafka` win over both. A database as sink has no profile: its writes share
their way by themselves ([decision 9](decisions/0009-databases-by-version.md)).

`count` on two cores at half their usual speed, 2026-11-17, 45 s of warm-up, one run each,
milliseconds and processor seconds per million records, the broker's apart:

| records/s | | p50 | p99 | CPU s/M |
|---|---|---|---|---|
| 2,000 | for latency, twice | 0.8 and 1.3 | 5.6 and 6.4 | 228 and 233 |
| | waits of 1 ms instead of 5 | 2.9 | 6.5 | 129 |
| | waits of 2 ms | 4.5 | 7.6 | 89 |
| | the profile | 10.0 | 16 | |
| 4,000 | for latency | 123 | 918 | 131 |
| | a producer that lingers 5 ms, and no more | 7.9 | 204 | 141 |
| | and fetches that wait | 10.0 | 20 | 79 |
| | and lz4: the profile | 9.9 | 18 | 70 |
| | Flink, without lingering | 83 | 456 | 150 |
| 8,000 | the profile, twice | 12 and 18 | 75 and 131 | 38 and 49 |
| | Flink with these options on its clients | 13 | 146 | 45 |
| 12,000 | the profile without lz4 | 26 | 403 | 32 |
| | the profile | 11 | 89 | 28 |
| 16,000 | the profile, three times | 13, 14 and 24 | 128, 96 and 221 | 27 |
| | Flink with these options on its clients | 25 | 283 | 31 |

`eagre bench run count --systems eagre-throughput --find-rate`, the highest rate with a p99 below
100 ms: 16,000 records/s, and not 22,627 (p99 802 ms); with the profile for latency 2,000 and not
2,378, Flink without lingering 2,000 as well. The load itself, a request for each record, takes its
share of the two cores.

Which profile is better follows the rate, not the machine: up to some 2,000 small records/s on two
cores the one for latency, above it the other, where 10 ms are no harm. `eagre advise --rate` says
so. What follows the machine is chosen by its size: shuffle partitions and parallelism by the cores,
the young part of the heap by its memory.
"""

Figures = dict[str, float]


def variants() -> Iterator[tuple[str, dict[str, str]]]:
    """The profile twice, to see what noise alone does, then each setting taken back."""
    yield "profile", {}
    yield "profile again", {}
    for setting in (*PROFILE, GC_OPTIONS):
        if setting.without is not None:
            yield setting.key, {setting.key: setting.without}


class Quiet:
    """Tells of each variant once."""

    def say(self, text: str) -> None:
        """Pass on what is being done."""
        sys.stderr.write(f"{text}\n")

    def begin(self, *_: object) -> None:
        """Nothing."""

    def second(self, *_: object) -> None:
        """Nothing."""

    def end(self, figures: dict[str, Any]) -> None:
        """Show the figures."""
        shown = ", ".join(f"{f} {figures[f]:.1f}" for f in FIGURES if f in figures)
        self.say(f"{shown} {'; '.join(figures['problems'])}")


def run(rounds: int) -> dict[str, Figures]:
    """Measure every variant in each round, and give the medians."""
    seen: dict[str, list[Figures]] = {}
    chosen = OPTIONS.applied("count")
    with (
        tempfile.TemporaryDirectory() as scratch,
        Bench(Path(scratch), OPTIONS, Quiet()) as bench,
    ):
        for number in range(rounds):
            for name, settings in variants():
                sys.stderr.write(f"round {number + 1}: {name}\n")
                seen.setdefault(name, []).append(bench.measure(chosen, Eagre(settings)))
    return {name: _median(figures) for name, figures in seen.items()}


def page(results: dict[str, Figures], rounds: int) -> str:
    """Write the table."""
    lines = [_line(setting, results) for setting in (*PROFILE, GC_OPTIONS)]
    chosen = OPTIONS.applied("count")
    return PAGE.format(
        table="\n".join(lines),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        cores=os.cpu_count(),
        rounds=rounds,
        rate=chosen.rate,
        epoch=chosen.epoch,
        seconds=chosen.seconds,
        base=results["profile"],
        again=results["profile again"],
    )


def _line(setting: Setting, results: dict[str, Figures]) -> str:
    base, without = results["profile"], results.get(setting.key)
    told = [
        f"{without[f]:.1f} → {base[f]:.1f}" if without else "not for latency"
        for f in ("p50_ms", "p99_ms")
    ]
    return f"| `{setting.key}` | `{setting.shown}` | {setting.reason} | {told[0]} | {told[1]} |"


def _median(figures: list[Figures]) -> Figures:
    return {f: statistics.median(one[f] for one in figures) for f in FIGURES}


def main() -> None:
    """Measure, and write the page."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    TARGET.write_text(page(run(rounds), rounds))


if __name__ == "__main__":
    main()
