"""Supervision: restarts, one run per checkpoint, status, stop, the watchdog."""

import json
import os
import shutil
import signal
import subprocess
import threading
from dataclasses import fields

import psutil
import pytest
from confluent_kafka import Producer

from conftest import EAGRE, processes_of
from eagre.broker import Topics
from eagre.broker.registry import born
from eagre.errors import PipelineFailed
from eagre.runtime.resolved_run import ResolvedRun
from eagre.runtime.watchdog import GIVE_UP_SECONDS, STALL_SECONDS, Watchdog
from eagre.waiting import wait_until
from test_run import APP, COUNT, produce, run, written  # noqa: F401  (run is a fixture)

BODY = 'where("n >= 0")'
MAPPED = APP.replace(
    "import eagre as eg",
    'import eagre as eg\n\n@eg.udf("bigint")\ndef same(n):\n    return n\n',
).replace("df.{body}", 'df.withColumn("n", same("n"))')


def status(cli):
    document = json.loads(cli.ok("status", "--json", "-").stdout)
    return {name: state for each in document["runs"] for name, state in each["pipelines"].items()}


def jvm_of(cli):
    return next(iter(processes_of(cli.folder, "org.apache.spark.deploy.SparkSubmit")), None)


@pytest.mark.e2e
def test_a_killed_jvm_is_restarted_and_nothing_is_lost(cli, run, eagre_broker):  # noqa: F811
    at = eagre_broker.address
    app = cli.app(APP.format(name="restarted", body=BODY))
    running = run(app, "--brokers", at, "--every", "5 seconds", "--from", "earliest")
    running.wait_for("running in real-time")
    produce(at, "restarted-in", [{"card": "c", "n": n} for n in range(10)])
    wait_until(lambda: written(at, "restarted-out") >= 10, 30, "no results were written")
    wait_until(lambda: status(cli)["restarted"]["commits"] > 1, 30, "nothing was committed")
    jvm_of(cli).kill()
    running.wait_for("Starting again immediately (1 of 10)")
    produce(at, "restarted-in", [{"card": "c", "n": n} for n in range(10, 15)])
    wait_until(lambda: written(at, "restarted-out") >= 15, 60, "the run did not continue")
    shown = status(cli)["restarted"]
    assert (shown["restarts"], shown["mode"]) == (1, "real-time")
    assert shown["failure"]
    text = cli.ok("status").stdout
    assert "restarted" in text
    assert "last failure" in text
    cli.ok("stop", "restarted")
    assert running.process.wait(30) == 0
    assert running.has("restarted: drained")
    assert cli.ok("status").stdout.strip() == "no pipeline is running"
    assert processes_of(cli.folder) == []


STOPS = """
import threading, time
from pathlib import Path

def stop_spark():
    while not Path("stop").exists():
        time.sleep(0.1)
    Path("stop").unlink()
    from pyspark import SparkContext
    SparkContext._active_spark_context._jsc.sc().stop()

threading.Thread(target=stop_spark, daemon=True).start()
"""


@pytest.mark.e2e
def test_a_session_that_stops_itself_is_started_again(cli, run, eagre_broker):  # noqa: F811
    """As when the heap is exhausted in a thread of Spark's scheduler; the JVM goes on."""
    at = eagre_broker.address
    app = cli.app(STOPS + APP.format(name="stopping", body=COUNT))
    running = run(app, "--brokers", at, "--every", "5 seconds", "--from", "earliest")
    running.wait_for("running in real-time")
    (cli.folder / "stop").touch()
    running.wait_for("Starting again immediately (1 of 10)")
    assert running.has("SPARK_ENDED")
    produce(at, "stopping-in", [{"card": "c", "n": n} for n in range(5)])
    wait_until(lambda: written(at, "stopping-out") >= 5, 60, "the run did not continue")
    assert running.end() == 0


@pytest.mark.e2e
def test_a_jvm_killed_while_it_starts_is_restarted(cli, run, eagre_broker):  # noqa: F811
    """The parent is new: that the pipeline works is known from its checkpoint."""
    at = eagre_broker.address
    app = cli.app(APP.format(name="startled", body=BODY))
    Topics(at).create("startled-in", 1)
    produce(at, "startled-in", [{"card": "c", "n": 1}])
    cli.ok("run", app, "--brokers", at, "--mode", "available-now")
    running = run(app, "--brokers", at, "--every", "5 seconds")
    for again in ("immediately (1 of 10)", "in 1 s (2 of 10)"):
        wait_until(lambda: jvm_of(cli), 60, "no JVM was started").kill()
        running.wait_for(f"Starting again {again}")
    assert running.has("SPARK_ENDED: the JVM exited unexpectedly")
    running.wait_for("running in real-time")
    assert running.end() == 0


