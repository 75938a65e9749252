"""Checkpoints without Spark: copies, the format of Eagre's files, lost folders."""

import dataclasses
import itertools
import json
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from eagre.commit import Binding, Checkpoint, DeliveryLog, stream_metadata
from eagre.commit.delivery_log import DELIVERY_LOG
from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS, MidEpochCommit
from eagre.delivery import Quarantine
from eagre.delivery.quarantine import QUARANTINE
from eagre.errors import CheckpointError
from eagre.runtime.spec import RunSpec

HOLD = """
import fcntl, sys
with open(sys.argv[1], "a") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def separate_state(tmp_path, monkeypatch):
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "state"))


@pytest.fixture
def checkpoint(tmp_path):
    made = Checkpoint(tmp_path / "checkpoints" / "score")
    made.bind(Binding("score", "cluster", {"in": "id"}, {"in": {0: 5}}, 1.0))
    return made


def test_a_checkpoint_in_use_is_not_copied(checkpoint, tmp_path):
    """Its files would be of different commits."""
    command = [sys.executable, "-S", "-c", HOLD, str(checkpoint.lock_file)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(CheckpointError, match="CHECKPOINT_IN_USE"):
            checkpoint.copy(tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
        holder.stdin.close()
    checkpoint.copy(tmp_path / "copy")
    assert Checkpoint(tmp_path / "copy").binding() == checkpoint.binding()


REMOTE = ("s3://bucket/score", "s3a://bucket", "hdfs://host:8020/score", "ABFS://c@a/score")


@pytest.mark.parametrize("location", REMOTE)
def test_an_unknown_store_is_refused(location, monkeypatch, tmp_path):
    """Such an address was once taken for a folder below the current one."""
    monkeypatch.chdir(tmp_path)
    spec = RunSpec("app.py", checkpoint=location)
    for refused in (
        lambda: Checkpoint(location),
        lambda: Checkpoint(Path(location)),
        lambda: spec.checkpoint_folder("score", several=True),
        spec.checkpoint_candidates,
    ):
        with pytest.raises(CheckpointError, match="CHECKPOINT_REMOTE"):
            refused()
    assert not list(tmp_path.iterdir())


def test_an_address_in_a_store_is_never_a_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    spec = RunSpec("app.py", checkpoint="s3a://bucket/score/")
    assert str(spec.checkpoint_folder("a", several=True)) == "s3a://bucket/score/a"
    assert str(Checkpoint(Path("s3a://bucket/score")).path) == "s3a://bucket/score"
    assert spec.checkpoint_candidates() == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("uri", ["file:///data/score", "file:/data/score", "/data/score"])
def test_a_file_uri_is_a_folder(uri):
    assert Checkpoint(uri).path == Path("/data/score")
    assert RunSpec("app.py", checkpoint=uri).checkpoint_folder("a", several=False) == Path(
        "/data/score"
    )


@pytest.mark.parametrize(
    "command",
    [("run",), ("check",), ("deploy", "systemd"), ("deploy", "kubernetes")],
    ids=" ".join,
)
def test_every_command_refuses_a_checkpoint_in_an_unknown_store(call, command):
    Path("app.py").write_text("import eagre as eg\n")
    result = call(*command, "app.py", "--checkpoint", "hdfs://host/score")
    assert result.code
    assert "CHECKPOINT_REMOTE" in result.err


def written(checkpoint):
    """Write each of Eagre's files, and return them with what reads them."""
    DeliveryLog.read(checkpoint.path).begin()
    MidEpochCommit(0, {"in": {0: 7}}, "offsets", "commit", {}).write(checkpoint.path)
    Quarantine(checkpoint.path).blame([("in", 0, 3)])
    Quarantine(checkpoint.path).blame([("in", 0, 3)])
    return {
        checkpoint.path / QUARANTINE: lambda: Quarantine(checkpoint.path).positions,
        checkpoint.path / "eagre.json": checkpoint.binding,
        checkpoint.path / DELIVERY_LOG: lambda: DeliveryLog.read(checkpoint.path),
        checkpoint.path / MID_EPOCH_COMMITS / "0": checkpoint.mid_epoch_commit,
    }


def test_the_files_have_a_format_number(checkpoint):
    for path, read in written(checkpoint).items():
        entries, value = json.loads(path.read_text()), read()
        assert entries.pop("format") == 1
        del entries["checksum"]
        path.write_text(json.dumps(entries.get("crashes", entries)))
        assert read() == value, "files of earlier releases have neither"


