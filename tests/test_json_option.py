"""``--json -`` of the commands that change something: standard output is only JSON."""

import json
from types import SimpleNamespace

import click
import pytest

from eagre.broker import Topics
from eagre.cli import eagre as command_line
from eagre.cli.exit_codes import ExitCode
from eagre.cli.kafka import broker
from eagre.cli.pipelines import cluster
from eagre.runtime import runs
from test_docs import everything

WITHOUT_A_RESULT = {
    "run",
    "dashboard",
    "completion",
    "deploy systemd",
    "deploy kubernetes",
    "bench publish",
}
"""They run until they are stopped, or their result is a file."""


def test_every_command_with_a_result_has_json():
    missing = {
        path.removeprefix("eagre ")
        for path, command in everything(command_line)
        if not isinstance(command, click.Group)
        and not any("--json" in option.opts for option in command.params)
    }
    assert missing == WITHOUT_A_RESULT


@pytest.fixture
def only_json(call, tmp_path):
    """Call a command with ``--json -``, and return what it writes."""

    def run(*args):
        done = call(*args, "--json", "-")
        assert done.code == ExitCode.OK, done.err
        return json.loads(done.out)

    return run


@pytest.fixture
def folder(tmp_path):
    """A checkpoint with a mid-epoch commit of batch 4."""
    folder = tmp_path / "checkpoint"
    (folder / "mid-epoch-commits").mkdir(parents=True)
    commit = {"batch": 4, "position": {}, "offsets": "v1\n{}\n{}", "commit": "v1\n{}", "ends": {}}
    (folder / "mid-epoch-commits" / "7").write_text(json.dumps(commit))
    (folder / "metadata").touch()
    return folder


def test_topics(only_json, eagre_broker, tmp_path):
    at = ("--brokers", eagre_broker.address)
    name = "json-option"
    created = only_json("topic", "create", name, "--partitions", 2, "--set", "retention.ms=1", *at)
    assert created == {"name": name, "partitions": 2, "settings": {"retention.ms": "1"}}
    (tmp_path / "lines").write_text("a\nb\n")
    produced = only_json("topic", "produce", name, tmp_path / "lines", *at)
    assert produced == {"topic": name, "records": 2}
    assert only_json("topic", "delete", name, "--yes", *at) == {"deleted": [name]}
    assert name not in Topics(eagre_broker.address).names()


def test_checkpoints(only_json, folder, tmp_path):
    adopted = {"checkpoint": str(folder), "batch": 4}
    assert only_json("checkpoint", "adopt", folder) == adopted
    assert only_json("checkpoint", "adopt", folder) == {**adopted, "batch": None}
    copy = tmp_path / "copy"
    copied = only_json("checkpoint", "copy", folder, copy)
    assert copied == {"checkpoint": str(folder), "copy": str(copy)}
    assert only_json("checkpoint", "reset", copy, "--yes") == {"removed": str(copy)}
    assert not (copy / "metadata").exists()


def test_projects(only_json, tmp_path):
    created = only_json("init", "fraud", "mine")
    assert created == {"use_case": "fraud", "directory": "mine"}
    assert (tmp_path / "mine" / "app.py").exists()


def test_jars(call, only_json):
    fetched = only_json("jars", "fetch", "spark", "--no-archive")
    assert fetched["sets"]["spark"]["jars"] > 0
    assert fetched["archive"] is None
    path = only_json("jars", "path")
    assert ":".join(path["jars"]) == call("jars", "path").out.strip()
    assert call("jars", "fetch", "spark", "--no-archive").out.startswith("spark: ")


def test_pipelines_are_stopped(only_json, monkeypatch):
    run = SimpleNamespace(pipelines={"score": None, "alert": None}, alive=False)
    monkeypatch.setattr(runs, "find", lambda _: run)
    monkeypatch.setattr(runs, "end", lambda *_, **__: None)
    assert only_json("stop", "score") == {"stopped": ["alert", "score"], "at_once": False}


def test_brokers(call, only_json, monkeypatch, tmp_path):
    started = SimpleNamespace(address="127.0.0.1:9092", background=True, home="here", port=9092)
    embedded = SimpleNamespace(start=lambda: started)
    monkeypatch.setattr(broker, "EmbeddedBroker", lambda *_, **__: embedded)
    monkeypatch.setattr(broker.registry, "running", lambda: [started])
    monkeypatch.setattr(broker, "stop_background", lambda _: None)
    data = tmp_path / "data"
    assert only_json("broker", "start", "--data", data) == {
        "address": "127.0.0.1:9092",
        "data": str(data),
    }
    assert call("broker", "start").out == "127.0.0.1:9092\n"
    assert only_json("broker", "stop") == {"stopped": ["127.0.0.1:9092"]}
    assert call("broker", "stop").out == ""


def test_clusters(call, only_json, monkeypatch):
    url = "spark://127.0.0.1:7077"
    started = SimpleNamespace(url=url, web_port=8080, port=7077, folder="here")
    monkeypatch.setattr(cluster.clusters, "start", lambda *_, **__: started)
    monkeypatch.setattr(cluster.clusters, "running", lambda: [started])
    monkeypatch.setattr(cluster.clusters, "stop", lambda _: None)
    assert only_json("cluster", "start", "--workers", 3) == {
        "url": url,
        "web_ui": "http://127.0.0.1:8080",
        "workers": 3,
        "cores": 6,
        "data": "here",
    }
    assert call("cluster", "start").out == f"{url}\n"
    assert only_json("cluster", "stop") == {"stopped": [url]}