@pytest.mark.e2e
def test_a_run_ends_when_its_restarts_are_used_up(cli, run, eagre_broker):  # noqa: F811
    at = eagre_broker.address
    body = "where(F.when(F.col('n') < 0, F.raise_error('no such amount')).otherwise(True))"
    app = cli.app(APP.format(name="hopeless", body=body))
    running = run(
        app, "--brokers", at, "--from", "earliest", "--restarts", "1", "--every", "1 minute"
    )
    running.wait_for("running in real-time")
    produce(at, "hopeless-in", [{"card": "c", "n": -1}])
    running.wait_for("no such amount Starting again immediately (1 of 1)")
    assert running.process.wait(90) == 1
    assert any("QUERY_FAILED" in line and "no such amount" in line for line in running.output[-3:])


@pytest.mark.e2e
def test_a_jvm_that_is_stopped_is_reported(cli, run, eagre_broker):  # noqa: F811
    """The Spark process waits for its JVM, and cannot report lag or commits."""
    at = eagre_broker.address
    app = cli.app(APP.format(name="frozen", body=BODY))
    running = run(app, "--brokers", at, "--every", "5 seconds")
    running.wait_for("running in real-time")
    jvm = jvm_of(cli)
    jvm.suspend()
    running.wait_for("frozen: stalled: the JVM has not responded for 15 s")
    assert status(cli)["frozen"]["phase"] == "stalled"
    jvm.resume()
    running.wait_for("frozen: records flow again")
    assert running.end() == 0
    assert running.has("frozen: drained")


@pytest.mark.e2e
def test_a_killed_supervisor_leaves_no_process(cli, run, eagre_broker):  # noqa: F811
    """Python workers lead a process group of their own; a stopped one ends by no other signal."""
    at = eagre_broker.address
    app = cli.app(MAPPED.format(name="orphaned"))
    running = run(app, "--brokers", at, "--every", "5 seconds", "--from", "earliest")
    running.wait_for("running in real-time")
    produce(at, "orphaned-in", [{"card": "c", "n": n} for n in range(10)])
    wait_until(lambda: written(at, "orphaned-out") >= 10, 30, "no results were written")
    everything = psutil.Process(running.process.pid).children(recursive=True)
    workers = processes_of(cli.folder, "eagre_worker")
    assert workers
    for worker in workers:
        worker.suspend()
    running.process.kill()
    gone, _ = psutil.wait_procs(everything, timeout=30)
    left = [p for p in everything if p not in gone and born(p.pid) is not None]
    assert left == []


@pytest.mark.e2e
def test_a_second_run_on_a_checkpoint_is_refused(cli, run, eagre_broker):  # noqa: F811
    at = eagre_broker.address
    app = cli.app(APP.format(name="twice", body=BODY))
    first = run(app, "--brokers", at, "--every", "5 seconds")
    first.wait_for("running in real-time")
    before = written(at, "twice-out")
    second = cli("run", app, "--brokers", at, "--every", "5 seconds")
    assert second.returncode == 1
    assert "CHECKPOINT_IN_USE" in second.stderr
    assert written(at, "twice-out") == before
    assert first.process.poll() is None
    done = cli("checkpoint", "reset", "twice", "--yes")
    assert done.returncode == 1
    assert "CHECKPOINT_IN_USE" in done.stderr
    assert first.end() == 0


def test_stop_of_an_unknown_pipeline_is_an_error(cli):
    done = cli("stop", "nobody")
    assert done.returncode == 1
    assert "PIPELINE_NOT_RUNNING" in done.stderr


@pytest.mark.e2e
def test_a_deleted_topic_ends_the_run_with_a_reason(cli, run, eagre_broker):  # noqa: F811
    at = eagre_broker.address
    app = cli.app(APP.format(name="removed", body=BODY))
    running = run(app, "--brokers", at, "--every", "1 minute")
    running.wait_for("running in real-time")
    Topics(at).delete(["removed-in"])
    assert running.process.wait(60) == 1
    assert any("TOPIC_REPLACED" in line or "UNKNOWN_TOPIC" in line for line in running.output), (
        running.output
    )


class Events:
    def __init__(self):
        self.events = []

    def __call__(self, event, **data):
        self.events.append((event, data))


@pytest.fixture
def watchdog(eagre_broker):
    topics = Topics(eagre_broker.address)
    if "watched" not in topics.names():
        topics.create("watched", 2)
    topic = topics.describe(["watched"])["watched"]
    now = [1000.0]
    watched = Watchdog(topics, {"watched": (topic.id, 2)}, Events(), lambda: now[0])
    watched.now = now
    return watched


