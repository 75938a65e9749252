"""A standby takes over from a Spark process that fails: with scripted children, and for real."""

from queue import Queue
from types import SimpleNamespace

import psutil
import pytest

import scripted_children
from conftest import processes_of
from eagre.runtime import child, runs, spark_child, standby, supervisor
from eagre.runtime.spark_child import SparkChild
from eagre.runtime.spec import RunSpec
from eagre.runtime.standby import Standby
from eagre.waiting import wait_until
from test_mid_epoch_commits import results
from test_run import produce, run, written  # noqa: F401  (run is a fixture)
from test_supervision import status

RUNS = "introduce(has_run=True); running(); tell('epoch', batch=0)"
CRASHES = f"{RUNS}\nwhile not (folder / 'crash').exists(): time.sleep(0.01)\ncrash()"
WAITS = """
print("spare", flush=True)
tell("prepared")
sys.stdin.readline()
if sys.stdin.readline() == "go\\n":
    print("took over", flush=True)
    running()
    until_drained()
"""


@pytest.fixture
def supervised(tmp_path, monkeypatch):
    """Start a supervisor with standbys that start and restart at once."""
    scripted_children.install(tmp_path, monkeypatch)
    monkeypatch.setattr(supervisor, "LONGEST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(standby, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(standby, "AGAIN_SECONDS", 0.0)

    def start(*scripts, named=None, **options):
        scripts = {"score": scripts, **(named or {})}
        return scripted_children.Supervised(tmp_path, scripts, standby=True, **options).start()

    return start


READY = "a standby is ready to take over"


def test_a_standby_takes_over(supervised, tmp_path):
    started = supervised(CRASHES, WAITS, brokers=lambda: "host:1")
    started.wait_for("note", text=READY)
    [status] = [status for each in runs.running() for status in each.pipelines.values()]
    assert status.standby
    (tmp_path / "crash").touch()
    started.wait_for_starts(3)
    assert [(start["standby"], start["check"]) for start in started.starts()] == [
        (False, True),
        (True, False),
        (True, False),
    ]
    assert len([event for _, event in started.events if event["event"] == "running"]) == 2
    started.stop()
    assert started.wait() == "ended"
    assert all(gone(start["pid"]) for start in started.starts())


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_standby_is_told_the_cluster_of_the_run(supervised, tmp_path):
    tells = WAITS.replace("sys.stdin.readline()\nif", "told(sys.stdin.readline())\nif", 1)
    writes = "told = lambda line: (folder / 'told').write_text(line)" + tells
    crashes = CRASHES.replace("has_run=True", "has_run=True, needs_brokers=True")
    started = supervised(crashes, writes, brokers=lambda: "host:1").wait_for("note", text=READY)
    started.stop()
    (tmp_path / "crash").touch()
    assert started.wait() == "SPARK_ENDED"
    assert (tmp_path / "told").read_text() == "host:1\n"


def test_the_log_of_a_standby_continues_that_of_the_process_it_replaces(supervised, tmp_path):
    started = supervised(CRASHES, WAITS, DRAINS_UNASKED).wait_for("note", text=READY)
    (tmp_path / "crash").touch()
    started.wait_for_starts(3).stop()
    assert started.wait() == "ended"
    logs = tmp_path / ".eagre" / "logs"
    assert (logs / "score.log").read_text() == "took over\n"
    assert (logs / "score.standby.1.log").read_text() == "spare\n"


DRAINS_UNASKED = "until_drained()"


def test_a_standby_that_is_not_ready_takes_over_as_far_as_it_is(supervised, tmp_path):
    slow = WAITS.replace('tell("prepared")', 'time.sleep(1)\ntell("prepared")')
    started = supervised(CRASHES, slow).wait_for_starts(2)
    (tmp_path / "crash").touch()
    wait_until(lambda: len(started.starts()) == 3, 20, "the standby does not run")
    started.stop()
    assert started.wait() == "ended"


def test_a_standby_that_keeps_dying_is_given_up_and_the_pipeline_runs(supervised):
    fails = "tell('failed', code='APP_RAISED', problem='the port is taken.', hint='')\nsys.exit(1)"
    started = supervised(f"{RUNS}; until_drained()", "crash()", fails)
    text = "the standby exited unexpectedly: APP_RAISED: the port is taken."
    started.wait_for("note", text=text)
    started.wait_for("note", text=f"{text} The run continues without a standby.")
    assert len(started.starts()) == 1 + standby.ATTEMPTS
    assert "standby exited unexpectedly; see " in str(started.events)
    started.stop()
    assert started.wait() == "ended"
    assert not started.has("restarting")


def test_a_standby_that_has_failed_but_does_not_exit_never_takes_over(supervised, tmp_path):
    hangs = "tell('failed', code='APP_RAISED', problem='no.', hint='')\ntime.sleep(60)"
    started = supervised(CRASHES, hangs, WAITS, WAITS)
    started.wait_for("note", text="the standby exited unexpectedly: APP_RAISED: no.")
    started.wait_for("note", text=READY)
    (tmp_path / "crash").touch()
    started.wait_for_starts(4).stop()
    assert started.wait() == "ended"
    assert [start["standby"] for start in started.starts()] == [False, True, True, True]


def test_a_failed_standby_is_not_taken():
    killed = []
    child = SimpleNamespace(log="log", kill=lambda: killed.append("kill"), wait=lambda: 0)
    spare = Standby(wanted=True, child=child)
    assert spare.hear({"event": "prepared"}) == READY
    assert spare.hear({"event": "failed", "code": "C", "problem": "p."}) == ""
    assert spare.take() is None
    assert killed == ["kill", "kill"]
    spare.child = child
    assert spare.hear({"event": "gone"}) == "the standby exited unexpectedly; see log."


def test_a_standby_that_was_ready_for_long_may_fail_again(monkeypatch):
    monkeypatch.setattr(standby, "STEADY_SECONDS", -1.0)
    child = SimpleNamespace(log="log", kill=lambda: None, wait=lambda: 0)
    spare = Standby(wanted=True)
    for _ in range(2 * standby.ATTEMPTS):
        spare.child = child
        spare.hear({"event": "prepared"})
        assert "without a standby" not in spare.hear({"event": "gone"})


def test_a_drain_does_not_wait_for_the_remains_of_a_standby(supervised, monkeypatch, tmp_path):
    """A process of the app in a session of its own holds the log of its standby.

    It outlives the drain; a drain that waited for the log would outlive it.
    """
    for module in (spark_child, standby):
        monkeypatch.setattr(module, "END_SECONDS", 600.0)
    holds = (
        "held = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "(folder / 'held').write_text(str(held.pid))" + WAITS
    )
    started = supervised(f"{RUNS}; until_drained()", holds).wait_for("note", text=READY)
    holder = psutil.Process(int((tmp_path / "held").read_text()))
    try:
        started.stop()
        started.wait_for("ended")
        assert holder.is_running()
        assert holder.status() != psutil.STATUS_ZOMBIE
    finally:
        holder.kill()
    assert started.wait() == "ended"


@pytest.mark.parametrize("error", [OSError("no space"), RuntimeError("can't start new thread")])
def test_a_standby_that_cannot_be_started_leaves_the_pipeline_alone(supervised, monkeypatch, error):
    def start(spec, *args):
        if spec.standby:
            raise error
        return SparkChild(spec, *args)

    monkeypatch.setattr(supervisor, "SparkChild", start)
    started = supervised(f"{RUNS}; until_drained()")
    text = f"SPARK_ENDED: the Spark process of pipeline 'score' cannot be started: {error}."
    text = f"the standby exited unexpectedly: {text}"
    started.wait_for("note", text=text)
    started.wait_for("note", text=f"{text} The run continues without a standby.").stop()
    assert started.wait() == "ended"


@pytest.mark.parametrize("pings", [0, 2])
def test_a_standby_without_its_jvm_fails(monkeypatch, pings):
    answers = iter([None] * pings)

    def ping(_):
        try:
            next(answers)
        except StopIteration:
            raise ConnectionError("the JVM is gone") from None

    told = []
    monkeypatch.setattr(child, "PING_SECONDS", 0.01)
    monkeypatch.setattr(child.gateway, "ping", ping)
    monkeypatch.setattr(child, "check", lambda *_, **__: 1 / 0)
    parent = SimpleNamespace(orders=Queue(), tell=told.append)
    with pytest.raises(ConnectionError):
        child.stand_by(None, None, RunSpec(app="a.py"), "", parent)
    assert told == ["prepared"] * bool(pings)


def test_a_standby_that_is_needed_at_once_does_not_check(monkeypatch):
    monkeypatch.setattr(child, "check", lambda *_, **__: pytest.fail("it checks"))
    parent = SimpleNamespace(orders=Queue(), tell=pytest.fail)
    parent.orders.put("go")
    child.stand_by(None, None, RunSpec(app="a.py"), "", parent)


def test_a_pipeline_that_has_ended_has_no_standby(supervised):
    ends = f"{RUNS}; time.sleep(1); tell('ended', drained=False, written=None, epochs=0)"
    started = supervised(ends, WAITS).wait_for("note", text=READY)
    assert started.wait() == "ended"
    assert all(gone(start["pid"]) for start in started.starts())


def test_a_standby_takes_over_only_for_its_own_pipeline(supervised, tmp_path):
    first = CRASHES.replace("introduce(", "introduce('score', 'other', ")
    other = f"{RUNS}; until_drained()"
    started = supervised(first, WAITS, named={"other": [other, WAITS]})
    started.wait_for("note", text=READY).wait_for("note", "other", text=READY)
    (tmp_path / "crash").touch()
    started.wait_for_starts(3)
    assert len(started.starts("other")) == 2
    started.stop()
    assert started.wait() == "ended"


@pytest.mark.parametrize(
    "words",
    [
        ("--master", "spark://127.0.0.1:1"),
        ("--mode", "available-now"),
        ("--conf", "spark.master=yarn"),
        ("--restarts", 0),
    ],
)
def test_a_standby_is_refused_where_it_makes_no_sense(call, tmp_path, words):
    app = tmp_path / "app.py"
    app.write_text("")
    done = call("run", str(app), "--standby", *words)
    assert done.code == 2
    assert "--standby" in done.err


def test_a_standby_is_refused_for_the_master_of_the_settings_files(call, tmp_path, monkeypatch):
    (tmp_path / "app.py").write_text("")
    (tmp_path / "spark-defaults.conf").write_text("spark.master spark://host:7077\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    done = call("run", tmp_path / "app.py", "--standby")
    assert done.code == 2
    assert "spark://host:7077" in done.err


APP = """
import os
from pyspark.sql import functions as F
import eagre as eg

@eg.udf("bigint")
def doubled(n):
    return 2 * n

@eg.pipeline(source=eg.Kafka("{name}-in", schema="card STRING, n BIGINT", partitioned_by="card"),
             sink=eg.Kafka("{name}-out", key="card", delivery="exactly-once"))
def {name}(df):
    return df.select("card", doubled("n").alias("n"))
"""


def jvms_of(cli):
    return processes_of(cli.folder, "org.apache.spark.deploy.SparkSubmit")


@pytest.mark.e2e
def test_a_standby_continues_after_a_kill_and_repeats_nothing(cli, run, eagre_broker):  # noqa: F811
    at, name = eagre_broker.address, "stood_by"
    app = cli.app(APP.format(name=name))
    running = run(app, "--brokers", at, "--every", "5 seconds", "--from", "earliest", "--standby")
    running.wait_for("running in real-time")
    [active] = jvms_of(cli)
    sent = 0
    for kill in (1, 2):
        for _ in range(3):
            produce(at, f"{name}-in", [{"card": "c", "n": n} for n in range(sent, sent + 50)])
            sent += 50
            wait_until(lambda: written(at, f"{name}-out") >= sent, 60, "results are missing")  # noqa: B023
        wait_until(lambda: status(cli)[name]["standby"], 90, "no standby is ready")
        [other] = [jvm for jvm in jvms_of(cli) if jvm.pid != active.pid]
        active.kill()
        wait_until(lambda: status(cli)[name]["restarts"] == kill, 30, "it does not restart")  # noqa: B023
        active = other
    produce(at, f"{name}-in", [{"card": "c", "n": sent}])
    wait_until(lambda: written(at, f"{name}-out") > sent, 60, "the standby does not continue")
    assert active.is_running()
    cli.ok("stop", name)
    assert running.process.wait(60) == 0
    assert sorted(results(at, f"{name}-out")) == [2 * n for n in range(sent + 1)]
    assert processes_of(cli.folder) == []
