"""Checkpoints on S3: kills, two drivers at once, a driver that wakes up after another took over."""

import json
import os
import signal
import time
from collections import Counter
from contextlib import suppress

import psutil
import pytest

from conftest import processes_of
from eagre.waiting import wait_until
from s3_server import BUCKET, CREDENTIALS, s3  # noqa: F401  (a fixture)
from test_run import produce, run, written  # noqa: F401  (run is a fixture)

pytestmark = pytest.mark.e2e

ONCE = """
import eagre as eg
from pyspark.sql import functions as F

@eg.pipeline(
    source=eg.Kafka("{name}-in", schema="card STRING, n BIGINT", partitioned_by="card"),
    sink=eg.Kafka("{name}-out", key="card", delivery="exactly-once"),
)
def {name}(df):
    return df.groupBy("card").agg(F.count("*").alias("count"))
"""
CARDS = 3
QUICK = (
    *("--conf", "spark.hadoop.fs.s3a.attempts.maximum=1"),
    *("--conf", "spark.hadoop.fs.s3a.retry.limit=1"),
)
KILLS = 4


def rows(first, last):
    return [{"card": f"c{n % CARDS}", "n": n} for n in range(first, last)]


def expected(number):
    return Counter((f"c{card}", n + 1) for card in range(CARDS) for n in range(number // CARDS))


def counts(harness, topic):
    values = (json.loads(record.value()) for record in harness.records(topic, {0: 0}))
    return Counter((row["card"], row["count"]) for row in values)


def conf(cli, s3):  # noqa: F811
    """Return the variable that names a folder with the settings, for commands without --conf."""
    folder = cli.folder.parent / "conf"
    folder.mkdir()
    lines = [f"{key} {value}" for key, value in s3.settings.items()]
    (folder / "spark-defaults.conf").write_text("\n".join(lines))
    return {"SPARK_CONF_DIR": str(folder)}


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def on_s3(cli, run, s3, eagre_harness):  # noqa: F811
    def start(name, *options):
        app = cli.app(ONCE.format(name=name), f"{name}.py")
        at = ("--brokers", eagre_harness.brokers, "--from", "earliest", "--every", "5 seconds")
        return run(app, *at, *s3.options(name), *options)

    return start


def test_a_killed_run_continues_from_s3_and_repeats_nothing(on_s3, cli, s3, eagre_harness):  # noqa: F811
    at = eagre_harness.brokers
    running = on_s3("killed")
    running.wait_for("running in real-time")
    for round_ in range(1, KILLS + 1):
        produce(at, "killed-in", rows(30 * (round_ - 1), 30 * round_))
        wait_until(lambda seen=30 * round_: written(at, "killed-out") >= seen, 90, "no results")
        time.sleep(2 * round_)  # before a commit, in one, after one
        for process in processes_of(cli.folder):
            os.kill(process.pid, signal.SIGKILL)
        running = on_s3("killed")
        running.wait_for("running in real-time")
    produce(at, "killed-in", rows(30 * KILLS, 30 * KILLS + 30))
    wait_until(lambda: written(at, "killed-out") >= 30 * KILLS + 30, 90, "no results")
    assert running.end() == 0, "\n".join(running.output)
    assert counts(eagre_harness, "killed-out") == expected(30 * KILLS + 30)
    assert not any(CREDENTIALS["AWS_SECRET_ACCESS_KEY"] in line for line in running.output)
    assert not [path for path in cli.folder.rglob("*") if path.name.startswith("s3a")]
    shown = cli.ok("checkpoint", "show", f"s3a://{BUCKET}/killed", "--json", "-", **conf(cli, s3))
    assert json.loads(shown.stdout)["offsets"] == {"killed-in": {"0": 30 * KILLS + 30}}


def test_a_second_run_is_refused(on_s3, s3):  # noqa: F811
    first = on_s3("twice")
    first.wait_for("running in real-time")
    second = on_s3("twice")
    second.wait_for("CHECKPOINT_IN_USE")
    wait_until(lambda: second.process.poll() == 1, 30, "the refused run does not end")
    assert first.end() == 0, "\n".join(first.output)
    third = on_s3("twice")
    third.wait_for("running in real-time")
    assert third.end() == 0


def test_a_run_that_wakes_up_after_a_takeover_is_fenced(on_s3, cli, s3, eagre_harness):  # noqa: F811
    at = eagre_harness.brokers
    first = on_s3("asleep", "--restarts", "0")
    first.wait_for("running in real-time")
    produce(at, "asleep-in", rows(0, 30))
    wait_until(lambda: written(at, "asleep-out") >= 30, 90, "no results")
    asleep = processes_of(cli.folder)
    for process in asleep:
        process.suspend()
    second = on_s3("asleep", "--restarts", "0")
    second.wait_for("running in real-time", 180)
    produce(at, "asleep-in", rows(30, 60))
    wait_until(lambda: written(at, "asleep-out") >= 60, 90, "no results")
    for process in asleep:
        with suppress(psutil.NoSuchProcess):
            process.resume()
    produce(at, "asleep-in", rows(60, 90))
    wait_until(lambda: first.process.poll() is not None, 60, "the fenced run does not end")
    assert first.has("CHECKPOINT_TAKEN"), "\n".join(first.output)
    wait_until(lambda: written(at, "asleep-out") >= 90, 90, "no results")
    assert second.end() == 0, "\n".join(second.output)
    assert counts(eagre_harness, "asleep-out") == expected(90)


def test_a_store_without_conditional_writes_is_refused(on_s3, s3):  # noqa: F811
    run_ = on_s3("unsafe", "--conf", "spark.hadoop.fs.s3a.create.conditional.enabled=false")
    run_.wait_for("CHECKPOINT_STORE_UNSAFE")
    assert "unsafe" not in s3.request("GET", f"{BUCKET}?list-type=2")


def test_a_store_that_does_not_respond_is_named(on_s3, s3):  # noqa: F811
    run_ = on_s3("away", "--conf", "spark.hadoop.fs.s3a.endpoint=http://127.0.0.1:1", *QUICK)
    run_.wait_for("CHECKPOINT_UNREACHABLE", 120)


def test_a_checkpoint_on_s3_is_reset(on_s3, cli, s3, eagre_harness):  # noqa: F811
    running = on_s3("reset")
    running.wait_for("running in real-time")
    produce(eagre_harness.brokers, "reset-in", rows(0, 9))
    wait_until(lambda: written(eagre_harness.brokers, "reset-out") >= 9, 90, "no results")
    assert running.end() == 0
    settings = conf(cli, s3)
    cli.ok("checkpoint", "reset", f"s3a://{BUCKET}/reset", "--yes", **settings)
    shown = cli("checkpoint", "show", f"s3a://{BUCKET}/reset", **settings)
    assert "CHECKPOINT_NOT_FOUND" in shown.stderr
