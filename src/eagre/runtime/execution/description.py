"""Describes a running pipeline for status and dashboard, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagre.broker.client_settings import is_access
from eagre.connectors.error_policy import SUFFIX
from eagre.connectors.kafka import CLIENT_OPTIONS, EXACTLY_ONCE_OPTIONS
from eagre.jvm import gateway
from eagre.profile import CHOICE, GC_OPTIONS, PROFILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eagre.connectors import KafkaTopic
    from eagre.runtime.resolved_run import ResolvedRun

_MORE = (
    CHOICE,
    "spark.master",
    "spark.driver.memory",
    "spark.executor.memory",
    "spark.task.cpus",
)
_SPARK_OPTION = "-XX:+IgnoreUnrecognizedVMOptions"

Description = dict[str, Any]


def about(spark: SparkSession, resolved: ResolvedRun) -> Description:
    """Describe a pipeline that is about to start.

    The fields are ``sources`` (topic and partitions of each), ``dead_letters`` (their topics),
    ``sink`` (kind and topics), ``clusters`` (of source and sink), ``delivery``, ``slots``,
    ``settings`` (the effective ones) and ``slo``.
    """
    pipeline = resolved.pipeline
    sink = pipeline.sink
    return {
        "sources": [
            {"topic": name, "partitions": partitions}
            for name, (_, partitions) in resolved.sources.items()
        ],
        "dead_letters": [name + SUFFIX for name in resolved.sources],
        "sink": {"kind": sink.kind, "name": sink.name, "topics": list(sink.topics)},
        "clusters": {
            "source": _cluster(*pipeline.kafka_sources[:1]),
            "sink": _cluster(pipeline.kafka_sink),
        },
        "delivery": resolved.delivery,
        "slots": gateway.slots(spark),
        "settings": {**_requested(resolved), **_spark(spark), **_clients(resolved)},
        "slo": pipeline.slo.text if pipeline.slo else "",
    }


def _cluster(endpoint: KafkaTopic | None = None) -> Description | None:
    if not endpoint:
        return None
    return {
        "brokers": endpoint.cluster,
        "config": str(endpoint.config) if endpoint.config else None,
    }


def _requested(resolved: ResolvedRun) -> dict[str, str]:
    return {
        "mode": resolved.mode,
        "every": resolved.every or "-",
        "from": resolved.requested_start or "-",
    }


def _spark(spark: SparkSession) -> dict[str, str]:
    conf = gateway.settings(spark)
    shown = {
        key: conf[key] for key in (*_MORE, *(setting.key for setting in PROFILE)) if key in conf
    }
    options = [word for word in conf.get(GC_OPTIONS.key, "").split() if word.startswith("-X")]
    return {**shown, GC_OPTIONS.key: " ".join(word for word in options if word != _SPARK_OPTION)}


def _clients(resolved: ResolvedRun) -> dict[str, str]:
    """Return the client options of source and sink, except those for security."""
    pipeline, profile = resolved.pipeline, resolved.clients
    clients: dict[str, str] = {}
    for source in pipeline.kafka_sources:
        options = _without_access({**profile.source, **CLIENT_OPTIONS, **source.options})
        clients |= {f"source {key}": value for key, value in options.items()}
    if pipeline.kafka_sink:
        strict = EXACTLY_ONCE_OPTIONS if pipeline.exactly_once else {}
        options = _without_access(
            {**profile.sink, **CLIENT_OPTIONS, **pipeline.kafka_sink.options, **strict}
        )
        clients |= {f"sink {key}": value for key, value in options.items()}
    return clients


def _without_access(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if not is_access(key)}


def graph(operators: list[Description], source_partitions: int) -> list[Description]:
    """Group the operators of a plan into stages, split at the shuffles.

    A real-time scan does not know its partitions at planning time, so the caller passes them.

    >>> graph([
    ...     {"id": 0, "name": "Scan", "inputs": [], "shuffle": False, "source": True,
    ...      "stateful": False, "partitions": 0},
    ...     {"id": 1, "name": "Exchange", "inputs": [0], "shuffle": True, "source": False,
    ...      "stateful": False, "partitions": 4},
    ...     {"id": 2, "name": "StateStoreSave", "inputs": [1], "shuffle": False, "source": False,
    ...      "stateful": True, "partitions": 4},
    ... ], 2)  # doctest: +NORMALIZE_WHITESPACE
    [{'stage': 0, 'operators': ['Scan'], 'inputs': [], 'source': True, 'stateful': False,
      'partitions': 2},
     {'stage': 1, 'operators': ['StateStoreSave'], 'inputs': [0], 'source': False, 'stateful': True,
      'partitions': 4}]
    """
    stages: dict[int, Description] = {}
    if operators:
        _visit(
            {operator["id"]: operator for operator in operators}, operators[-1]["id"], None, stages
        )
    known = sum(stage["partitions"] for stage in stages.values() if stage["source"])
    for stage in stages.values():
        if stage["source"] and not known:
            stage["partitions"] = source_partitions
    order = {old: new for new, old in enumerate(reversed(list(stages)))}
    return [
        {**stages[old], "stage": order[old], "inputs": [order[at] for at in stages[old]["inputs"]]}
        for old in order
    ]


def _visit(
    nodes: dict[int, Description],
    at: int,
    into: Description | None,
    stages: dict[int, Description],
) -> None:
    node = nodes[at]
    if into is None:
        into = stages[at] = {
            "stage": at,
            "operators": [],
            "inputs": [],
            "source": False,
            "stateful": False,
            "partitions": 0,
        }
    if node["shuffle"]:
        into["partitions"] = max(into["partitions"], node["partitions"])
        for child in node["inputs"]:
            into["inputs"].append(child)
            _visit(nodes, child, None, stages)
        return
    for child in node["inputs"]:
        _visit(nodes, child, into, stages)
    name = _named(node["name"])
    if name and name not in into["operators"]:
        into["operators"].append(name)
    into["source"] |= node["source"]
    into["stateful"] |= node["stateful"]
    if node["source"]:
        into["partitions"] += node["partitions"]


def _named(name: str) -> str:
    """Return an operator's name; empty for a node that only wraps others."""
    bare = name.split(" (", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    return "" if bare in ("WholeStageCodegen", "InputAdapter", "WriteToDataSourceV2") else bare
