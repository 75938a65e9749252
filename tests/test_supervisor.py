"""The supervisor with scripted children: restarts, signals, exit codes; no Spark, no Kafka."""

import contextlib
import ctypes
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import psutil
import pytest

import scripted_children
from eagre.broker import registry
from eagre.broker.registry import born
from eagre.cli.signals import Terminated, stop_signals
from eagre.commit import Checkpoint
from eagre.config import state_dir
from eagre.errors import PipelineFailed, SettingsError
from eagre.runtime import child, logs, parent, runs, supervisor
from eagre.runtime.execution.epochs import Epochs
from eagre.runtime.jvm_watch import JvmWatch
from eagre.runtime.parent import DrainedBeforeStart, Parent
from eagre.runtime.runs import Register
from eagre.runtime.spark_child import SparkChild, reap_orphans, temporary_folder
from eagre.runtime.spec import RunSpec
from eagre.runtime.watchdog import GIVE_UP_SECONDS, STALL_SECONDS
from eagre.waiting import wait_until

PYTHON = sys.executable
DRAINS = "introduce(); running(); until_drained()"


@pytest.fixture
def supervised(tmp_path, monkeypatch):
    """Start a supervisor whose restarts do not wait."""
    scripted_children.install(tmp_path, monkeypatch)
    monkeypatch.setattr(supervisor, "LONGEST_WAIT_SECONDS", 0.0)

    def start(*scripts, **options):
        named, now = options.pop("named", {}), options.pop("start", True)
        run = scripted_children.Supervised(tmp_path, {"score": scripts, **named}, **options)
        return run.start() if now else run

    return start


def test_a_commit_since_the_restart_resets_the_failures(supervised):
    """The number of commits starts low again after a restart with mid-epoch commits."""
    fails = "introduce(); running(); tell('epoch', batch=0); status(1); crash()"
    run = supervised(fails, fails, fails, fails, fails, DRAINS, restarts=2)
    run.wait_for_starts(6).stop()
    assert run.wait() == "ended"


def test_a_run_without_a_commit_uses_its_restarts_up(supervised):
    """A higher number in the status alone is no commit: Spark numbers idle batches too."""
    run = supervised(
        "introduce(); running(5); status(7); crash()",
        "introduce(); running(5); status(8); crash()",
        "introduce(); running(5); status(9); crash()",
        DRAINS,
        restarts=2,
    )
    assert run.wait() == "SPARK_ENDED"
    assert len(run.starts()) == 3


def progress(batch, *, idle=False):
    return SimpleNamespace(
        batchId=batch,
        timestamp="2026-01-01T00:00:00Z",
        durationMs={} if idle else {"addBatch": 5},
        numInputRows=0,
        stateOperators=[],
    )


def test_a_batch_that_was_idle_at_first_is_reported_when_it_ends():
    """Spark reports an idle trigger with the number of the next batch."""
    epochs, query = Epochs(), SimpleNamespace(recentProgress=[])
    reported = [epochs.new(query, progress(4)), epochs.new(query, progress(5, idle=True))]
    reported += [epochs.new(query, progress(5)), epochs.new(query, progress(5))]
    assert [[epoch["batch"] for epoch in epochs] for epochs in reported] == [[4], [], [5], []]


CRASHES = "introduce(); running(); crash()"


def test_a_stop_while_a_pipeline_waits_to_restart_drains_the_others(supervised, monkeypatch):
    monkeypatch.setattr(supervisor, "LONGEST_WAIT_SECONDS", 30.0)
    first = "introduce('score', 'other'); running(); crash()"
    run = supervised(first, CRASHES, named={"other": [DRAINS]})
    run.wait_for("running", "other").wait_for("restarting", when="in 1 s").stop()
    assert run.wait() == "SPARK_ENDED"
    assert run.has("ended", "other", drained=True)


