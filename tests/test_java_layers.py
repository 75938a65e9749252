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
