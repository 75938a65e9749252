"""Supervision: restarts, one run per checkpoint, status, stop, the watchdog."""

import json
import shutil
import signal

import pytest
from confluent_kafka import Producer

from conftest import processes_of
from eagre.broker import Topics
from eagre.errors import PipelineFailed
from eagre.runtime.watchdog import GIVE_UP_SECONDS, STALL_SECONDS, Watchdog
from eagre.waiting import wait_until
from test_run import APP, produce, run, written  # noqa: F401  (run is a fixture)

BODY = 'where("n >= 0")'


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
    assert running.process.wait(30) != 0
    wait_until(lambda: not processes_of(cli.folder), 10, "a process was left behind")


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