def with_lag(lag):
    return {("watched", 0): lag, ("watched", 1): 0}


def test_the_watchdog_reports_stalls_and_their_end(watchdog):
    tell = watchdog.tell
    watchdog.observe(100, 50, with_lag(5))
    watchdog.now[0] += STALL_SECONDS + 1
    watchdog.observe(100, 50, with_lag(900))
    assert [e for e, _ in tell.events] == ["stalled"]
    watchdog.observe(101, 60, with_lag(700))
    assert [e for e, _ in tell.events] == ["stalled", "flows"]
    watchdog.now[0] += STALL_SECONDS + 1
    watchdog.observe(None, 60, with_lag(700), unreachable=True)
    assert "no Kafka broker answers" in tell.events[-1][1]["reason"]
    watchdog.now[0] += GIVE_UP_SECONDS + 1
    watchdog.observe(None, 60, with_lag(700), unreachable=True)
    with pytest.raises(PipelineFailed, match="STALLED"):
        watchdog.observe(101, 60, with_lag(700))


def test_an_idle_or_slow_query_is_not_a_stall(watchdog):
    for _ in range(100):
        watchdog.now[0] += 1
        watchdog.observe(100, 50, with_lag(0))
    for second in range(100):
        watchdog.now[0] += 1
        watchdog.observe(100, 50 + second, with_lag(20))
    for _ in range(100):
        watchdog.now[0] += 1
        watchdog.observe(None, 0, {})
    assert watchdog.tell.events == []


def test_the_watchdog_reports_new_and_unread_partitions(watchdog, eagre_broker):
    watchdog.topics.create("unread", 2)
    producer = Producer({"bootstrap.servers": eagre_broker.address})
    producer.produce("unread", "{}", partition=0)
    producer.flush()
    topic = watchdog.topics.describe(["unread"])["unread"]
    watchdog.ids = {"unread": (topic.id, 2)}
    for _ in range(2):
        watchdog.now[0] += 10
        watchdog.observe(1, 1, {("another", 0): 0})
    assert watchdog.tell.events == []
    for _ in range(2):
        watchdog.now[0] += 10
        watchdog.observe(1, 1, {("unread", 1): 0})
    watchdog.ids = {"unread": (topic.id, 1)}
    watchdog.now[0] += 10
    watchdog.observe(1, 1, {})
    unread, grown = [data["text"] for event, data in watchdog.tell.events if event == "note"]
    assert "no task reads unread/0" in unread
    assert "has grown from 1 to 2 partitions" in grown


def test_the_watchdog_reports_a_topic_created_again(watchdog):
    watchdog.ids = {"watched": ("AAAAAAAAAAAAAAAAAAAAAA", 2)}
    with pytest.raises(PipelineFailed, match="created again"):
        watchdog.observe(1, 1, {})
    watchdog.ids = {"never-there": ("AAAAAAAAAAAAAAAAAAAAAA", 2)}
    watchdog.now[0] += 10
    with pytest.raises(PipelineFailed, match="deleted"):
        watchdog.observe(1, 1, {})


class HiddenTopics:
    """A cluster that lists no topic, and refuses a request for those that an ACL hides."""

    brokers = "somewhere:9092"

    def __init__(self, *hidden):
        self._hidden = set(hidden)

    def describe(self, _):
        return {}

    def hidden(self, names):
        return self._hidden & set(names)

    def ends(self, _):
        return {}

    begins = ends


def test_a_topic_that_an_acl_hides_is_not_taken_for_deleted():
    watched = {"watched": ("id", 1)}
    hidden = Watchdog(HiddenTopics("watched"), watched, Events(), lambda: 1000.0)
    hidden.observe(1, 1, {("watched", 0): 0})
    assert "hidden from this client" in hidden.tell.events[0][1]["text"]
    gone = Watchdog(HiddenTopics(), watched, Events(), lambda: 1000.0)
    with pytest.raises(PipelineFailed, match=r"TOPIC_REPLACED: .* deleted"):
        gone.observe(1, 1, {("watched", 0): 0})


def test_micro_batches_with_a_long_trigger_do_not_stall():
    now = [1000.0]
    watchdog = Watchdog(None, {}, Events(), lambda: now[0], trigger_seconds=600.0)
    for _ in range(600 + STALL_SECONDS - 1):
        watchdog.observe(100, 50, with_lag(5))
        now[0] += 1
    assert watchdog.tell.events == []
    now[0] += 2
    watchdog.observe(100, 50, with_lag(5))
    assert "no result for 615 s" in watchdog.tell.events[0][1]["reason"]


