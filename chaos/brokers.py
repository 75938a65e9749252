"""The brokers of a trial: one or three, with a proxy before each if links are to fail."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from eagre.broker import EmbeddedBroker
from eagre.broker.server import free_port
from eagre.broker.server_properties import Node, cluster_id

from .proxy import CLIENT, HOST, Proxies

if TYPE_CHECKING:
    from pathlib import Path

    from .proxy import Link

USER, SECRET = "pipeline", "chaos"
ACCESS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "listener.name.app.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.app.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
    f'PlainLoginModule required user_{USER}="{SECRET}";',
}
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": SECRET,
}


@dataclass(frozen=True)
class Ports:
    """The ports of a broker, which it keeps when it is started again."""

    direct: int = field(default_factory=free_port)
    app: int = field(default_factory=free_port)
    peers: int = field(default_factory=free_port)
    controller: int = field(default_factory=free_port)


class Brokers:
    """The cluster of a trial.

    The campaign itself connects to the brokers directly; the pipeline, and the brokers among each
    other, through the proxies.

    Attributes:
        address: For the campaign.
        app_address: For the pipeline.
    """

    def __init__(self, folder: Path, size: int, *, linked: bool, access: bool) -> None:
        self.proxies = Proxies() if linked else None
        numbers = range(1, size + 1)
        ports = [Ports() for _ in numbers]
        voters = tuple(
            self._through(n, p.controller, peers=True) for n, p in zip(numbers, ports, strict=True)
        )
        self._apps = [self._through(n, p.app) for n, p in zip(numbers, ports, strict=True)]
        cluster = cluster_id(folder / "1")
        self.members = [
            EmbeddedBroker(
                own.direct,
                folder / str(number),
                {
                    **self._listeners(number, own),
                    **(ACCESS if access else {}),
                    "controller.quorum.voters": Node(number, voters, "").voters,
                    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
                    f"PEERS:PLAINTEXT,APP:{'SASL_PLAINTEXT' if access else 'PLAINTEXT'}",
                },
                node=Node(number, tuple(p.controller for p in ports), cluster),
            )
            for number, own in zip(numbers, ports, strict=True)
        ]
        self.address = ",".join(f"{HOST}:{own.direct}" for own in ports)
        self.app_address = ",".join(f"{HOST}:{port}" for port in self._apps)

    def _through(self, number: int, port: int, *, peers: bool = False) -> int:
        """Return the port under which others reach a port of a broker."""
        return self.proxies.open(str(number), port, peers=peers) if self.proxies else port

    def _listeners(self, number: int, own: Ports) -> dict[str, str]:
        advertised = {
            "PLAINTEXT": own.direct,
            "APP": self._apps[number - 1],
            "PEERS": self._through(number, own.peers, peers=True),
        }
        return {
            "listeners": f"APP://{HOST}:{own.app},PEERS://{HOST}:{own.peers}",
            "advertised.listeners": ",".join(f"{k}://{HOST}:{v}" for k, v in advertised.items()),
            "inter.broker.listener.name": "PEERS",
            "replica.lag.time.max.ms": "5000",
            "replica.socket.timeout.ms": "5000",
        }

    def start(self) -> None:
        """Start the brokers, and wait until each answers."""
        for member in self.members:
            member.launch()
        for member in self.members:
            member.await_ready()

    def stop(self) -> None:
        """End the brokers, also paused ones."""
        for member in self.members:
            with contextlib.suppress(Exception):
                os.kill(member.pid, signal.SIGKILL)
            member.stop()
        if self.proxies:
            self.proxies.close()

    def signal(self, sign: signal.Signals, number: int = 1) -> None:
        """Send a broker a signal."""
        os.kill(self.members[number - 1].pid, sign)

    def kill(self, number: int = 1) -> None:
        """Kill a broker, as a power failure would."""
        self.signal(signal.SIGKILL, number)
        self.members[number - 1].stop()

    def restart(self, number: int = 1) -> None:
        """Start a killed broker again, and wait until it answers."""
        self.members[number - 1].launch()
        self.members[number - 1].await_ready()

    def leader(self, topic: str) -> int:
        """Return the number of the broker that leads the first partition of a topic."""
        consumer = self._consumer()
        try:
            return int(consumer.list_topics(topic, 30).topics[topic].partitions[0].leader)
        finally:
            consumer.close()

    def await_leader(self, topic: str, *, other_than: int, seconds: float = 60) -> int:
        """Wait until another broker leads a topic; return its number."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(Exception):
                if (leader := self.leader(topic)) not in (other_than, -1):
                    return leader
            time.sleep(0.3)
        raise TimeoutError(f"broker {other_than} still leads {topic} after {seconds:.0f} s")

    def written(self, topic: str) -> int:
        """Return how many records a topic has."""
        consumer = self._consumer()
        try:
            partitions = consumer.list_topics(topic, 20).topics[topic].partitions
            at = [TopicPartition(topic, partition) for partition in partitions]
            return sum(consumer.get_watermark_offsets(p, 20)[1] for p in at)
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer(
            {"bootstrap.servers": self.address, "group.id": "chaos-look", "log_level": 0}
        )

    def client_links(self) -> list[Link]:
        """Return the links from the pipeline to each broker."""
        names = [str(number) for number in range(1, len(self.members) + 1)]
        return [self.proxies.link(CLIENT, name) for name in names] if self.proxies else []

    def peer_links(self, one: int, two: int) -> list[Link]:
        """Return the links between two brokers, in both directions."""
        pairs = ((one, two), (two, one))
        return [self.proxies.link(str(a), str(b)) for a, b in pairs] if self.proxies else []
