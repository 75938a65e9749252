"""Writes ``docs/check.md``: how the check works, and every rule."""

from __future__ import annotations

import sys

from eagre.preflight.finding import LEVELS, Rule, known_rules

HEAD = """# Check, size, advise

Real-Time Mode fails at startup, or silently: Spark refuses unsupported operators when the query
starts, skips partitions if there are too few slots, adds up to 50 ms per shuffle, and lets state
grow until the disk is full. `eagre check` reports these problems before any data flows:

```sh
eagre check app.py                      # text; exit code 1 if a finding is an error
eagre check app.py --json report.json   # for programs
eagre check app.py --fix                # the settings to add
eagre explain SLOTS_TOO_FEW             # explain one finding
```

Spark plans the query for real time without starting it. The rules inspect the plan, the session's
settings, the options of sources and sink, the checkpoint and, if a broker answers, the topics. The
check writes nothing. It reads no records, unless `--sample` asks for the keys of the newest ones.
It lists what it could not inspect. `eagre run` runs the same check first and does not start if
there are errors; pass `--no-check` to start anyway.

In Python, pass a pipeline, or a plain PySpark write without `start()`:

```python
import eagre as eg


@eg.pipeline(source=eg.Kafka("payments", schema="card STRING"), sink=eg.Kafka("cards"))
def cards(df):
    return df.select("card")


report = eg.check(cards)  # or eg.check(df.writeStream.format("kafka")...)
report.ok, [finding.id for finding in report.findings]
```

An **error** means that the query does not start, loses rows or holds them back. A **warning** means
that it runs, but is slow or at risk. **Advice** means that it could be better.

## The JSON

The report has `schema_version` (1), `app`, `ok` and `pipelines`. Each pipeline has `name`, `mode`,
`ok`, `slots` (`needed`, `terms`, `available`), `unseen` and `findings`. Each finding has `id`,
`level`, `about`, `problem`, `consequence`, `remedy`, `line`, `numbers`, `settings`, `options` and
`error_class`. The schema is `eagre/preflight/schema.json` in the package; a breaking change raises
the version.

## `eagre size`

Every partition of every stage occupies a task slot while the query runs, so the total is known
before the start: `8 source + 20 shuffle = 28`. `eagre size app.py` computes it from the plan and
the topics. `eagre size --source-partitions 8 --shuffle-partitions 20 --shuffles 2` computes it from
numbers. With `--keys-per-second`, `--ttl` and `--bytes-per-key` it also estimates the state.

## `eagre advise`

Real time needs constant capacity, and many jobs are better off with micro-batches. `eagre advise
app.py --p99 500 --rate 2000 --core-hour 0.05` compares your p99 target with the latency and the
cost of each mode, and shows the calculations and their assumptions.

## The rules
"""


def page() -> str:
    """Return the whole document."""
    by_level = sorted(known_rules().values(), key=lambda rule: LEVELS.index(rule.level))
    return HEAD + "".join(_section(rule) for rule in by_level)


def _section(rule: Rule) -> str:
    heading = f"\n### {rule.id}\n\n*{rule.level}*"
    if rule.error_class:
        heading += f" · Spark: `{rule.error_class}`"
    return f"{heading}\n\n{rule.explanation}\n\nIf ignored: {rule.consequence}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
