"""Writes ``docs/reference/check.md``: what the check is, and every rule."""

from __future__ import annotations

import sys

from eagre.preflight.finding import LEVELS, Rule, known_rules

HEAD = """# Check, size, advise

Real-Time Mode fails late, or silently: an operator outside its allow-list is refused when the query
starts, missing slots starve partitions without a word, a 50 ms buffer multiplies the median, state
grows until the disk is full. `eagre check` says so before any data flows:

```sh
eagre check app.py                      # text; exit code 1 if a finding is an error
eagre check app.py --json report.json   # for programs
eagre check app.py --fix                # the settings to add
eagre explain SLOTS_TOO_FEW             # all about one finding
```

Spark plans the query as it would in real time, without starting it, and the rules look at that
plan, at the session's settings, at the options of sources and sink, at the checkpoint, and, where a
broker answers, at the topics. No record is read (unless `--sample` asks for a look at the keys of
the newest ones) and nothing is written. What could not be seen is listed as such. `eagre run` does
the same first and refuses on errors; `--no-check` starts it anyway.

In Python, for a pipeline or for a plain PySpark write up to and without `start()`:

```python
import eagre as eg


@eg.pipeline(source=eg.Kafka("payments", schema="card STRING"), sink=eg.Kafka("cards"))
def cards(df):
    return df.select("card")


report = eg.check(cards)  # or eg.check(df.writeStream.format("kafka")...)
report.ok, [finding.id for finding in report.findings]
```

An **error**: the query is refused, loses rows or withholds them. A **warning**: it runs, and is
slower or in danger. **Advice**: it could be better.

## The JSON

`schema_version` (1), `app`, `ok`, and for each of the `pipelines` its `name`, `mode`, `ok`, `slots`
(`needed`, `terms`, `available`), `unseen`, and `findings` with `id`, `level`, `about`, `problem`,
`consequence`, `remedy`, `line`, `numbers`, `settings`, `options` and `error_class`. The schema is
`eagre/preflight/schema.json` in the package; a change that breaks readers raises the version.

## `eagre size`

Every partition of every stage holds a task slot for as long as the query runs, so the sum is known
before the start: `8 source + 20 shuffle = 28`. From the plan and the topics (`eagre size app.py`),
or from numbers (`eagre size --source-partitions 8 --shuffle-partitions 20 --shuffles 2`); with
`--keys-per-second`, `--ttl` and `--bytes-per-key` also the state.

## `eagre advise`

Real time needs steady capacity, and many jobs are better as micro-batches. `eagre advise app.py
--p99 500 --rate 2000 --core-hour 0.05` weighs the wanted p99 against what each mode keeps and
costs, and shows the sums and what they take for granted.

## The rules
"""


def page() -> str:
    """Give the whole page."""
    by_level = sorted(known_rules().values(), key=lambda rule: LEVELS.index(rule.level))
    return HEAD + "".join(_section(rule) for rule in by_level)


def _section(rule: Rule) -> str:
    told = f"\n### {rule.id}\n\n*{rule.level}*"
    if rule.error_class:
        told += f" · Spark: `{rule.error_class}`"
    return f"{told}\n\n{rule.explanation}\n\nIf ignored: {rule.consequence}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
