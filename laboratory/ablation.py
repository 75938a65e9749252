"""The effect of each setting of the latency profile: the profile, and the profile without it.

A count and a sum per key at 2,000 records/s in real time, with commits every 10 s in the figures;
rounds are interleaved, and medians are reported. ``make profile`` measures, stores the figures in
``laboratory/ablation.json`` and writes the tables of ``docs/reference/profile.md`` and
``docs/internals/ablations.md``. ``python -m laboratory.ablation --tables`` writes the tables from
the stored figures.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.profile import GC_OPTIONS, PROFILE, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED = Path(__file__).with_name("ablation.json")
PAGES = (Path("docs/reference/profile.md"), Path("docs/internals/ablations.md"))
MEASURED = "in one JVM"
"""The name of the figures that a measurement replaces; the others need different settings."""
FIGURES = {"p50_ms": "p50", "p99_ms": "p99"}

AFFECTS = {
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "p50 and p99 of pipelines with a shuffle "
    "on a cluster; nothing in local mode, where the in-process shuffle has no such buffer",
    "spark.sql.shuffle.partitions": "p50 and p99 of pipelines with a shuffle",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "p99 with state: the "
    "duration of a commit",
    "spark.sql.streaming.checkpointFileManagerClass": "p99: the duration of a commit on a local "
    "disk",
    "spark.driver.extraJavaOptions": "p95 and p99 of every pipeline: GC pauses",
    "spark.ui.enabled": "no latency: one open port less, less memory",
    "spark.sql.streaming.stateStore.providerClass": "no latency: required",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "no latency: required",
    "spark.default.parallelism": "no latency of the stream: batch reads beside it",
    "spark.sql.session.timeZone": "no latency: results",
    "spark.ui.showConsoleProgress": "no latency: the terminal",
}
"""Which latency a setting affects, if any."""

ELSEWHERE = {
    "spark.sql.streaming.checkpointFileManagerClass": "the gap at an epoch boundary, 1,064 → "
    "548 ms in one run each ([notebook](../internals/boundary.md#what-was-kept))",
    "spark.driver.extraJavaOptions": "heap and metaspace alone, two runs each of `field`: p95 11.6 "
    "and 14 → 3.0 and 4.5 ms, p99 70 and 35 → 6.4 and 17 ms "
    "([decision 7](../internals/decisions/0007-heap-and-threads.md))",
}
"""Results of other measurements of a setting."""

Figures = dict[str, float]
Recorded = dict[str, Any]


def variants() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the profile twice, to measure noise, then the profile without each setting."""
    yield "profile", {}
    yield "profile again", {}
    for setting in (*PROFILE, GC_OPTIONS):
        if setting.without is not None:
            yield setting.key, {setting.key: setting.without}


class Quiet:
    """An observer that prints each variant once."""

    def say(self, text: str) -> None:
        """Print what is being measured."""
        sys.stderr.write(f"{text}\n")

    def begin(self, *_: object) -> None:
        """Print nothing."""

    def second(self, *_: object) -> None:
        """Print nothing."""

    def end(self, figures: dict[str, Any]) -> None:
        """Print the figures."""
        shown = ", ".join(f"{f} {figures[f]:.1f}" for f in FIGURES if f in figures)
        self.say(f"{shown} {'; '.join(figures['problems'])}")


def measure(rounds: int) -> Recorded:
    """Measure every variant in each round, and return the medians."""
    from eagre_bench.campaign import Options, Testbed
    from eagre_bench.systems.spark import Eagre

    options = Options(warmup=30.0, seconds=15.0, epoch="10 seconds")
    seen: dict[str, list[Figures]] = {}
    chosen = options.applied("count")
    with (
        tempfile.TemporaryDirectory() as scratch,
        Testbed(Path(scratch), options, Quiet()) as bench,
    ):
        for number in range(rounds):
            for name, settings in variants():
                sys.stderr.write(f"round {number + 1}: {name}\n")
                seen.setdefault(name, []).append(bench.measure(chosen, Eagre(settings)))
    medians = {name: _median(figures) for name, figures in seen.items()}
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "rounds": rounds,
        "seconds": chosen.seconds,
        "profile": medians.pop("profile"),
        "again": medians.pop("profile again"),
        "without": medians,
    }


