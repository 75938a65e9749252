"""``eagre run`` as a process: signals, exit codes, files."""

import json
import signal
import struct
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from conftest import JVM_OPTIONS, processes_of
from eagre.broker import Topics
from eagre.waiting import wait_until

APP = """
from pyspark.sql import functions as F
import eagre as eg

@eg.pipeline(source=eg.Kafka("{name}-in", schema="card STRING, n BIGINT"),
             sink=eg.Kafka("{name}-out", key="card"))
def {name}(df):
    return df.{body}
"""
LZ4 = 3
"""The codec's number in a record batch on the broker's disk."""
COUNT = 'groupBy("card").agg(F.count("*").alias("n"))'


class Run:
    """A run in the background; collects its output."""

    def __init__(self, cli, *args):
        self.process = cli.start("run", *args)
        self.output = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        self.output.extend(line.rstrip() for line in self.process.stderr)

    def wait_for(self, word, timeout=90):
        def printed():
            assert self.process.poll() is None or self.has(word), "\n".join(self.output)
            return self.has(word)

        wait_until(printed, timeout, f"never printed {word!r}:\n" + "\n".join(self.output))

    def has(self, word):
        return any(word in line for line in self.output)

    def end(self, sign=signal.SIGTERM):
        self.process.send_signal(sign)
        wait_until(lambda: self.process.poll() is not None, 60, "\n".join(self.output))
        return self.process.returncode


@pytest.fixture
def run(cli):
    runs = []

    def start(*args):
        runs.append(Run(cli, *args))
        return runs[-1]

    yield start
    for started in runs:
        started.process.kill()
        started.process.wait()
        print("\n".join(started.output))  # noqa: T201  (shown of a test that failed)
        started.process.stdout.close()
        started.process.stderr.close()
        started.process.stdin.close()


def produce(brokers, topic, rows):
    producer = Producer({"bootstrap.servers": brokers})
    for number, row in enumerate(rows):
        producer.produce(topic, json.dumps(row))
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def written(brokers, topic):
    return Topics(brokers).ends([topic])[topic][0]


@pytest.mark.early
@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.e2e)])
def test_a_run_drains_and_resumes_in_another_mode(cli, run, eagre_broker, again):
    """``runs_in_process.py`` also has a run that resumes in another mode."""
    at, name = eagre_broker.address, f"drained_{again}".lower()
    app = cli.app(APP.format(name=name, body=COUNT))
    conf = "spark.sql.shuffle.partitions=3"
    first = run(app, "--brokers", at, "--every", "5 seconds", "--conf", conf)
    first.wait_for("running in real-time, commits every 5 s")
    produce(at, f"{name}-in", [{"card": f"c{n % 3}", "n": n} for n in range(30)])
    wait_until(lambda: written(at, f"{name}-out") >= 30, 30, "rows were not written at once")
    assert first.end(signal.SIGINT) == 0, first.output
    assert first.has("draining, within 60 s")
    assert first.has("drained, 30 records written")
    assert written(at, f"{name}-out") == 30

    shown = json.loads(cli.ok("checkpoint", "show", name, "--json", "-").stdout)
    assert shown["offsets"] == {f"{name}-in": {"0": 30}}
    assert shown["stateful"]
    assert shown["settings"]["spark.sql.shuffle.partitions"] == "3"
    assert f"{name}-in/0" in cli.ok("topic", "lag", name, "--brokers", at).stdout
    lag = json.loads(cli.ok("topic", "lag", name, "--json", "-", "--brokers", at).stdout)
    read = {"topic": f"{name}-in", "partition": 0, "committed": 30, "end": 30, "lag": 0}
    assert lag == {"partitions": [{"pipeline": name, **read}]}

    assert processes_of(cli.folder) == []
    if not again:
        return
    produce(at, f"{name}-in", [{"card": "c0", "n": 1}])
    second = cli.ok("run", app, "--brokers", at, "--mode", "available-now", "--verbose")
    assert "resumed after batch" in second.stderr
    logs = cli.folder / ".eagre" / "logs"
    assert f"Spark logs to {logs}\n" in second.stderr
    assert " INFO " in (logs / "app.log").read_text()
    assert " INFO " not in (logs / "app.1.log").read_text()
    assert written(at, f"{name}-out") == 31
    assert processes_of(cli.folder) == []


