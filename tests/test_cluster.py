"""``eagre cluster``: a Spark standalone cluster in the background."""

import json
import os
import signal
import socket

import psutil
import pytest

from conftest import processes_of
from eagre import cluster as clusters
from eagre.errors import ClusterError
from eagre.waiting import wait_until


def test_the_cluster_command(cli):
    """Start, status, a port that is in use, stop: nothing is left."""
    url = cli.ok("cluster", "start", "--workers", "1", "--cores", "3", "--port", "0").stdout.strip()
    port = url.removeprefix("spark://127.0.0.1:")
    [described] = json.loads(cli.ok("cluster", "status", "--json", "-").stdout)["clusters"]
    assert described["url"] == url
    assert (described["workers"], described["workers_alive"]) == (1, 1)
    assert (described["cores"], described["cores_used"]) == (3, 0)
    assert described["memory_mb"] == 2048
    assert listening(processes_of(cli.folder)) <= {"127.0.0.1"}
    again = cli("cluster", "start", "--port", port)
    assert again.returncode == 1
    assert "PORT_TAKEN" in again.stderr
    assert "eagre cluster status" in again.stderr
    cli.ok("cluster", "stop")
    assert processes_of(cli.folder / ".eagre" / "cluster") == []
    assert "no cluster is running" in cli.ok("cluster", "status").stdout
    assert "CLUSTER_NOT_FOUND" in cli("cluster", "stop").stderr


def listening(processes):
    """Return the addresses that processes listen on."""
    return {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in processes
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


@pytest.fixture
def separate_state(tmp_path, monkeypatch):
    monkeypatch.setenv("EAGRE_STATE", str(tmp_path / "state"))


def test_a_cluster_that_cannot_start_leaves_nothing(tmp_path, separate_state, monkeypatch):
    monkeypatch.setattr(clusters.standalone, "DAEMON_MEMORY", "1m")
    with pytest.raises(ClusterError) as failure:
        clusters.start(tmp_path / "cluster", workers=1)
    assert failure.value.code == "CLUSTER_FAILED"
    assert "heap" in failure.value.problem
    assert str(tmp_path / "cluster") in failure.value.hint
    assert clusters.running() == []
    assert processes_of(tmp_path / "cluster") == []


def test_a_taken_port_starts_no_process(tmp_path, separate_state):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ClusterError, match="PORT_TAKEN"):
            clusters.start(tmp_path / "cluster", port=taken.getsockname()[1])
    assert not (tmp_path / "cluster").exists()


@pytest.mark.e2e
def test_a_cluster_without_its_master_is_shown_and_stopped(tmp_path, separate_state):
    cluster = clusters.start(tmp_path / "cluster", workers=2)
    os.kill(cluster.master.pid, signal.SIGKILL)
    wait_until(lambda: not cluster.master.alive, 20, "the master does not end")
    assert clusters.running() == [cluster], "its workers still run"
    with pytest.raises(ClusterError, match="CLUSTER_UNREACHABLE"):
        clusters.status(cluster)
    clusters.stop(cluster)
    assert processes_of(tmp_path / "cluster") == []
    assert clusters.running() == []