def test_a_permanent_failure_while_another_waits_to_restart(supervised, monkeypatch):
    monkeypatch.setattr(supervisor, "LONGEST_WAIT_SECONDS", 30.0)
    first = "introduce('score', 'other', 'third'); running(); crash()"
    waits = "introduce(); running(); time.sleep(1); fail('TOPIC_REPLACED')"
    run = supervised(first, CRASHES, named={"other": [waits], "third": [DRAINS]}, restarts=20)
    assert run.wait() == "TOPIC_REPLACED"
    assert run.has("ended", "third", drained=True)


def test_a_stop_while_starting_has_nothing_to_drain(supervised):
    run = supervised("until_drained()")
    run.wait_for_starts(1).stop()
    assert run.wait() == "KeyboardInterrupt"


def test_a_stop_while_starting_again_reports_the_failure_before(supervised):
    """What came since the last commit is repeated: an exit code of 0 would be wrong."""
    run = supervised(CRASHES, "until_drained()")
    run.wait_for_starts(2).stop()
    assert run.wait() == "SPARK_ENDED"


def test_sigterm_interrupts_the_start_of_a_broker(supervised, tmp_path):
    needs = "introduce(needs_brokers=True)"
    run = supervised(needs, brokers=lambda: time.sleep(60), start=False)
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    began = time.monotonic()
    with pytest.raises(Terminated), stop_signals(run.supervisor.stop):
        run.supervisor.run()
    assert time.monotonic() - began < 30


def test_a_second_stop_kills(supervised):
    run = supervised("introduce(); running(); time.sleep(60)")
    run.wait_for("running").stop()
    time.sleep(0.1)
    run.stop()
    assert run.wait() == "ENDED_AT_ONCE"


def test_a_second_stop_after_the_drain_is_none(supervised):
    """All is committed, and Spark is only being stopped."""
    ends = "tell('ended', drained=True, written=None, epochs=1); time.sleep(1)"
    run = supervised(f"introduce(); running(); sys.stdin.readline(); {ends}")
    run.wait_for("running").stop()
    run.wait_for("ended").stop()
    assert run.wait() == "ended"


