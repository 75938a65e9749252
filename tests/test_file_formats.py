"""Eagre's files outside of a checkpoint: their format number, older files, and newer ones.

``test_checkpoints.py`` has those inside.
"""

import json
import os
import time

import pytest

from eagre.broker import registry as brokers
from eagre.broker.registry import RunningBroker, born
from eagre.cluster import registry as clusters
from eagre.cluster.registry import Process, RunningCluster
from eagre.commit import known_checkpoints
from eagre.errors import CheckpointError, FileError
from eagre.files import FORMAT, unformatted
from eagre.runtime import runs
from eagre.runtime.runs import Register


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def run(tmp_path):
    register = Register("score.py")
    register.pipeline("score").lag = 3
    register.write(now=True)
    return tmp_path / "state" / "runs" / f"{os.getpid()}.json", runs.running


def broker(tmp_path):
    brokers.register(RunningBroker(os.getpid(), born(os.getpid()), 9092, "data", background=True))
    return tmp_path / "state" / "brokers" / "9092.json", brokers.running


def cluster(tmp_path):
    master = Process(os.getpid(), born(os.getpid()))
    clusters.register(RunningCluster(7077, 8080, 1, "1g", "cluster", master, ()))
    return tmp_path / "state" / "clusters" / "7077.json", clusters.running


@pytest.mark.parametrize("kind", [run, broker, cluster])
def test_a_registered_process_of_another_release(kind, tmp_path, caplog):
    path, read = kind(tmp_path)
    entries, registered = json.loads(path.read_text()), read()
    assert entries.pop("format") == FORMAT
    path.write_text(json.dumps(entries))
    assert read() == registered != [], "earlier releases wrote no number"
    path.write_text(json.dumps({**entries, "format": FORMAT + 1, "new": "entry"}))
    assert read() == []
    [record] = caplog.records
    assert f"FILE_NEWER: {path} has format {FORMAT + 1}" in record.getMessage()
    assert path.exists(), "its own release needs it"


def test_a_status_with_more_entries_is_read(tmp_path):
    """A release may add entries without a new number."""
    path, read = run(tmp_path)
    entries = json.loads(path.read_text())
    entries["pipelines"]["score"]["new"] = entries["new"] = 1
    path.write_text(json.dumps(entries))
    [status] = read()
    assert status.pipelines["score"].lag == 3


def test_the_failures_of_another_release(tmp_path, caplog):
    path = tmp_path / ".eagre" / "logs" / "score.failures.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([[1.0, "as until 0.3"]]))
    register = Register("score.py")
    register.fail("score", "now")
    entries = json.loads(path.read_text())
    assert entries["format"] == FORMAT
    assert [reason for _, reason in entries["failures"]] == ["as until 0.3", "now"]
    newer = json.dumps({**entries, "format": FORMAT + 1, "failures": {"new": "shape"}})
    path.write_text(newer)
    register.fail("score", "later")
    assert path.read_text() == newer
    assert "failures are not recorded: FILE_NEWER" in caplog.text
    assert [reason for _, reason in register.pipeline("score").failures][-1] == "later"


def test_the_records_beside_a_checkpoint_of_another_release(tmp_path):
    folder = tmp_path / "checkpoints" / "score"
    known_checkpoints.remember(folder, "cluster")
    files = [*(tmp_path / "state" / "checkpoints").iterdir(), *folder.parent.glob(".*.json")]
    assert len(files) == 2
    for path in files:
        entries = json.loads(path.read_text())
        assert entries.pop("format") == FORMAT
        path.write_text(json.dumps(entries))
    assert known_checkpoints.is_remembered(folder, "cluster")
    files[0].write_text(json.dumps({**entries, "format": FORMAT + 1}))
    with pytest.raises(CheckpointError, match="CHECKPOINT_NEWER"):
        known_checkpoints.is_remembered(folder, "cluster")


@pytest.mark.parametrize("text", ["[]", "7", '{"format": "x"}', '{"format": null}', "{"])
def test_a_damaged_file_has_no_format(text, tmp_path):
    with pytest.raises(ValueError):  # noqa: PT011  (each has its own reason)
        unformatted(text, tmp_path / "file.json")


def test_a_file_of_a_newer_release_says_so_in_one_sentence(tmp_path):
    with pytest.raises(FileError) as error:
        unformatted(json.dumps({"format": FORMAT + 1, "at": time.time()}), tmp_path / "file.json")
    assert "\n" not in str(error.value)
    assert error.value.hint
