"""The companion's file manager for local checkpoints behaves as Spark's."""

import time

import pytest
from py4j.protocol import Py4JJavaError

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