def test_a_stop_interrupts_the_start_of_a_broker_while_another_pipeline_runs(supervised):
    """It starts beside a pipeline with a cluster of its own, which must be drained meanwhile."""
    interrupted = threading.Event()

    def starts_slowly():
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(60)
            return ""
        interrupted.set()
        raise KeyboardInterrupt

    first = "introduce('score', 'other'); running(); until_drained()"
    needs = "time.sleep(0.5); introduce(needs_brokers=True)"
    run = supervised(first, named={"other": [needs]}, brokers=starts_slowly, start=False)
    threading.Timer(2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with stop_signals(run.supervisor.stop):
        run.supervisor.run()
    assert interrupted.is_set()
    assert run.has("ended", drained=True)


@pytest.fixture
def killed(monkeypatch):
    ends = []
    monkeypatch.setattr(parent, "end_own_session", lambda: ends.append("killed"))
    return ends


def drained(connection, monkeypatch, killed, *, kills):
    """Send a drain, then the end of the input, which always kills the group."""
    monkeypatch.setattr("sys.stdin", io.StringIO("drain\n"))
    connection.listen()
    wait_until(lambda: len(killed) == kills, 5, "the listener has not ended")
    assert connection.draining.is_set()


def test_a_drain_before_the_query_starts_ends_the_child_at_once(monkeypatch, killed):
    connection = Parent(io.StringIO())
    drained(connection, monkeypatch, killed, kills=2)
    assert json.loads(connection.events.getvalue().splitlines()[0])["event"] == "ended"
    with pytest.raises(DrainedBeforeStart):
        connection.begin()


def test_a_drain_after_the_query_started_is_left_to_the_query(monkeypatch, killed):
    connection = Parent(io.StringIO())
    connection.begin()
    drained(connection, monkeypatch, killed, kills=1)
    assert connection.events.getvalue() == ""


STARTS_A_PROCESS = """
import pathlib, subprocess, time
process = subprocess.Popen(["sleep", "60"])
pathlib.Path("process").write_text(str(process.pid))
time.sleep(60)
"""


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_child_and_its_processes_leave_signals_to_the_parent(tmp_path, monkeypatch, sign):
    """A service manager signals the whole group; the child waits for the parent's command."""
    monkeypatch.chdir(tmp_path)
    app = tmp_path / "app.py"
    app.write_text(STARTS_A_PROCESS)
    events = []
    child = SparkChild(RunSpec(app=str(app)), "score", lambda _, event: events.append(event))
    try:
        process = tmp_path / "process"
        wait_until(lambda: process.exists() and process.read_text(), 60, "the app was not loaded")
        os.killpg(os.getpgid(int(process.read_text())), sign)
        time.sleep(0.5)
        assert born(int(process.read_text())), "the process of the app is gone"
        assert events == []
        child.drain()
        wait_until(lambda: {"event": "gone"} in events, 20, "it ignores the parent as well")
        assert events[0]["event"] == "ended"
    finally:
        child.kill()
        child.wait()


def test_a_jvm_that_does_not_respond_is_given_up():
    said = []
    watch = JvmWatch(lambda: None, lambda event, **_: said.append(event))
    for _ in range(STALL_SECONDS + GIVE_UP_SECONDS):
        watch.step()
    assert said == ["stalled"]
    with pytest.raises(PipelineFailed, match="STALLED"):
        watch.step()


def test_a_jvm_that_dies_in_a_start_is_restarted_if_the_pipeline_has_run_before(supervised):
    dies = "introduce(has_run=True); fail('SPARK_ENDED')"
    run = supervised(dies, "introduce(has_run=True); crash()", DRAINS)
    run.wait_for("running").stop()
    assert run.wait() == "ended"
    assert [start["check"] for start in run.starts()] == [True, True, True]


def test_a_jvm_that_dies_before_the_pipeline_is_known_is_restarted(supervised, tmp_path):
    """An app that needs a session names its pipelines only when Spark has started."""
    commits = tmp_path / ".eagre" / "checkpoints" / "score" / "commits"
    commits.mkdir(parents=True)
    (commits / "0").touch()
    run = supervised("crash()", DRAINS)
    run.wait_for("running").stop()
    assert run.wait() == "ended"
    assert [start["pipeline"] for start in run.starts()] == [None, None]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("introduce(has_run=False); fail('SPARK_ENDED')", "SPARK_ENDED"),
        ("introduce(has_run=True); fail('APP_BROKEN')", "APP_BROKEN"),
        ("crash()", "SPARK_ENDED"),
    ],
)
def test_other_failures_of_a_first_start_end_the_run(supervised, script, code):
    run = supervised(script, DRAINS)
    assert run.wait() == code
    assert len(run.starts()) == 1


LINGERS = "import threading; threading.Thread(target=time.sleep, args=(60,)).start(); "


@pytest.mark.parametrize(
    "end", ["fail('QUERY_FAILED')", "tell('ended', drained=False, written=None, epochs=1)"]
)
def test_a_child_that_reports_its_end_but_does_not_exit_is_killed(supervised, monkeypatch, end):
    """A thread of the app keeps Python from exiting."""
    limits = dict.fromkeys(supervisor.EXIT_SECONDS, 0.5)
    monkeypatch.setattr(supervisor, "EXIT_SECONDS", limits)
    run = supervised(f"introduce(); running(); {LINGERS}{end}", DRAINS, restarts=1)
    if "fail" in end:
        run.wait_for_starts(2).stop()
    assert run.wait() == "ended"


def test_a_child_that_is_killed_within_an_event_is_restarted(supervised):
    cut = 'events.write(\'{"event": "sta\'); events.flush(); crash()'
    run = supervised(f"introduce(); running(); {cut}", DRAINS).wait_for_starts(2)
    run.stop()
    assert run.wait() == "ended"


def test_a_start_that_stalls_is_no_running_pipeline(supervised):
    slow = "introduce(); tell('stalled', reason='no answer'); tell('flows'); tell('note', text='x')"
    run = supervised(f"{slow}; until_drained()").wait_for("note")
    assert run.supervisor.shown()[0].pipelines["score"].phase == "starting"
    assert not run.has("stalled")
    run.stop()
    run.wait()


