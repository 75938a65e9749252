"""Checkpoints that version 0.2.0 wrote are continued; run by ``test_runs.py``.

``tests/data/checkpoint-0.2.0`` holds what ``eagre run NAME.py --every "10 seconds"`` of the release
(commit 5f0ea13) left of each pipeline when its processes were killed: its app, its checkpoint
(``tar.gz``) and the records of its topics. Some of their results came after the last commit, which
was taken within an epoch, so that Spark's logs are empty.
"""

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from confluent_kafka import Producer

from eagre.broker import Topics
from eagre.commit import Checkpoint
from eagre.commit.mid_epoch_commit import FOLDER_BEFORE_0_3
from eagre.runtime.app import App
from eagre.waiting import wait_until
from runs_in_process import eagre_broker  # noqa: F401  (a fixture)

DATA = Path(__file__).parent / "data" / "checkpoint-0.2.0"
CARDS = 6


class Aged:
    """A checkpoint of version 0.2.0, and its topics with the same records on another cluster."""

    def __init__(self, name, brokers, folder):
        self.brokers, self.app = brokers, folder / f"{name}.py"
        self.source, self.output = f"{name}-in", f"{name}-out"
        self.checkpoint = Checkpoint(folder / "checkpoint")
        shutil.copy(DATA / f"{name}.py", self.app)
        with tarfile.open(DATA / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        (folder / name).rename(self.checkpoint.path)
        self._make_topics(DATA / f"{name}.jsonl")
        self._move()

    def _make_topics(self, records):
        topics = Topics(self.brokers)
        for topic, partitions in ((self.source, 2), (self.output, 1)):
            topics.create(topic, partitions, {"retention.ms": "-1"})
        producer = Producer({"bootstrap.servers": self.brokers})
        for line in records.read_text().splitlines():
            record = json.loads(line)
            stamp = {"timestamp": record.pop("time")}
            producer.produce(**{**record, **stamp, "headers": dict(record["headers"])})
        producer.flush()

    def _move(self):
        """Let the checkpoint belong to the other cluster: its offsets are valid there, too."""
        binding = json.loads((self.checkpoint.path / "eagre.json").read_text())
        topics = Topics(self.brokers)
        binding["cluster"] = topics.cluster_id()
        binding["topics"] = {self.source: topics.describe([self.source])[self.source].id}
        (self.checkpoint.path / "eagre.json").write_text(json.dumps(binding))

    def send(self, numbers):
        producer = Producer({"bootstrap.servers": self.brokers})
        for n in numbers:
            row, card = {"card": f"c{n % CARDS}", "n": n}, n % CARDS
            producer.produce(self.source, json.dumps(row), f"c{card}", partition=card % 2)
        producer.flush()


@pytest.fixture
def aged(cli, eagre_harness):
    def make(name):
        topics = Topics(eagre_harness.brokers)
        if left := {f"{name}-in", f"{name}-out"} & set(topics.names()):
            topics.delete(sorted(left))
        return Aged(name, eagre_harness.brokers, cli.folder)

    return make


def counted(records):
    rows = [json.loads(record.value()) for record in records]
    return sorted((row["card"], row["count"], row["total"]) for row in rows)


def expected(number):
    rows = []
    for card in range(CARDS):
        of_card = range(card, number, CARDS)
        sums = [2 * sum(of_card[: n + 1]) for n in range(len(of_card))]
        rows += [(f"c{card}", n + 1, total) for n, total in enumerate(sums)]
    return sorted(rows)


@pytest.mark.parametrize("mode", ["real-time", "micro-batch", "available-now"])
def test_a_checkpoint_of_version_0_2_is_continued(in_process, eagre_harness, aged, mode):
    """Exactly once: 24 records were committed, and the results of 42 were written."""
    old = aged("aged")
    assert old.checkpoint.reached() == {"aged-in": {0: 12, 1: 12}}
    assert counted(eagre_harness.records("aged-out", {0: 0})) == expected(42)
    old.send(range(42, 60))
    run = in_process(old.app, mode=mode, every="5 seconds" if mode == "real-time" else None)
    everything = {"aged-in": {0: 30, 1: 30}}
    wait_until(lambda: old.checkpoint.reached() == everything, 60, f"{run.events}")
    run.drain()
    found, every = counted(eagre_harness.records("aged-out", {0: 0})), expected(60)
    if mode != "real-time":  # a batch writes the last count of each card
        last = [row for row in every if row[1] == 60 // CARDS]
        every = sorted(expected(42) + last)
    assert found == every
    assert old.checkpoint.committed()[1] == everything


def test_plain_spark_refuses_a_checkpoint_of_version_0_2(aged, eagre_spark):
    """Its newest commit is in the folder that the release used, and not in Spark's logs."""
    old = aged("aged")
    assert (old.checkpoint.path / FOLDER_BEFORE_0_3).exists()
    [pipeline] = App.parse(str(old.app)).pipelines()
    with pytest.raises(Exception, match="CHECKPOINT_NOT_ADOPTED"):
        pipeline.start(eagre_spark, checkpoint=str(old.checkpoint.path), brokers=old.brokers)
