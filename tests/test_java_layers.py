"""Dependencies between the companion's Java packages (CONTRIBUTING.md has the table)."""

import re
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "jvm-companion" / "src" / "dev" / "eagre"

LAYERS = [
    {"connectors/kafka", "connectors/formats", "broker", "testing"},
    {"spark"},
    {"commit"},
    {"metrics"},
    {"shuffle", "state"},
    {"delivery"},
    {"deadletter"},
    {"cluster"},
    {"python/codec"},
    {"python/worker"},
    {"python/state"},
    {"python"},
    {"operators", "connectors/upsert", "connectors/python", "plan"},
    {"connectors/postgres", "connectors/redis"},
    {"."},
]
"""From the bottom up; "." contains the entry points for Spark and the Python package."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def package(path):
    return str(path.parent.relative_to(SOURCES))


def uses(text):
    """Return the packages that a source file uses."""
    body = re.sub(r"^package .*;$", "", text, flags=re.MULTILINE)
    for name in re.findall(r"\bdev\.eagre\.((?:[a-z]\w*\.)*)[A-Z]", body):
        yield name.rstrip(".").replace(".", "/") or "."


def wrong_uses(files):
    return [
        f"{package(path)}/{path.name} uses {other}"
        for path in files
        for other in uses(path.read_text())
        if other != package(path) and RANK[other] >= RANK[package(path)]
    ]


def test_every_package_has_a_layer():
    assert {package(path) for path in SOURCES.rglob("*.java")} == set(RANK)


def test_java_packages_use_only_lower_ones():
    assert wrong_uses(sorted(SOURCES.rglob("*.java"))) == []


def test_a_wrong_use_is_detected(tmp_path, monkeypatch):
    monkeypatch.setattr("test_java_layers.SOURCES", tmp_path)
    wrong = tmp_path / "commit" / "Wrong.java"
    wrong.parent.mkdir()
    wrong.write_text("package dev.eagre.commit;\nimport dev.eagre.python.state.PythonProcessor;\n")
    assert wrong_uses([wrong]) == ["commit/Wrong.java uses python/state"]


PRIVATE = re.compile(r"\bsetAccessible\(|\bgetDeclared\w+\(")
"""How code reaches private members of other classes."""


def test_only_one_package_reaches_private_members():
    assert {package(p) for p in SOURCES.rglob("*.java") if PRIVATE.search(p.read_text())} == {
        "spark"
    }


STATIC = {
    # by run, task or reader
    *("ArrivalClock.CLOCKS", "Barrier.RUNS", "InFlightOffsets.TASKS", "Prefetch.RUNNING"),
    *("RowCounters.COUNTS", "RowQueue.BY_READER", "SourceDelays.RUNS", "SuspectRecords.RETAINED"),
    # by what it connects to, caches or locks, which queries may share
    *("CheckSize.LIMITS", "ConnectionPool.POOLS", "DeadLetterProducer.OPEN", "DeliveryApi.LOCKS"),
    *("EncoderCache.CACHE", "InterpreterCheck.REPORTS", "KafkaClients.CACHE"),
    # workers and sums of the JVM
    *("RowCounters.EARLIER", "WorkerPool.ALL", "WorkerPool.DAEMONS", "WorkerPool.IDLE"),
}


def static_maps(path):
    """Return the static collections of a class that are filled while queries run."""
    text = path.read_text()
    return re.findall(r"static final (?:Map|Set|Deque|PerRun)<.*> (\w+) = new", text)


def test_what_is_static_is_known():
    """A new one must not be keyed by what two queries may share, such as a topic: see PerRun."""
    names = {
        f"{path.stem}.{name}" for path in SOURCES.rglob("*.java") for name in static_maps(path)
    }
    assert names == STATIC
