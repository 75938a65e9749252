"""Generates ``docs/reference/check.md``: an introduction to the check, and every rule."""

from __future__ import annotations

import sys

from eagre.preflight.finding import LEVELS, Rule, known_rules

HEAD = """# Check, size, advise

Real-Time Mode fails late, or silently. An operator outside its allow-list is refused only when the
query starts. With too few task slots it silently skips partitions. A 50 ms buffer multiplies the
median, and state grows until the disk is full. `eagre check` reports this before any data flows:

```sh
eagre check app.py                      # text; exit code 1 if a finding is an error
eagre check app.py --json report.json   # for programs
eagre check app.py --fix                # the settings to add
eagre explain SLOTS_TOO_FEW             # one finding in detail
```

Spark plans the query as it would in real time, without starting it. The rules examine that plan,
the settings of the session, the options of sources and sink, the checkpoint, and, if a broker
answers, the topics. The check reads no records (unless `--sample` asks for the keys of the newest
ones) and writes nothing. It lists what it could not examine. `eagre run` runs the same check first
and refuses to start on errors; pass `--no-check` to start anyway.

Shown by: an error is what Spark refuses, and a good pipeline has none:
`tests/test_check_corpus.py::test_spark_refuses_every_pipeline_with_an_error`,
`tests/test_check_corpus.py::test_a_good_pipeline_has_no_findings`. A pipeline with a warning
starts: `tests/test_check_corpus.py::test_a_pipeline_with_a_warning_starts`. A check changes
nothing and starts no job:
`tests/test_check.py::test_a_check_changes_neither_topics_nor_checkpoint`,
`tests/test_check.py::test_a_check_starts_no_job`. A run checks first:
`tests/test_check.py::test_a_run_checks_first_unless_no_check_is_given`.

In Python, for a pipeline or for a plain PySpark write without the call of `start()`:

```python
import eagre as eg


@eg.pipeline(source=eg.Kafka("payments", schema="card STRING"), sink=eg.Kafka("cards"))
def cards(df):
    return df.select("card")


report = eg.check(cards)  # or eg.check(df.writeStream.format("kafka")...)
report.ok, [finding.id for finding in report.findings]
```

An **error**: the query is refused, loses rows or withholds them. A **warning**: it runs, but is
slower or at risk. **Advice**: it could be better.

## The JSON

`schema_version` (1), `app`, `ok`, and for each of the `pipelines` its `name`, `mode`, `ok`, `slots`
(`needed`, `terms`, `available`, `executors`), `unseen`, and `findings` with `id`, `level`, `about`,
`problem`, `consequence`, `remedy`, `line`, `numbers`, `settings`, `options` and `error_class`. The
schema is `eagre/preflight/schema.json` in the package; an incompatible change increases the
version.

## `eagre size`

Every partition of every stage holds a task slot for as long as the query runs, so the number is
known before the start: `8 source + 20 shuffle = 28`. `eagre size app.py` calculates it from the
plan and the topics, `eagre size --source-partitions 8 --shuffle-partitions 20 --shuffles 2` from
numbers. `--keys-per-second`, `--ttl` and `--bytes-per-key` add the size of the state.

## `eagre advise`

Real time needs steady capacity, and many jobs are better as micro-batches. `eagre advise app.py
--p99 500 --rate 2000 --core-hour 0.05` recommends a mode for a latency target: it compares the
latency and the cost of each mode and shows its calculation and its assumptions. It counts a core
for each slot on a cluster, and for every four slots in local mode.

## The rules
"""


def reference() -> str:
    """Return the text of ``docs/reference/check.md``."""
    by_level = sorted(known_rules().values(), key=lambda rule: LEVELS.index(rule.level))
    return HEAD + "".join(_section(rule) for rule in by_level)


def _section(rule: Rule) -> str:
    heading = f"\n### {rule.id}\n\n*{rule.level}*"
    if rule.error_class:
        heading += f" · Spark: `{rule.error_class}`"
    return f"{heading}\n\n{rule.explanation}\n\nIf ignored: {rule.consequence}\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
