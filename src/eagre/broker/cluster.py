"""Several embedded brokers that form one cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from eagre.broker.server import EmbeddedBroker, free_port
from eagre.broker.server_properties import Node, cluster_id, require_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType


class EmbeddedCluster:
    """Several brokers on loopback, each a process of its own, that form one Kafka cluster.

    New topics have three copies, and a record is acknowledged when two brokers have it
    (``min.insync.replicas=2``); with two brokers, two copies and one.

    Args:
        size: The number of brokers.
        port: The port of the first; the others have the next ones. 0: any free ports.
        data: The data folder; each broker has a folder in it, named by its number.
        settings: More entries for each ``server.properties``.
        background: Whether they outlive the program that starts them.
        say: Receives progress messages.
    """

    def __init__(
        self,
        size: int,
        port: int,
        data: Path | str,
        settings: Mapping[str, str] | None = None,
        *,
        background: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        folder = Path(data).resolve()
        require_size(folder, size)
        controllers = tuple(free_port() for _ in range(size))
        cluster = cluster_id(folder / "1")
        self.brokers = [
            EmbeddedBroker(
                port and port + number - 1,
                folder / str(number),
                settings,
                background=background,
                node=Node(number, controllers, cluster),
                say=say,
            )
            for number in range(1, size + 1)
        ]

    @property
    def address(self) -> str:
        """The addresses of all brokers, as for ``--brokers``."""
        return ",".join(broker.address for broker in self.brokers)

    def start(self) -> Self:
        """Start the brokers, and wait until each of them answers.

        Raises:
            BrokerError: A port or a folder is in use, or Kafka failed, with its reason.
        """
        try:
            for broker in self.brokers:
                broker.launch()
            for broker in self.brokers:
                broker.await_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop those of its brokers that this program holds."""
        for broker in self.brokers:
            broker.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
