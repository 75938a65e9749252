import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from eagre.broker import EmbeddedBroker, Topics
from eagre.errors import BrokerError
from eagre.waiting import wait_until


@pytest.fixture(autouse=True)
def own_register(tmp_path, monkeypatch):
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "state"))


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.e2e
def test_several_at_once_and_nothing_left_behind():
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        Topics(one.address).create("here", 2)
        assert Topics(one.address).names() == ["here"]
        assert Topics(other.address).names() == []
        pids, folders = [one.pid, other.pid], [one.data, other.data]
        assert all(b.address.startswith("127.0.0.1:") for b in (one, other))
    assert all(gone(pid) for pid in pids)
    assert not any(folder.exists() for folder in folders)


def test_it_listens_on_loopback_only():
    with EmbeddedBroker() as broker:
        listening = [
            c.laddr.ip
            for c in psutil.Process(broker.pid).net_connections("tcp")
            if c.status == psutil.CONN_LISTEN
        ]
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


@pytest.mark.e2e
def test_data_stays_and_a_killed_brokers_folder_is_recovered(tmp_path):
    data = tmp_path / "data"
    with EmbeddedBroker(data=data) as broker:
        topics = Topics(broker.address)
        topics.create("kept", 3)
        cluster = topics.cluster_id()
        os.kill(broker.pid, signal.SIGKILL)
    with EmbeddedBroker(data=data) as broker:
        topics = Topics(broker.address)
        assert topics.cluster_id() == cluster
        assert topics.require("kept").partitions == 3


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


def test_a_broker_that_cannot_start_gives_kafkas_reason():
    with pytest.raises(BrokerError, match=r"BROKER_FAILED: .*(no\.such|compression)"):
        EmbeddedBroker(settings={"compression.type": "no.such"}).start()


@pytest.mark.e2e
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_the_program_that_started_it(how):
    program = (
        "import eagre, time; broker = eagre.EmbeddedBroker().start(); "
        "print(broker.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        pid = int(process.stdout.readline())
        os.killpg(process.pid, how)
    wait_until(lambda: gone(pid), 20, f"broker {pid} outlived its program")


@pytest.mark.e2e
def test_abandoned_temporary_folders_are_swept(tmp_path, monkeypatch):
    from eagre.jvm import jars

    real = jars.folder("broker").parent
    monkeypatch.setenv("EAGRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EAGRE_JARS", str(real))
    left = tmp_path / "cache" / "brokers" / "temporary-left"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    with EmbeddedBroker():
        assert not left.exists()


def test_the_broker_command(cli):
    address = cli.ok("broker", "start", "--port", "0").stdout.strip()
    try:
        assert address in cli.ok("broker", "status").stdout
        cli.ok("topic", "create", "kept")
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
def test_topic_mistakes(cli, eagre_broker, args, code):
    topics = Topics(eagre_broker.address)
    if "typed" not in topics.names():
        topics.create("typed", 1)
    done = cli("topic", *args, "--brokers", eagre_broker.address, given="not json\n")
    assert done.returncode == 1
    assert done.stderr.startswith(f"eagre: {code}: ")
    assert done.stderr.count("\n") == 1


def test_topic_without_any_broker(cli):
    assert "NO_BROKER" in cli("topic", "list").stderr