def _median(figures: list[Figures]) -> Figures:
    return {f: statistics.median(trial[f] for trial in figures) for f in FIGURES}


def noise(run: Recorded, figure: str) -> float:
    """Return how much the profile differs from itself in a run, as a ratio.

    >>> noise({"profile": {"p50_ms": 4.0}, "again": {"p50_ms": 2.0}}, "p50_ms")
    2.0
    """
    return _ratio(run["profile"][figure], run["again"][figure])


def effect(run: Recorded, key: str) -> str:
    """Describe the effect of a setting in a run, or that it is within noise.

    >>> run = {"profile": {"p50_ms": 4.0, "p99_ms": 90.0}, "again": {"p50_ms": 5.0, "p99_ms": 30.0}}
    >>> effect({**run, "without": {"a": {"p50_ms": 20.0, "p99_ms": 50.0}}}, "a")
    'p50 20.0 → 4.0 ms; p99 within noise'
    >>> effect({**run, "without": {"a": {"p50_ms": 4.1, "p99_ms": 50.0}}}, "a")
    'within noise'
    >>> effect({**run, "without": {}}, "a")
    'not measured'
    """
    without = run["without"].get(key)
    if without is None:
        return "not measured"
    changes = {
        name: _change(without[f], run["profile"][f])
        if _ratio(without[f], run["profile"][f]) > noise(run, f)
        else "within noise"
        for f, name in FIGURES.items()
    }
    if set(changes.values()) == {"within noise"}:
        return "within noise"
    return "; ".join(f"{name} {change}" for name, change in changes.items())


def settings_table(recorded: Recorded) -> str:
    """Return a table of settings: purpose, affected latency, measured effect."""
    lines = [
        "| setting | value | what it does | affects | measured effect, without → with |",
        "|---|---|---|---|---|",
    ]
    lines += [_line(setting, recorded) for setting in (*PROFILE, GC_OPTIONS)]
    return "\n".join(lines)


def _line(setting: Setting, recorded: Recorded) -> str:
    effects = [
        f"{name}: {shown}"
        for name, run in recorded.items()
        if (shown := effect(run, setting.key)) != "not measured"
    ]
    if setting.key in ELSEWHERE:
        effects.append(ELSEWHERE[setting.key])
    return (
        f"| `{setting.key}` | `{setting.shown}` | {setting.reason} | {AFFECTS[setting.key]} | "
        f"{'; '.join(effects) or 'not measured'} |"
    )


def runs_table(recorded: Recorded) -> str:
    """Return a table of the measured figures."""
    lines = ["| run | variant | p50, ms | p99, ms |", "|---|---|---:|---:|"]
    for name, run in recorded.items():
        rows = {"the profile": run["profile"], "the profile again": run["again"]}
        rows |= {f"without `{key}`": figures for key, figures in run["without"].items()}
        for number, (variant, figures) in enumerate(rows.items()):
            shown = f"{name}, {run['date']}" if not number else ""
            p50, p99 = (_number(figures[f]) for f in FIGURES)
            lines.append(f"| {shown} | {variant} | {p50} | {p99} |")
    return "\n".join(lines)


def written(page: str, recorded: Recorded) -> str:
    r"""Replace the tables between the markers of a page.

    >>> "p50" in written("<!-- ablation:runs -->\n<!-- /ablation -->", {})
    True
    """
    for name, table in (("settings", settings_table), ("runs", runs_table)):
        marker = f"<!-- ablation:{name} -->\n"
        head, has_table, rest = page.partition(marker)
        if has_table:
            _, end, tail = rest.partition("<!-- /ablation -->")
            page = f"{head}{marker}{table(recorded)}\n{end}{tail}"
    return page


def _ratio(first: float, second: float) -> float:
    return max(first, second) / min(first, second)


def _change(without: float, with_it: float) -> str:
    return f"{_number(without)} → {_number(with_it)} ms"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"  # noqa: PLR2004  (a digit more)


def main() -> None:
    """Measure, unless only the tables are requested, and write the pages."""
    recorded: Recorded = json.loads(RECORDED.read_text())
    if sys.argv[1:] != ["--tables"]:
        recorded[MEASURED] = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
        RECORDED.write_text(json.dumps(recorded, indent=2) + "\n")
    for path in PAGES:
        path.write_text(written(path.read_text(), recorded))


if __name__ == "__main__":
    main()