FORKS = "p = subprocess.Popen(['sleep', '60'], {options}); Path('process').write_text(str(p.pid))"


def test_a_killed_child_is_noticed_while_a_process_of_the_app_holds_its_pipe(supervised, tmp_path):
    """A process that the app forked has all of its files open."""
    forks = FORKS.format(options="close_fds=False")
    run = supervised(f"introduce(); running(); {forks}; crash()", DRAINS).wait_for_starts(2)
    assert born(int((tmp_path / "process").read_text())) is None
    run.stop()
    assert run.wait() == "ended"


def test_a_restart_leaves_no_process_of_another_group(supervised, tmp_path):
    """The daemons of Python workers lead groups of their own."""
    forks = FORKS.format(options="preexec_fn=os.setpgrp")
    stopped = "os.kill(p.pid, signal.SIGSTOP)"
    run = supervised(f"introduce(); running(); {forks}; {stopped}; crash()", DRAINS)
    run.wait_for_starts(2)
    assert born(int((tmp_path / "process").read_text())) is None
    run.stop()
    assert run.wait() == "ended"


def test_a_child_whose_parent_was_killed_ends_its_whole_session(tmp_path):
    program = f"""
import os, signal, subprocess, sys
from pathlib import Path
from eagre.runtime.process_session import end_own_session
{FORKS.format(options="preexec_fn=os.setpgrp").replace("; ", chr(10))}
os.kill(p.pid, signal.SIGSTOP)
end_own_session()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, start_new_session=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    process = int((tmp_path / "process").read_text())
    wait_until(lambda: born(process) is None, 5, "a process of another group is left")


def test_a_restart_that_cannot_start_a_process_is_tried_again(supervised, tmp_path, monkeypatch):
    """The disk is full, or the user has too many processes: this may pass."""
    monkeypatch.setattr(supervisor, "LONGEST_WAIT_SECONDS", 0.5)
    run = supervised("introduce(); running(); time.sleep(1); crash()", DRAINS, restarts=9)
    run.wait_for("running")
    logs_folder = tmp_path / ".eagre" / "logs"
    logs_folder.rename(tmp_path / "away")
    logs_folder.touch()
    wait_until(lambda: "cannot be started" in str(run.events), 20, "nothing failed")
    logs_folder.unlink()
    run.wait_for_starts(2).stop()
    assert run.wait() == "ended"


def test_a_first_start_that_cannot_start_a_process_says_so(supervised, tmp_path):
    (tmp_path / ".eagre").touch()
    assert supervised(DRAINS).wait() == "SPARK_ENDED"


def test_restarts_of_a_pipeline_that_ran_skip_the_check(supervised):
    run = supervised(CRASHES, "introduce(); fail('SPARK_ENDED')", DRAINS)
    run.wait_for_starts(3).stop()
    run.wait()
    assert [start["check"] for start in run.starts()] == [True, False, False]
    assert [start["pipeline"] for start in run.starts()] == [None, "score", "score"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectionRefusedError("Connection refused"), "SPARK_ENDED"),
        (RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"), "SPARK_ENDED"),
        (RuntimeError("Cannot call methods on a stopped SparkContext.\nThis"), "SPARK_ENDED"),
        (RuntimeError("Job 7 cancelled because SparkContext was shut down"), "SPARK_ENDED"),
        (RuntimeError("something else"), "UNEXPECTED"),
        (OSError(28, "No space left on device", "file"), "DISK_FULL"),
    ],
)
def test_a_jvm_that_dies_in_a_start_is_named(error, code):
    assert child._described(error).code == code  # noqa: SLF001


def test_a_query_of_a_session_that_has_stopped_is_started_again(monkeypatch):
    """Spark's own error says nothing about it."""
    error = RuntimeError("Cannot invoke cleanupQueryJobs(long) because dagScheduler() is null")
    query = SimpleNamespace(spark=None, failed=lambda _: PipelineFailed("QUERY_REFUSED", "no."))
    for stopped, code in [(True, "SPARK_ENDED"), (False, "QUERY_REFUSED")]:
        monkeypatch.setattr(child.gateway, "stopped", lambda _, stopped=stopped: stopped)
        assert child.failure_of(query, error).code == code