@pytest.mark.parametrize(("mode", "seconds"), [("micro-batch", 600.0), ("real-time", 0.0)])
def test_only_micro_batches_have_a_trigger_to_wait_for(mode, seconds):
    names = dict.fromkeys(f.name for f in fields(ResolvedRun))
    assert ResolvedRun(**{**names, "mode": mode, "every": "10 min"}).trigger_seconds == seconds


@pytest.mark.e2e
def test_ctrl_c_while_waiting_to_restart_ends_the_run(cli, run, eagre_broker):  # noqa: F811
    at = eagre_broker.address
    app = cli.app(APP.format(name="waits", body=BODY))
    running = run(app, "--brokers", at, "--every", "1 minute")
    running.wait_for("running in real-time")
    jvm_of(cli).kill()
    running.wait_for("Starting again immediately")
    wait_until(lambda: jvm_of(cli), 30, "the JVM was not restarted").kill()
    running.wait_for("Starting again in 1 s")
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(30) == 1
    assert running.has("SPARK_ENDED")
    wait_until(lambda: not processes_of(cli.folder), 10, "a process was left behind")


@pytest.mark.e2e
def test_a_signal_to_every_process_drains(cli, run, eagre_broker):  # noqa: F811
    """A service manager's signal reaches the child, the JVM and the workers."""
    at = eagre_broker.address
    app = cli.app(MAPPED.format(name="signalled"))
    running = run(app, "--brokers", at, "--every", "1 hour", "--from", "earliest")
    running.wait_for("running in real-time")
    produce(at, "signalled-in", [{"card": "c", "n": n} for n in range(10)])
    wait_until(lambda: written(at, "signalled-out") >= 10, 30, "no results were written")
    everything = [running.process, *psutil.Process(running.process.pid).children(recursive=True)]
    assert len(everything) > 3
    for process in everything:
        os.kill(process.pid, signal.SIGTERM)
    assert running.process.wait(60) == 0, running.output
    assert running.has("signalled: drained")
    again = cli.ok("run", app, "--brokers", at, "--mode", "available-now")
    assert written(at, "signalled-out") == 10, again.stderr


IN_A_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.mark.e2e
def test_a_run_that_is_process_1_restarts_and_drains(cli, eagre_broker):
    """The kernel drops signals to process 1 that have no handler, and gives it all orphans."""
    if subprocess.run([*IN_A_NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a process namespace")
    app = cli.app(APP.format(name="first", body=BODY))
    command = [*IN_A_NAMESPACE, str(EAGRE), "run", str(app), "--brokers", eagre_broker.address]
    process = subprocess.Popen(
        [*command, "--every", "5 seconds"], cwd=cli.folder, env=cli.env, stderr=subprocess.PIPE
    )
    try:
        output = Output(process)
        output.wait_for("running in real-time")
        jvm_of(cli).kill()
        wait_until(lambda: output.count("running in real-time") == 2, 90, str(output.lines))
        [init] = psutil.Process(process.pid).children()

        def reaped():
            states = [child.status() for child in init.children(recursive=True)]
            return psutil.STATUS_ZOMBIE not in states

        wait_until(reaped, 20, "a process that has ended is not reaped")
        init.terminate()
        assert process.wait(60) == 0, output.lines
        assert output.count("first: drained") == 1
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


class Output:
    """The lines that a process has written to its standard error."""

    def __init__(self, process):
        self.lines = []
        self._process = process
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        self.lines.extend(line.decode() for line in self._process.stderr)

    def count(self, text):
        return sum(text in line for line in self.lines)

    def wait_for(self, text):
        wait_until(lambda: self.count(text), 90, f"never printed {text!r}: {self.lines}")


@pytest.mark.e2e
def test_a_lost_checkpoint_is_not_silently_replaced(cli, run, eagre_broker):  # noqa: F811
    at = eagre_broker.address
    app = cli.app(APP.format(name="mislaid", body=BODY))
    running = run(app, "--brokers", at, "--every", "5 seconds")
    running.wait_for("running in real-time")
    assert running.end() == 0
    shutil.rmtree(cli.folder / ".eagre" / "checkpoints" / "mislaid")
    refused = cli("run", app, "--brokers", at)
    assert refused.returncode == 1
    assert "CHECKPOINT_LOST" in refused.stderr
    cli.ok("checkpoint", "reset", ".eagre/checkpoints/mislaid", "--yes")
    again = run(app, "--brokers", at, "--every", "5 seconds")
    again.wait_for("running in real-time")
    assert again.end() == 0
