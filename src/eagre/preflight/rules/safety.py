"""What makes a query repeat itself, leak, or run in a way that has no future."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from eagre.preflight.facts import number
from eagre.preflight.finding import RULES, Found, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

SECRET = re.compile(
    r"passw(or)?d|secret|credential|jaas|(access|session|account|auth|sas|api)[._-]?(key|token)"
    r"|\.token$|\.key$",
    re.IGNORECASE,
)
HARMLESS = re.compile(
    r"(file|path|location|provider|alias|enabled|class|algorithm|type)$|^spark\.redaction\.",
    re.IGNORECASE,
)


@rule(
    "CONTINUOUS_TRIGGER",
    "warning",
    "The query stays at map and filter: no state, no exactly once, no tooling, and no development.",
    real_time_only=False,
)
def continuous_trigger(facts: Facts) -> Iterator[Found]:
    """`trigger(continuous=...)` was Spark's first attempt at milliseconds and stayed experimental.

    It knows neither aggregation nor joins. The way over: take the checkpoint's offsets, or start
    from `latest`, with a fresh checkpoint, and change two words:

        writer.outputMode("update").trigger(realTime="1 minute")

    What was read once is read again from the last committed epoch, as before.
    """
    if facts.plan.trigger != "continuous":
        return
    there = replace(facts, mode="real-time")
    ahead = {
        finding.id
        for rule_ in RULES.values()
        if rule_.real_time_only and rule_.level == "error"
        for finding in rule_.check(there)
    } - {"OUTPUT_MODE"}
    also = f" Before that: {', '.join(sorted(ahead))}." if ahead else ""
    yield Found(
        'trigger(continuous="...")',
        "the query runs in the old continuous mode.",
        'use .outputMode("update").trigger(realTime="1 minute") and a fresh checkpoint.' + also,
    )


@rule("SPECULATION", "warning", "A second copy of a task writes every row once more.")
def speculation(facts: Facts) -> Iterator[Found]:
    """Speculative execution starts a slow task again beside itself.

    A real-time task runs as long as the epoch, so it always looks slow, and its copy writes the
    same rows to the sink.
    """
    if facts.on("spark.speculation"):
        yield Found(
            "spark.speculation",
            "speculative execution is on.",
            "switch it off.",
            settings={"spark.speculation": "false"},
        )


@rule(
    "DYNAMIC_ALLOCATION",
    "warning",
    "Slots that the query needs for good may be missing at an epoch.",
)
def dynamic_allocation(facts: Facts) -> Iterator[Found]:
    """Dynamic allocation gives executors back when they look idle and asks for them anew.

    A real-time query needs all its slots at the start of every epoch, at once. Ask for a fixed
    number of executors: `eagre size` computes it.
    """
    if facts.on("spark.dynamicAllocation.enabled"):
        yield Found(
            "spark.dynamicAllocation.enabled",
            "executors may come and go.",
            "switch it off, and set spark.executor.instances.",
            settings={"spark.dynamicAllocation.enabled": "false"},
        )


@rule(
    "TASK_RETRIES",
    "advice",
    "A task that fails is run again inside its epoch, and repeats its rows.",
)
def task_retries(facts: Facts) -> Iterator[Found]:
    """On a cluster a query without shuffles retries a failed task, four times by default.

    Each try sends the rows since the beginning of the epoch once more, and nothing tells of it.
    With one try the failure is seen and the supervisor restarts the query. With shuffles Spark
    never retries.
    """
    tries = number(facts.setting("spark.task.maxFailures", "4"), 4)
    if facts.slots is None and not facts.plan.exchanges and tries > 1:
        yield Found(
            "spark.task.maxFailures",
            f"a failed task is tried {tries} times, silently, from the epoch's beginning.",
            "set it to 1.",
            numbers={"tries": tries},
            settings={"spark.task.maxFailures": "1"},
        )


@rule(
    "SECRET_IN_SETTINGS",
    "warning",
    "Every user of the machine sees it in the list of processes, and Spark's UI may show it.",
    real_time_only=False,
)
def secret_in_settings(facts: Facts) -> Iterator[Found]:
    """PySpark passes every setting of a session on the command line of its JVM.

    Credentials for Kafka belong into reader and writer options, those of stores into files or
    environment variables that the process reads by itself. The value is not shown here either.
    """
    options = " ".join(v for k, v in facts.settings.items() if k.endswith("extraJavaOptions"))
    properties = dict.fromkeys(re.findall(r"-D([\w.]+)=\S", options), "stated")
    stated = {**facts.settings, **properties}
    for key in sorted(stated):
        if SECRET.search(key) and not HARMLESS.search(key) and stated[key]:
            yield Found(
                key,
                f"the setting {key} looks like a secret, and settings stand on a command line.",
                "pass it as an option of the source or sink, from the environment or a file.",
            )
