"""The status of a run as JSON: what is written, what is read, and the names until version 0.2."""

import json

import pytest

from eagre.runtime.runs import PipelineStatus, Register, RunStatus, running
from eagre_bench.systems import system

METRICS = {"at": 1.0, "lag": {"payments/0": 3}}


def status():
    """A run with one pipeline."""
    score = PipelineStatus("score", since=1.0, metrics=METRICS, about={"dead_letters": ["in.dlq"]})
    return RunStatus(4711, 1.0, "score.py", "http://127.0.0.1:1", {"score": score})


def test_a_status_survives_writing_and_reading():
    assert RunStatus.from_dict(json.loads(json.dumps(status().as_dict()))) == status()


def test_old_names_of_a_status_remain():
    entries = status().as_dict()
    assert entries["page"] == entries["dashboard"] == "http://127.0.0.1:1"
    score = entries["pipelines"]["score"]
    assert score["vitals"] == score["metrics"] == METRICS
    assert score["about"]["letters"] == score["about"]["dead_letters"] == ["in.dlq"]


def test_a_status_with_only_old_names_is_read():
    entries = status().as_dict()
    score = entries["pipelines"]["score"]
    del entries["dashboard"], score["metrics"], score["about"]["dead_letters"]
    read = RunStatus.from_dict(json.loads(json.dumps(entries)))
    assert (read.dashboard, read.pipelines["score"].metrics) == ("http://127.0.0.1:1", METRICS)
    assert read.pipelines["score"].about["dead_letters"] == ["in.dlq"]


def test_a_registered_run_is_listed(monkeypatch, tmp_path):
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path))
    register = Register("score.py")
    register.pipeline("score").metrics = METRICS
    register.status.dashboard = "http://127.0.0.1:1"
    register.write(now=True)
    [run] = running()
    assert (run.dashboard, run.pipelines["score"].metrics) == ("http://127.0.0.1:1", METRICS)


@pytest.mark.parametrize("name", ["eagre-page", "eagre-dashboard"])
def test_the_benchmark_accepts_the_old_name_of_the_dashboard(name):
    assert system(name).name == "eagre-dashboard"
