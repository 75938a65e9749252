"""The companion's file manager for local checkpoints behaves as Spark's."""

import json
import re
import time

import pytest
from py4j.protocol import Py4JJavaError

import eagre as eg

SETTING = "spark.sql.streaming.checkpointFileManagerClass"


class Files:
    """A checkpoint file manager on a folder."""

    def __init__(self, jvm, folder, **settings):
        self._jvm, self._folder = jvm, folder
        conf = jvm.org.apache.hadoop.conf.Configuration()
        for key, value in settings.items():
            conf.set(key.replace("__", "."), value)
        self.manager = jvm.dev.eagre.state.CheckpointFiles(self._path(""), conf)

    def _path(self, name):
        return self._jvm.org.apache.hadoop.fs.Path(f"file:{self._folder}/{name}")

    def begin(self, name, text, *, overwrite=False):
        stream = self.manager.createAtomic(self._path(name), overwrite)
        stream.write(text.encode())
        return stream

    def read(self, name):
        stream = self.manager.open(self._path(name))
        text = bytes(stream.readAllBytes()).decode()
        stream.close()
        return text


@pytest.fixture
def files(eagre_spark, tmp_path):
    return Files(eagre_spark._jvm, tmp_path)  # noqa: SLF001


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_session_uses_the_file_manager(eagre_spark):
    assert eagre_spark.conf.get(SETTING) == "dev.eagre.state.CheckpointFiles"


def test_files_are_written_atomically(files, tmp_path):
    begun = files.begin("7", "offsets")
    assert "7" not in names(tmp_path)
    begun.close()
    begun.close()
    assert names(tmp_path) == ["7"]
    assert files.read("7") == "offsets"
    files.begin("8", "half").cancel()
    assert names(tmp_path) == ["7"]


def test_an_existing_file_is_not_overwritten(files, tmp_path):
    files.begin("7", "first").close()
    with pytest.raises(Py4JJavaError, match=r"hadoop\.fs\.FileAlreadyExistsException"):
        files.begin("7", "second").close()
    assert files.read("7") == "first"
    assert names(tmp_path) == ["7"]


def test_an_old_checksum_file_is_removed_with_its_file(files, tmp_path):
    (tmp_path / "7").write_text("first")
    (tmp_path / ".7.crc").write_bytes(b"crc\0\0\0\2\0\1\2\3\4")
    files.begin("7", "second", overwrite=True).close()
    assert files.read("7") == "second"
    assert names(tmp_path) == ["7"]


@pytest.fixture
def flushed(eagre_spark, tmp_path):
    """Return the files and folders that were flushed to the disk, in order."""
    system, log = eagre_spark._jvm.java.lang.System, tmp_path / "flushed"  # noqa: SLF001
    system.setProperty("eagre.flush.log", str(log))
    yield lambda: log.read_text().splitlines()
    system.clearProperty("eagre.flush.log")


def test_a_file_is_flushed_before_it_has_its_name(files, flushed, tmp_path):
    (tmp_path / "offsets").mkdir()
    files.begin("offsets/7", "entry").close()
    file, folder, above = flushed()
    assert re.fullmatch(rf"{tmp_path}/offsets/\.7\.[0-9a-f-]+\.tmp", file)
    assert (folder, above) == (f"{tmp_path}/offsets", f"{tmp_path}")


@pytest.mark.parametrize("mode", ["micro-batch", "real-time"])
def test_the_state_of_an_epoch_is_flushed_before_its_commit(eagre_harness, flushed, tmp_path, mode):
    """Spark's own commits too: they never name what a power failure takes away."""

    @eg.pipeline(source=eg.Kafka("flushed-in", schema="card STRING"), sink=eg.Kafka("flushed-out"))
    def counted(df):
        return df.groupBy("card").count()

    checkpoint = tmp_path / "checkpoint"
    eagre_harness.run(counted, [{"card": "a"}, {"card": "b"}], mode=mode, checkpoint=checkpoint)
    lines, commits = flushed(), sorted((checkpoint / "commits").glob("[0-9]*"))
    assert commits
    for commit in commits:
        entry = next(n for n, x in enumerate(lines) if f"commits/.{commit.name}." in x)
        before = set(lines[:entry])
        assert any(f"offsets/.{commit.name}." in line for line in before)
        ids = json.loads(commit.read_text().splitlines()[1])["stateUniqueIds"]["0"]
        version = int(commit.name) + 1
        for partition, [unique] in enumerate(ids):
            stored = list(
                (checkpoint / "state" / "0" / str(partition)).glob(f"{version}_{unique}*")
            )
            assert stored
            assert {str(path) for path in stored if not path.name.startswith(".")} <= before


def test_other_file_systems_use_sparks_manager(eagre_spark, tmp_path):
    slow = "dev.eagre.testing.SlowFileSystem$Context"
    files = Files(
        eagre_spark._jvm,  # noqa: SLF001
        tmp_path,
        fs__file__impl="dev.eagre.testing.SlowFileSystem",
        fs__AbstractFileSystem__file__impl=slow,
        eagre__slow__ms="300",
    )
    began = time.monotonic()
    files.begin("7", "offsets").close()
    assert time.monotonic() - began >= 0.3, "the file bypassed the slow file system"
    assert files.read("7") == "offsets"
