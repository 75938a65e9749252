"""Settings that duplicate rows, expose secrets, or depend on a deprecated mode."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from eagre.preflight.facts import number
from eagre.preflight.finding import RULES, Match, rule

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
    "The query is limited to map and filter: no state, no exactly once, no further development.",
    real_time_only=False,
)
def continuous_trigger(facts: Facts) -> Iterator[Match]:
    """`trigger(continuous=...)` was Spark's first low-latency mode and is still experimental.

    It supports neither aggregations nor joins. To migrate, use a new checkpoint, start from the old
    checkpoint's offsets or from `latest`, and change the output mode and the trigger:

        writer.outputMode("update").trigger(realTime="1 minute")

    As before, a restart reads again from the last committed epoch.
    """
    if facts.plan.trigger != "continuous":
        return
    real_time_facts = replace(facts, mode="real-time")
    blockers = {
        finding.id
        for rule_ in RULES.values()
        if rule_.real_time_only and rule_.level == "error"
        for finding in rule_.check(real_time_facts)
    } - {"OUTPUT_MODE"}
    first = f" First resolve: {', '.join(sorted(blockers))}." if blockers else ""
    yield Match(
        'trigger(continuous="...")',
        "the query runs in the old continuous mode.",
        'use .outputMode("update").trigger(realTime="1 minute") and a new checkpoint.' + first,
    )


@rule("SPECULATION", "warning", "A second copy of a task writes every row again.")
def speculation(facts: Facts) -> Iterator[Match]:
    """Speculative execution starts a second copy of a slow task.

    A real-time task runs as long as the epoch, so it always looks slow. Its copy writes the same
    rows to the sink.
    """
    if facts.on("spark.speculation"):
        yield Match(
            "spark.speculation",
            "speculative execution is on.",
            "switch it off.",
            settings={"spark.speculation": "false"},
        )


@rule(
    "DYNAMIC_ALLOCATION",
    "warning",
    "The query may lack slots at the start of an epoch.",
)
def dynamic_allocation(facts: Facts) -> Iterator[Match]:
    """Dynamic allocation releases executors that look idle and requests them again later.

    A real-time query needs all its slots at the start of every epoch. Request a fixed number of
    executors; `eagre size` computes it.
    """
    if facts.on("spark.dynamicAllocation.enabled"):
        yield Match(
            "spark.dynamicAllocation.enabled",
            "dynamic allocation is on: Spark may release executors.",
            "switch it off, and set spark.executor.instances.",
            settings={"spark.dynamicAllocation.enabled": "false"},
        )


@rule(
    "TASK_RETRIES",
    "advice",
    "Spark retries a failed task within its epoch, which duplicates its rows.",
)
def task_retries(facts: Facts) -> Iterator[Match]:
    """On a cluster, Spark runs a task of a query without shuffles up to four times by default.

    Each attempt silently sends the rows since the start of the epoch again. With a single attempt
    the failure is visible, and the supervisor restarts the query. With shuffles Spark never
    retries. Eagre's sessions set one attempt unless you set another number.
    """
    tries = number(facts.setting("spark.task.maxFailures", "4"), 4)
    on_cluster = facts.slots is None or not facts.local
    if on_cluster and not facts.plan.exchanges and tries > 1:
        yield Match(
            "spark.task.maxFailures",
            f"Spark silently runs a failing task {tries} times, each time from the epoch's start.",
            "set it to 1.",
            numbers={"tries": tries},
            settings={"spark.task.maxFailures": "1"},
        )


@rule(
    "SECRET_IN_SETTINGS",
    "warning",
    "Every user of the machine can see it in the process list, and Spark's UI may show it.",
    real_time_only=False,
)
def secret_in_settings(facts: Facts) -> Iterator[Match]:
    """PySpark passes every setting of a session on the command line of its JVM.

    Pass Kafka credentials as reader and writer options. Pass those of storage systems in files or
    environment variables. The check does not print the value either.
    """
    options = " ".join(v for k, v in facts.settings.items() if k.endswith("extraJavaOptions"))
    properties = dict.fromkeys(re.findall(r"-D([\w.]+)=\S", options), "set")
    values = {**facts.settings, **properties}
    for key in sorted(values):
        if SECRET.search(key) and not HARMLESS.search(key) and values[key]:
            yield Match(
                key,
                f"the setting {key} looks like a secret, and settings appear on a command line.",
                "pass it as an option of the source or sink, from the environment or a file.",
            )