@pytest.mark.e2e
def test_a_large_lag_is_reported_and_processed(cli, run, eagre_broker):
    at = eagre_broker.address
    Topics(at).create("lagging-in", 1)
    produce(at, "lagging-in", [{"card": "c", "n": n} for n in range(50_000)])
    app = cli.app(APP.format(name="lagging", body='where("n % 2 = 0")'))
    late = run(app, "--brokers", at, "--from", "earliest", "--profile", "throughput")
    late.wait_for("catching up: 50,000 records are waiting in the source")
    late.wait_for("caught up: 50,000 records in")
    wait_until(lambda: written(at, "lagging-out") == 25_000, 30, "not all rows came out")
    (log,) = eagre_broker.data.glob("**/lagging-out-0/*.log")
    (attributes,) = struct.unpack(">21xh", log.read_bytes()[:23])
    assert attributes & 7 == LZ4, "the producer has the options of another profile"


@pytest.mark.e2e
def test_pipelines_of_one_file_run_in_separate_processes(cli, run):
    text = APP.format(name="left", body='where("n > 0")') + APP.format(
        name="right", body='where("n > 1")'
    )
    both = run(cli.app(text), "--every", "5 seconds", "--checkpoint", "checkpoints")
    both.wait_for("left: running")
    both.wait_for("right: running")
    sparks = processes_of(cli.folder, "eagre.runtime.child")
    assert len(sparks) == 2
    address = next(line.split()[-1] for line in both.output if "starting Kafka on" in line)
    rows = [{"card": "c", "n": n} for n in range(3)]
    for name in ("left", "right"):
        produce(address, f"{name}-in", rows)
    wait_until(lambda: written(address, "left-out") == 2, 30, "left wrote nothing")
    wait_until(lambda: written(address, "right-out") == 1, 30, "right wrote nothing")
    assert both.end() == 0, both.output
    folders = [path for path in (cli.folder / "checkpoints").iterdir() if path.is_dir()]
    assert {path.name for path in folders} == {"left", "right"}
    wait_until(lambda: not processes_of(cli.folder), 10, "a process was left behind")


@pytest.mark.e2e
def test_a_killed_spark_process_ends_the_run_and_drains_the_others(cli, run):
    text = APP.format(name="killed", body='where("n > 0")') + APP.format(
        name="other", body='where("n > 1")'
    )
    both = run(cli.app(text), "--every", "5 seconds", "--restarts", "0")
    both.wait_for("killed: running")
    both.wait_for("other: running")
    children = processes_of(cli.folder, "eagre.runtime.child")
    min(children, key=lambda p: p.create_time()).kill()
    assert both.process.wait(60) == 1, both.output
    assert both.has(
        "killed: SPARK_ENDED: the Spark process of pipeline 'killed' exited unexpectedly"
    )
    assert both.has("other: drained")
    wait_until(lambda: not processes_of(cli.folder), 10, "a process was left behind")


@pytest.mark.e2e
@pytest.mark.parametrize("how", ["second signal", "kill"])
def test_an_abrupt_end_leaves_no_process_and_no_counters(cli, run, how):
    cli.env[JVM_OPTIONS] = cli.env[JVM_OPTIONS].replace("-XX:-UsePerfData", "")
    running = run(cli.app(APP.format(name="abrupt", body='where("n > 0")')))
    running.wait_for("running in real-time")
    jvms = {str(p.pid) for p in processes_of(cli.folder, "org.apache.spark.deploy.SparkSubmit")}
    assert jvms
    assert not jvms & {path.name for path in Path("/tmp").glob("hsperfdata_*/*")}  # noqa: S108
    if how == "kill":
        running.process.kill()
    else:
        running.process.send_signal(signal.SIGTERM)
        running.wait_for("draining")
        running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(20) == {"kill": -signal.SIGKILL, "second signal": 1}[how]
    assert running.has("ENDED_AT_ONCE") == (how == "second signal")
    wait_until(lambda: not processes_of(cli.folder), 20, "a process was left behind")


@pytest.mark.e2e
def test_ctrl_c_while_starting_ends_immediately(cli, run):
    running = run(cli.app(APP.format(name="early", body='where("n > 0")')))
    running.wait_for("starting Spark")
    assert running.end(signal.SIGINT) == 130
    wait_until(lambda: not processes_of(cli.folder), 10, "a process was left behind")


@pytest.mark.e2e
def test_the_embedded_broker_of_a_project_is_used_when_it_runs(cli, run):
    address = cli.ok("broker", "start", "--port", "0").stdout.strip()
    try:
        app = cli.app(APP.format(name="joined", body='where("n > 0")'))
        done = cli.ok("run", app, "--mode", "available-now")
        assert f"using the embedded broker on {address}" in done.stderr
        assert "joined-in" in cli.ok("topic", "list").stdout
    finally:
        cli.ok("broker", "stop", "--all")