def test_a_checkpoint_knows_whether_a_run_has_committed(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    assert not checkpoint.has_commit
    (tmp_path / "mid-epoch-commits").mkdir()
    assert not checkpoint.has_commit
    (tmp_path / "mid-epoch-commits" / "0").touch()
    assert checkpoint.has_commit


def test_logs_are_bounded_in_size_and_number(supervised, tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "LOG_BYTES", 1000)
    monkeypatch.setattr(logs, "RETAINED", 3)
    writes = "introduce(); [print(n, 'x' * 96, flush=True) for n in range(100)]; running(); "
    run = supervised(writes + "until_drained()")
    run.wait_for("running").stop()
    assert run.wait() == "ended"
    files = {path.name: path for path in (tmp_path / ".eagre" / "logs").glob("*.log")}
    assert sorted(files) == ["score.1.log", "score.2.log", "score.3.log", "score.log"]
    assert all(path.stat().st_size <= 1000 for path in files.values())
    lines = files["score.1.log"].read_text() + files["score.log"].read_text()
    assert "\n98 x" in lines
    assert lines.splitlines()[-1].startswith("99 x")


def test_a_log_that_cannot_go_on_in_a_new_file_goes_on(supervised, tmp_path, monkeypatch):
    """A process whose output nobody reads would hang, or fail at its next line."""
    monkeypatch.setattr(logs, "LOG_BYTES", 1000)
    makes_way = "os.rename('.eagre/logs', 'away'); Path('.eagre/logs').touch()"
    lines = "[print('x' * 99, flush=True) for _ in range(2000)]; tell('note', text='all')"
    run = supervised(f"introduce(); running(); {makes_way}; {lines}; until_drained()")
    run.wait_for("note", text="all").stop()
    assert run.wait() == "ended"
    assert len((tmp_path / "away" / "score.log").read_text()) == 2000 * 100


def test_a_log_folder_that_is_removed_is_made_again(supervised, tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "LOG_BYTES", 1000)
    removes = "import shutil; shutil.rmtree('.eagre/logs')"
    lines = "[print('x' * 99, flush=True) for _ in range(50)]"
    run = supervised(f"introduce(); running(); {removes}; {lines}; until_drained()")
    run.wait_for("running")
    wait_until((tmp_path / ".eagre" / "logs" / "score.1.log").exists, 10, "there is no log")
    run.stop()
    assert run.wait() == "ended"


def test_the_logs_of_earlier_starts_are_kept(supervised, tmp_path):
    run = supervised("print('first', flush=True); " + CRASHES, "print('second'); " + DRAINS)
    run.wait_for_starts(2).stop()
    run.wait()
    folder = tmp_path / ".eagre" / "logs"
    assert (folder / "score.1.log").read_text() == "first\n"
    assert (folder / "score.log").read_text() == "second\n"


def test_temporary_folders_of_killed_processes_are_swept(supervised, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    base = tmp_path / f"eagre-{os.getuid()}"
    left = base / "spark-killed"
    left.mkdir(parents=True)
    (left / ".lock").touch()
    notes = "Path(os.environ['TMPDIR'], 'blockmgr').touch(); print(os.environ['TMPDIR'])"
    run = supervised(f"{notes}; introduce(); running(); until_drained()")
    run.wait_for("running")
    assert not left.exists()
    [own] = base.iterdir()
    assert (own / "blockmgr").exists()
    run.stop()
    assert run.wait() == "ended"
    assert list(base.iterdir()) == []


def test_a_folder_that_another_user_made_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"eagre-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with temporary_folder() as folder:
        assert folder.resolve().parent != tmp_path / "elsewhere"


def test_the_last_ten_failures_are_kept_and_shown(supervised, call, monkeypatch):
    fails = [f"introduce(); running(); fail('FAILURE_{n}')" for n in range(12)]
    run = supervised(*fails, DRAINS, restarts=20)
    run.wait_for_starts(13)
    wait_until(lambda: '"FAILURE_11' in str(call("status", "--json", "-").out), 20, "not shown")
    [shown] = json.loads(call("status", "--json", "-").out)["runs"]
    reasons = [reason for _, reason in shown["pipelines"]["score"]["failures"]]
    assert reasons == [f"FAILURE_{n}: failure_{n}." for n in range(2, 12)]
    text = call("status").out
    assert "score: last failure: FAILURE_11" in text
    assert re.search(r"score: failed 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC: FAILURE_2:", text)
    run.stop()
    run.wait()
    later = Register("score.py")
    later.rename("score", "score")
    assert [reason for _, reason in later.pipeline("score").failures] == reasons


def test_a_failure_before_the_pipeline_is_known_keeps_the_earlier_ones(supervised, tmp_path):
    earlier = Register("score.py")
    earlier.fail("score", "of an earlier run")
    supervised("fail('APP_RAISED')").wait()
    shown = Register("score.py")
    shown.rename("score", "score")
    reasons = [reason for _, reason in shown.pipeline("score").failures]
    assert reasons == ["of an earlier run", "APP_RAISED: app_raised."]


def test_runs_at_the_same_time_keep_each_others_failures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "state"))
    both = [Register("score.py"), Register("score.py")]
    for register in both:
        register.rename("score", "score")
    for number, register in enumerate([*both, *both]):
        register.fail("score", f"failure {number}")
    later = Register("score.py")
    later.rename("score", "score")
    reasons = [reason for _, reason in later.pipeline("score").failures]
    assert reasons == [f"failure {number}" for number in range(4)]


