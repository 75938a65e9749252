"""``server.properties`` of an embedded broker, and its place among several."""

from __future__ import annotations

import base64
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagre.config import LOOPBACK
from eagre.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COPIES = 3
"""A topic of several brokers has a copy on so many of them, as is usual in production."""


@dataclass(frozen=True)
class Node:
    """The place of a broker in its cluster.

    >>> Node(2, (9093, 9094, 9095), "id").voters
    '1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095'

    Attributes:
        id: Its number, from 1.
        controllers: The port of each node's controller, in the order of their numbers.
        cluster: The cluster id.
    """

    id: int
    controllers: tuple[int, ...]
    cluster: str

    @property
    def voters(self) -> str:
        """The controllers of the cluster, as Kafka wants them."""
        return ",".join(
            f"{number}@{LOOPBACK}:{port}" for number, port in enumerate(self.controllers, 1)
        )

    @property
    def settings(self) -> dict[str, str]:
        """The settings that depend on the number of brokers."""
        copies = min(COPIES, len(self.controllers))
        return {
            "node.id": str(self.id),
            "controller.quorum.voters": self.voters,
            "default.replication.factor": str(copies),
            # A record that was acknowledged survives the loss of a broker.
            "min.insync.replicas": str(max(1, copies - 1)),
            # The last brokers of a cluster that is stopped would wait for one that is gone.
            "controlled.shutdown.enable": str(len(self.controllers) == 1).lower(),
            "offsets.topic.replication.factor": str(copies),
            "share.coordinator.state.topic.replication.factor": str(copies),
            "transaction.state.log.replication.factor": str(copies),
        }


def cluster_id(data: Path) -> str:
    """Return the cluster id of a formatted folder, or a new id."""
    meta = data / "log" / "meta.properties"
    if meta.exists():
        match = re.search(r"^cluster\.id=(.+)$", meta.read_text(), re.MULTILINE)
        if match:
            return match[1].strip()
    while (new := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]).startswith("-"):
        pass
    return new


def write_properties(data: Path, port: int, node: Node, settings: Mapping[str, str]) -> Path:
    """Write the file; ``settings`` override the defaults, and their ``listeners`` are added."""
    controller = node.controllers[node.id - 1]
    listeners = [f"PLAINTEXT://{LOOPBACK}:{port}", f"CONTROLLER://{LOOPBACK}:{controller}"]
    more = [settings["listeners"]] if "listeners" in settings else []
    entries = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data / "log"),
        "auto.create.topics.enable": "false",
        # Few threads on few cores: each request wakes fewer of them (15 % less CPU at 2,000/s).
        "num.network.threads": "1",
        "num.io.threads": "2",
        # A reader at the end finds its position without reading all batches of the last 4 KiB
        # (15 % less CPU at 2,000/s).
        "log.index.interval.bytes": "256",
        # After a kill the controller waits this long for the old session (default: 9 s).
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        **node.settings,
        **settings,
        "listeners": ",".join([*listeners, *more]),
    }
    path = data / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in entries.items()))
    return path


def require_size(data: Path, size: int) -> None:
    """Refuse a data folder that was written by another number of brokers.

    Raises:
        BrokerError: Its topics would have copies on brokers that do not exist.
    """
    members = len(list(data.glob("[0-9]*/log/meta.properties")))
    single = (data / "log" / "meta.properties").exists()
    written = 1 if single else members
    if written not in (0, size):
        raise BrokerError(
            "BROKERS_CHANGED",
            f"the data folder {data} was written by {written} "
            f"broker{'s' * (written > 1)}, not by {size}.",
            hint=f"start it with --brokers {written}, or name another --data.",
        )
