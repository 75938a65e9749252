"""Changes of Spark's logs between two runs."""

import json

import pytest

from eagre.commit.offset_log import follow_sources, unchanged_on_error, write_entry

METADATA = '{"conf":{}}'


def write(folder, number, *lines):
    (folder / "offsets").mkdir(exist_ok=True)
    write_entry(folder / "offsets" / str(number), "\n".join(["v1", METADATA, *lines]))


def read(folder, number):
    version, metadata, *lines = (folder / "offsets" / str(number)).read_text().splitlines()
    assert (version, metadata) == ("v1", METADATA)
    return [json.loads(line) if line != "-" else None for line in lines]


def test_offsets_follow_their_sources(tmp_path):
    write(tmp_path, 4, '{"a":{"0":1}}', '{"b":{"0":2}}')
    write(tmp_path, 5, '{"a":{"0":3}}', '{"b":{"0":4}}')
    start = {"c": {0: 9, 1: 8}}
    assert follow_sources(tmp_path, [["b"], ["c"], ["a"]], start) == {"c"}
    new = {"c": {"0": 9, "1": 8}}
    assert read(tmp_path, 4) == [{"b": {"0": 2}}, new, {"a": {"0": 1}}]
    assert read(tmp_path, 5) == [{"b": {"0": 4}}, new, {"a": {"0": 3}}]
    assert follow_sources(tmp_path, [["a"]], {}) == set()
    assert read(tmp_path, 5) == [{"a": {"0": 3}}]


def test_a_topic_that_a_source_gains_is_left_to_spark(tmp_path):
    write(tmp_path, 0, '{"a":{"0":1}}')
    before = (tmp_path / "offsets" / "0").stat().st_mtime_ns
    assert follow_sources(tmp_path, [["a", "b"]], {"b": {0: 0}}) == set()
    assert (tmp_path / "offsets" / "0").stat().st_mtime_ns == before, "nothing has changed"


def test_sources_that_spark_finds_by_name_or_that_are_no_topics_are_left_alone(tmp_path):
    assert follow_sources(tmp_path, [["a"]], {}) == set(), "no checkpoint yet"
    write(tmp_path, 0, '{"logOffset":1}')
    assert follow_sources(tmp_path, [], {}) == set()
    write_entry(tmp_path / "offsets" / "1", f'v2\n{METADATA}\nx:{{"a":{{"0":1}}}}')
    (tmp_path / "offsets" / "0").unlink()
    assert follow_sources(tmp_path, [["b"]], {"b": {0: 0}}) == set()


def test_a_failed_step_leaves_no_batch(tmp_path):
    write(tmp_path, 7, "-")

    def fail():
        with unchanged_on_error(tmp_path):
            write(tmp_path, 8, "-")
            raise ValueError("half-way")

    with pytest.raises(ValueError, match="half-way"):
        fail()
    assert [path.name for path in (tmp_path / "offsets").iterdir()] == ["7"]


def test_an_entry_replaces_one_with_a_checksum(tmp_path):
    """Hadoop compares the checksum of a file that it wrote when it reads it."""
    (tmp_path / ".3.crc").write_text("of the old one")
    write_entry(tmp_path / "3", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["3"]
