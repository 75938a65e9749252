import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from eagre import waiting
from eagre.broker import EmbeddedBroker, EmbeddedCluster, Topics, server
from eagre.errors import BrokerError
from eagre.files import TemporaryFolder
from eagre.jvm import jars
from eagre.waiting import wait_until

PROGRAM = (
    "import eagre, time; broker = eagre.EmbeddedBroker().start(); "
    "print(broker.pid, broker.data, flush=True); time.sleep(60)"
)


@pytest.fixture(autouse=True)
def separate_registry(tmp_path, monkeypatch):
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "state"))


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.e2e
def test_several_brokers_at_once_leave_nothing_behind():
    with EmbeddedBroker() as first, EmbeddedBroker() as second:
        Topics(first.address).create("here", 2)
        assert Topics(first.address).names() == ["here"]
        assert Topics(second.address).names() == []
        pids, folders = [first.pid, second.pid], [first.data, second.data]
        assert all(b.address.startswith("127.0.0.1:") for b in (first, second))
    assert all(gone(pid) for pid in pids)
    assert not any(folder.exists() for folder in folders)


def test_it_listens_on_loopback_only(eagre_broker):
    listening = [
        c.laddr.ip
        for c in psutil.Process(eagre_broker.pid).net_connections("tcp")
        if c.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


@pytest.mark.e2e
def test_several_brokers_form_one_cluster(cli):
    """A topic stays writable, and keeps its records, when one of the brokers is killed."""
    address = cli.ok(
        "broker", "start", "--brokers", "3", "--port", "0", "--data", "c"
    ).stdout.strip()
    try:
        [first, *others] = json.loads(cli.ok("broker", "status", "--json", "-").stdout)["brokers"]
        assert first["cluster"] == address
        assert len(others) == 2
        cli.ok("topic", "create", "copied", "--partitions", "1")
        settings = Topics(address).settings(["copied"])["copied"]
        assert settings["min.insync.replicas"] == "2"
        cli.ok("topic", "produce", "copied", given='{"n": 1}\n')
        os.kill(first["pid"], signal.SIGKILL)
        # For some seconds, metadata may name the dead broker as the one for administration.
        for _ in range(8):
            assert Topics(address).require("copied").partitions == 1
        cli.ok("topic", "produce", "copied", "--brokers", address, given='{"n": 2}\n')
        read = ("topic", "tail", "copied", "--from", "earliest", "-n", "2", "--brokers", address)
        assert [json.loads(line)["n"] for line in cli.ok(*read).stdout.splitlines()] == [1, 2]
    finally:
        cli.ok("broker", "stop")
    assert json.loads(cli.ok("broker", "status", "--json", "-").stdout) == {"brokers": []}
    assert "BROKERS_CHANGED" in cli("broker", "start", "--data", "c", "--port", "0").stderr


@pytest.mark.parametrize(("written", "size"), [(["."], 3), (["1", "2", "3"], 1), (["1", "2"], 3)])
def test_data_of_another_number_of_brokers_is_refused(tmp_path, written, size):
    for name in written:
        (tmp_path / name / "log").mkdir(parents=True)
        (tmp_path / name / "log" / "meta.properties").write_text("cluster.id=x\n")
    cluster = (lambda: EmbeddedCluster(size, 0, tmp_path)) if size > 1 else None
    with pytest.raises(BrokerError, match=f"BROKERS_CHANGED: .* {len(written)} broker"):
        (cluster or EmbeddedBroker(data=tmp_path).start)()


@pytest.mark.e2e
def test_the_data_of_a_killed_broker_is_recovered(tmp_path):
    data = tmp_path / "data"
    with EmbeddedBroker(data=data) as broker:
        topics = Topics(broker.address)
        topics.create("durable", 3)
        cluster = topics.cluster_id()
        os.kill(broker.pid, signal.SIGKILL)
    with EmbeddedBroker(data=data) as broker:
        topics = Topics(broker.address)
        assert topics.cluster_id() == cluster
        assert topics.require("durable").partitions == 3


@pytest.mark.e2e
def test_a_folder_in_use_is_refused(tmp_path):
    with (
        EmbeddedBroker(data=tmp_path / "data"),
        pytest.raises(BrokerError, match=r"DATA_IN_USE: another broker on 127\.0\.0\.1:\d+"),
    ):
        EmbeddedBroker(data=tmp_path / "data").start()


def test_a_taken_port_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=f"PORT_TAKEN: port {port} .* in use"):
            EmbeddedBroker(port=port).start()


def test_a_broker_that_cannot_start_reports_kafkas_reason():
    with pytest.raises(BrokerError, match=r"BROKER_FAILED: .*(no\.such|compression)"):
        EmbeddedBroker(settings={"compression.type": "no.such"}).start()


@pytest.mark.e2e
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_the_program_that_started_it(how):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"},
    ) as process:
        pid = int(process.stdout.readline().split()[0])
        os.killpg(process.pid, how)
    wait_until(lambda: gone(pid), 20, f"broker {pid} outlived its program")
    assert not list(Path("/tmp").glob(f"hsperfdata_*/{pid}")), "its hsperfdata file is still there"  # noqa: S108