def test_a_run_works_without_a_place_for_its_status(supervised, tmp_path):
    """The root of a container may be read-only; probes and the dashboard need the status."""
    (tmp_path / "state").touch()
    run = supervised(DRAINS).wait_for("running")
    [shown] = run.supervisor.shown()
    assert shown.pipelines["score"].phase == "running"
    run.stop()
    assert run.wait() == "ended"
    assert run.supervisor.shown() == []


@pytest.fixture
def clock_set(monkeypatch):
    """Set the clock two hours ahead: the system derives the start of processes from it."""

    def move():
        later = psutil.boot_time() + 7200
        monkeypatch.setattr("psutil._pslinux.boot_time", lambda: later)

    return move


def test_a_run_is_still_found_when_the_clock_is_set(tmp_path, monkeypatch, clock_set):
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path))
    register = Register("score.py")
    register.write(now=True)
    assert [run.app for run in runs.running()] == ["score.py"]
    clock_set()
    register.write(now=True)
    assert [run.app for run in runs.running()] == ["score.py"]


@pytest.mark.parametrize("locked", [True, False])
def test_a_broker_is_still_found_when_the_clock_is_set(tmp_path, monkeypatch, clock_set, locked):
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "state"))
    (tmp_path / "log").mkdir()
    lock = "fcntl.lockf(file, fcntl.LOCK_EX)" if locked else ""
    program = f"import fcntl, sys\nfile = open('log/.lock', 'w')\n{lock}\n"
    with subprocess.Popen(
        [PYTHON, "-c", f"{program}print(flush=True)\nsys.stdin.read()"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as kafka:
        kafka.stdout.readline()
        entry = (kafka.pid, born(kafka.pid), 9, str(tmp_path), True)
        registry.register(registry.RunningBroker(*entry))
        clock_set()
        assert [each.port for each in registry.running()] == ([9] if locked else [])


def test_two_signals_that_arrive_together_stop_at_once(tmp_path):
    """The kernel keeps one of several pending signals of a kind."""
    program = """
import signal, sys, time
from eagre.cli.signals import stop_signals
stops = []
with stop_signals(stops.append):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    print("ready", flush=True)
    sys.stdin.readline()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
    print(len(stops))
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        runs.end(runs.RunStatus(process.pid, 0.0, "score.py"), at_once=True)
        assert process.communicate("\n")[0] == "2\n"
    runs.end(runs.RunStatus(process.pid, 0.0, "score.py"), at_once=True)


ENDS = "tell('note', text='a line'); time.sleep(0.5); "
ENDS += "tell('ended', drained=False, written=None, epochs=0); Path('ended').touch()"
MAIN = "import sys, eagre.cli; sys.executable = sys.argv.pop(1); eagre.cli.main()"


@pytest.mark.parametrize(
    ("shell", "without"),
    [
        ('exec "$@" 2>/dev/full', "a place for its messages"),
        ('"$@" 2>&1 | head -n 1', "a reader of its messages"),
        ('exec "$@" <&- >&- 2>&-', "standard streams"),
    ],
)
def test_a_run_goes_on(supervised, tmp_path, shell, without):
    run = supervised(f"introduce(); running(); {ENDS}", start=False)
    scripted, command = sys.executable, ["run", "score.py", "--no-dashboard"]
    (run.folder / "score.py").touch()
    subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", shell, "-", PYTHON, "-c", MAIN, scripted, *command],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    assert (tmp_path / "ended").exists(), f"it needs {without}"


def test_a_user_without_a_home_folder_names_the_folders(monkeypatch, tmp_path):
    """The user id of a container may be any number."""

    def unknown(_):
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", unknown)
    for variable in ("HOME", "XDG_STATE_HOME", "EAGRE_STATE"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(SettingsError, match="HOME_UNKNOWN"):
        state_dir()
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path))
    assert state_dir() == tmp_path


PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def inherits_orphans():
    """Make this process inherit orphans, as process 1 of a container does."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def zombies(session):
    return [
        process.pid
        for process in psutil.Process().children()
        if process.status() == psutil.STATUS_ZOMBIE and os.getsid(process.pid) == session
    ]


def test_orphans_are_reaped_and_no_child_of_its_own(inherits_orphans):
    own = subprocess.Popen(["/bin/true"])
    with subprocess.Popen(
        ["/bin/sh", "-c", "sleep 0.1 & exit 3"], start_new_session=True
    ) as leader:
        wait_until(lambda: len(zombies(leader.pid)) == 2, 10, "there are no zombies")
        reap_orphans()
        assert zombies(leader.pid) == [leader.pid]
        assert leader.wait() == 3
    assert born(own.pid) is None
    assert psutil.Process(own.pid).status() == psutil.STATUS_ZOMBIE
    assert own.wait() == 0


def test_a_supervisor_that_is_process_1_reaps(supervised, inherits_orphans, monkeypatch):
    monkeypatch.setattr(supervisor, "is_process_1", lambda: True)
    monkeypatch.setattr(supervisor, "REAP_SECONDS", 0.0)
    leaves = "subprocess.Popen(['sh', '-c', 'sleep 0.1 & exit 0']).wait()"
    run = supervised(f"{leaves}; introduce(); running(); until_drained()").wait_for("running")
    session = run.starts()[0]["pid"]
    time.sleep(0.3)
    wait_until(lambda: not zombies(session), 10, "a zombie is left")
    run.stop()
    assert run.wait() == "ended"


def test_the_token_of_the_dashboard_stays_in_the_parent(supervised, monkeypatch):
    monkeypatch.setenv("EAGRE_DASHBOARD_TOKEN", "a-token-that-functions-must-not-see")
    monkeypatch.setenv("OTHER", "stays")
    names = "fail('_'.join(sorted({'EAGRE_DASHBOARD_TOKEN', 'OTHER'} & set(os.environ))))"
    assert supervised(names).wait() == "OTHER"


def test_logs_and_status_are_for_this_user_alone(supervised, tmp_path):
    run = supervised("introduce(); running(); fail('FAILED')", DRAINS)
    run.wait_for_starts(2).wait_for("running")
    folders = [tmp_path / ".eagre" / "logs", tmp_path / "state" / "runs"]
    paths = [path for folder in folders for path in folder.iterdir()]
    files = [path for path in paths if path.suffix != ".part"]  # renamed at any moment
    assert len(files) >= 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    run.stop()
    run.wait()