def test_a_changed_bit_in_one_of_eagres_files_is_refused_or_harmless(checkpoint):
    """A digit of an offset that changes would otherwise lose or repeat results silently."""
    for path, read in written(checkpoint).items():
        right, whole = read(), path.read_bytes()
        refused = 0
        for place, bit in itertools.product(range(len(whole)), (1, 2)):
            data = bytearray(whole)
            data[place] ^= bit
            path.write_bytes(data)
            try:
                assert read() == right, (path.name, bytes(data))
            except CheckpointError:
                refused += 1
        assert refused > len(whole)
        path.write_bytes(whole)


def test_a_changed_bit_in_sparks_metadata_is_refused_or_harmless(tmp_path):
    """Spark names neither the file nor the checkpoint. Another id of the query does no harm."""
    path = tmp_path / "metadata"
    stream_metadata.require_readable(tmp_path)
    whole = b'{"id":"8a5a4b0e-6d34-4f5e-9d0b-3c1f6c9f2a11"}'
    path.write_bytes(whole)
    stream_metadata.require_readable(tmp_path)
    refused = set()
    for place, bit in itertools.product(range(len(whole)), (1, 2, 128)):
        data = bytearray(whole)
        data[place] ^= bit
        path.write_bytes(data)
        try:
            stream_metadata.require_readable(tmp_path)
            assert uuid.UUID(json.loads(data)["id"])
        except CheckpointError:
            refused.add(place)
    assert refused >= set(range(7)), "the structure and the name of the entry"


def test_files_of_a_newer_release_are_refused(checkpoint):
    for path, read in written(checkpoint).items():
        entries = json.loads(path.read_text())
        path.write_text(json.dumps({**entries, "format": 2, "new": "entry"}))
        with pytest.raises(CheckpointError, match="CHECKPOINT_NEWER"):
            read()
        path.write_text(json.dumps(entries))


def test_a_lost_folder_is_noticed_in_a_new_container(checkpoint, tmp_path, monkeypatch):
    """The user's state is new there, the volume with the checkpoints is not."""
    binding = checkpoint.binding()
    shutil.rmtree(checkpoint.path)
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "new"))
    assert checkpoint.lost
    with pytest.raises(CheckpointError, match="CHECKPOINT_LOST"):
        checkpoint.bind(binding)
    checkpoint.bind(dataclasses.replace(binding, cluster="another"))
    shutil.rmtree(checkpoint.path)
    checkpoint.reset()
    assert not checkpoint.lost
    assert checkpoint.bind(binding) == binding


def test_resume_refuses_to_start_from_scratch(checkpoint, tmp_path):
    checkpoint.require_found()
    with pytest.raises(CheckpointError, match=r"CHECKPOINT_LOST: .* --resume"):
        Checkpoint(tmp_path / "volume-that-is-not-mounted").require_found()


DAMAGED = ["[" * 100_000, '{"a":' * 100_000, "1e999", "[1]", "null", '{"format": "x"}', "\0"]


@pytest.mark.parametrize("text", [*DAMAGED, '{"format": 1e999}', '{"start": {"in": {"0": 1e999}}}'])
def test_damaged_files_are_reported_as_broken(checkpoint, text):
    for path, read in written(checkpoint).items():
        whole = path.read_text()
        path.write_text(text)
        with pytest.raises(CheckpointError, match="_BROKEN: "):
            read()
        path.write_text(whole)


def test_a_file_that_cannot_be_opened_is_reported_as_broken(checkpoint):
    binding = checkpoint.path / "eagre.json"
    binding.unlink()
    binding.mkdir()
    with pytest.raises(CheckpointError, match=r"CHECKPOINT_BROKEN: .*directory"):
        checkpoint.binding()


IN_USE = "import sys, eagre.commit as c; print(c.Checkpoint(sys.argv[1]).in_use)"


def test_no_run_starts_while_a_checkpoint_is_copied(checkpoint, tmp_path, monkeypatch):
    seen, original = [], Checkpoint._copy  # noqa: SLF001

    def copy(self, target):
        original(self, target)
        command = [sys.executable, "-c", IN_USE, str(self.path)]
        seen.append(subprocess.run(command, check=True, capture_output=True).stdout)

    monkeypatch.setattr(Checkpoint, "_copy", copy)
    written(checkpoint)
    checkpoint.copy(tmp_path / "copy")
    assert seen == [b"True\n"]
    assert not checkpoint.in_use
    assert not (tmp_path / "copy" / "eagre.lock").exists()