@pytest.fixture
def brokers(tmp_path, monkeypatch):
    """The folder of temporary brokers, in a separate cache; the jars are the usual ones."""
    real = jars.folder("broker").parent
    monkeypatch.setenv("EAGRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EAGRE_JARS", str(real))
    return tmp_path / "cache" / "brokers"


@pytest.mark.e2e
def test_abandoned_temporary_folders_are_removed(brokers):
    abandoned = brokers / "temporary-left"
    abandoned.mkdir(parents=True)
    os.utime(abandoned, (0, 0))
    with EmbeddedBroker():
        assert not abandoned.exists()


def sweep(base):
    TemporaryFolder(base, "temporary-", spare=server.registry.in_use).remove()


@pytest.mark.e2e
def test_the_folder_of_a_slow_broker_is_not_removed_by_others(brokers, monkeypatch):
    """Suspend the JVM before it locks its data: the next start must not remove the folder."""
    register = server.registry.register

    def register_a_slow_one(broker):
        os.kill(broker.pid, signal.SIGSTOP)
        os.utime(broker.data, (0, 0))
        sweep(brokers)
        assert Path(broker.data, "kafka.log").exists(), "it was removed"
        os.kill(broker.pid, signal.SIGCONT)
        register(broker)

    monkeypatch.setattr(server.registry, "register", register_a_slow_one)
    with EmbeddedBroker() as slow:
        assert Topics(slow.address).names() == []
    assert not list(brokers.iterdir())


@pytest.mark.e2e
def test_the_folder_of_a_running_kafka_is_not_removed(brokers):
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        pid, data = process.stdout.readline().split()
        os.kill(int(pid), signal.SIGSTOP)
        process.kill()
    Path(data, "log", ".lock").unlink()
    sweep(brokers)
    assert Path(data).exists()
    os.kill(int(pid), signal.SIGKILL)
    wait_until(lambda: sweep(brokers) or not Path(data).exists(), 20, "the folder was not removed")


def test_a_broker_without_its_log_still_reports_its_failure(monkeypatch):
    def lose_the_log(topics):
        [broker] = server.registry.running()
        Path(broker.data, "kafka.log").unlink(missing_ok=True)

    monkeypatch.setattr(server, "START_SECONDS", 0.1)
    monkeypatch.setattr(waiting, "machine_slowness", lambda: 1.0)
    monkeypatch.setattr(server.Topics, "answers", lose_the_log)
    with pytest.raises(BrokerError, match=r"BROKER_FAILED: .* its log cannot be read"):
        EmbeddedBroker().start()


def test_a_background_broker_that_is_given_up_leaves_nothing(monkeypatch, tmp_path):
    pids = []
    monkeypatch.setattr(server, "START_SECONDS", 0.1)
    monkeypatch.setattr(waiting, "machine_slowness", lambda: 1.0)
    monkeypatch.setattr(server.Topics, "answers", lambda _: pids.append(server.registry.running()))
    with pytest.raises(BrokerError, match="BROKER_FAILED"):
        EmbeddedBroker(data=tmp_path / "data", background=True).start()
    [broker] = pids[0]
    wait_until(lambda: gone(broker.pid), 20, "its process was left")
    assert server.registry.running() == []


def test_the_broker_command(cli):
    address = cli.ok("broker", "start", "--port", "0").stdout.strip()
    try:
        assert address in cli.ok("broker", "status").stdout
        cli.ok("topic", "create", "durable")
        again = cli("broker", "start", "--port", "0")
        assert again.returncode == 1
        assert "DATA_IN_USE" in again.stderr
        assert Path(cli.folder / ".eagre" / "broker" / "log").exists()
    finally:
        cli.ok("broker", "stop")
    assert cli.ok("broker", "status").stdout == "no broker is running\n"
    assert "BROKER_NOT_FOUND" in cli("broker", "stop").stderr


def test_the_topic_commands(cli, eagre_broker):
    at = ("--brokers", eagre_broker.address)
    cli.ok("topic", "create", "cards", "--partitions", "2", "--set", "retention.ms=60000", *at)
    rows = "".join(f'{{"card": "c{n}", "n": {n}}}\n' for n in range(10))
    assert (
        "wrote 10 records"
        in cli.ok("topic", "produce", "cards", "--key", "card", *at, given=rows).stderr
    )
    assert [
        line.split() for line in cli.ok("topic", "list", *at).stdout.splitlines() if "cards" in line
    ] == [["cards", "2", "10"]]
    tail = cli.ok("topic", "tail", "cards", "--from", "earliest", "-n", "10", "--keys", *at).stdout
    assert {line.split("\t")[0] for line in tail.splitlines()} == {f"c{n}" for n in range(10)}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("tail", "nowhere"), "TOPIC_NOT_FOUND"),
        (("create", "bad/name"), "KAFKA_REFUSED"),
        (("produce", "typed", "--key", "card"), "KEY_NOT_FOUND"),
    ],
)
def test_invalid_topic_commands_are_refused(cli, eagre_broker, args, code):
    topics = Topics(eagre_broker.address)
    if "typed" not in topics.names():
        topics.create("typed", 1)
    done = cli("topic", *args, "--brokers", eagre_broker.address, given="not json\n")
    assert done.returncode == 1
    assert done.stderr.startswith(f"eagre: {code}: ")
    assert done.stderr.count("\n") == 1


def test_topic_commands_need_a_broker(cli):
    assert "NO_BROKER" in cli("topic", "list").stderr
