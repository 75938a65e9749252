"""SIGTERM to a real ``eagre run`` at each moment: to its parent, to all of it, and as process 1."""

import os
import signal
import subprocess
import threading

import psutil
import pytest
from confluent_kafka import Producer

from conftest import EAGRE, processes_of
from eagre.broker import Topics
from eagre.waiting import wait_until
from test_run import APP, run  # noqa: F401  (run is a fixture)
from test_supervision import BODY, IN_A_NAMESPACE, Output, jvm_of

ONCE = APP.replace('key="card")', 'key="card", delivery="exactly-once")')
EVERYONE = pytest.mark.parametrize("everyone", [False, True], ids=["parent", "group"])


def terminate(process, *, everyone):
    """Send SIGTERM to a run, or also to each process that it has, as a service manager does."""
    others = psutil.Process(process.pid).children(recursive=True) if everyone else []
    for pid in [process.pid, *(other.pid for other in others)]:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            assert pid != process.pid


@pytest.fixture
def busy(eagre_broker):
    """Write to a topic until the end of the test, so that its end offsets do not come to rest."""
    over, threads = threading.Event(), []

    def write(topic):
        producer = Producer({"bootstrap.servers": eagre_broker.address, "linger.ms": 0})
        while not over.wait(0.02):
            producer.produce(topic, b"{}")
            producer.poll(0)
        producer.flush(10)

    def start(topic):
        Topics(eagre_broker.address).create(topic, 1)
        threads.append(threading.Thread(target=write, args=(topic,)))
        threads[-1].start()

    yield start
    over.set()
    for thread in threads:
        thread.join()


MOMENTS = {
    "broker": "starting Kafka on",
    "spark": "starting Spark",
    "plan": "checking the plan",
    "fence": "fencing the previous run",
}


@pytest.mark.e2e
@EVERYONE
@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm_before_a_query_runs(cli, run, eagre_broker, busy, moment, everyone):  # noqa: F811
    """Nothing was read, so there is nothing to drain."""
    name = f"before_{moment}_{everyone}".lower()
    brokers = [] if moment == "broker" else ["--brokers", eagre_broker.address]
    if moment == "fence":
        busy(f"{name}-out")
    running = run(cli.app(ONCE.format(name=name, body=BODY)), *brokers)
    running.wait_for(MOMENTS[moment])
    terminate(running.process, everyone=everyone)
    assert running.process.wait(60) == 143, running.output
    assert not running.has("running in real-time")
    wait_until(lambda: not processes_of(cli.folder), 20, "a process was left behind")


@pytest.mark.e2e
@EVERYONE
def test_sigterm_while_waiting_to_restart(cli, run, eagre_broker, everyone):  # noqa: F811
    """The last child left something behind, which the next start repeats: not a clean end."""
    app = cli.app(APP.format(name=f"restart_{everyone}".lower(), body=BODY))
    running = run(app, "--brokers", eagre_broker.address)
    running.wait_for("running in real-time")
    jvm_of(cli).kill()
    running.wait_for("Starting again immediately")
    wait_until(lambda: jvm_of(cli), 30, "the JVM was not restarted").kill()
    running.wait_for("Starting again in 1 s")
    terminate(running.process, everyone=everyone)
    assert running.process.wait(60) == 1, running.output
    assert running.has("SPARK_ENDED")
    assert not any("Traceback" in line for line in running.output)
    wait_until(lambda: not processes_of(cli.folder), 20, "a process was left behind")


@pytest.mark.e2e
@EVERYONE
def test_sigterm_while_draining(cli, run, eagre_broker, everyone):  # noqa: F811
    """The second signal cuts the drain off."""
    app = cli.app(APP.format(name=f"drain_{everyone}".lower(), body="groupBy('card').count()"))
    conf = "spark.eagre.stateCommits=false"  # a drain waits for the end of the epoch
    brokers = ["--brokers", eagre_broker.address, "--conf", conf]
    running = run(app, *brokers, "--every", "1 minute")
    running.wait_for("running in real-time")
    running.process.send_signal(signal.SIGTERM)
    running.wait_for("draining, within")
    terminate(running.process, everyone=everyone)
    assert running.process.wait(30) == 1, running.output
    assert running.has("ENDED_AT_ONCE")
    wait_until(lambda: not processes_of(cli.folder), 20, "a process was left behind")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("moment", "code"), [("starting Spark", 143), ("Starting again in 1 s", 1)]
)
def test_sigterm_to_a_run_that_is_process_1(cli, eagre_broker, moment, code):
    """``test_supervision.py`` has its drain."""
    if subprocess.run([*IN_A_NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a process namespace")
    app = cli.app(APP.format(name=f"init_{code}", body=BODY))
    command = [*IN_A_NAMESPACE, str(EAGRE), "run", str(app), "--brokers", eagre_broker.address]
    process = subprocess.Popen(command, cwd=cli.folder, env=cli.env, stderr=subprocess.PIPE)
    try:
        output = Output(process)
        if code == 1:
            output.wait_for("running in real-time")
            jvm_of(cli).kill()
            output.wait_for("Starting again immediately")
            wait_until(lambda: jvm_of(cli), 30, "the JVM was not restarted").kill()
        output.wait_for(moment)
        [init] = psutil.Process(process.pid).children()
        init.terminate()
        assert process.wait(60) == code, output.lines
        wait_until(lambda: not processes_of(cli.folder), 20, "a process was left behind")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
