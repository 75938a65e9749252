"""A TCP proxy in front of each broker, whose links can be delayed, dropped or cut.

A broker advertises the address of its proxy. A link is a pair: who connects, and to which broker.
Other brokers are known by the client id of their first request, which holds their number.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

HOST = "127.0.0.1"
CLIENT = "client"
CHUNK = 1 << 16
IN_FLIGHT = 64
"""Chunks on their way through a slow link: its window."""


@dataclass
class Link:
    """The state of the connections from one side to a broker.

    Attributes:
        delay: Seconds that each chunk takes.
        dropped: Nothing arrives, as behind a firewall that forgets; it arrives when this ends.
        cut: Connections are reset, and new ones refused.
        carried: Bytes so far, in both directions.
    """

    delay: float = 0.0
    dropped: bool = False
    cut: bool = False
    carried: int = 0
    connections: set[asyncio.Task[None]] = field(default_factory=set)


class Proxies:
    """The proxies of a cluster, in a thread; the links are changed from any other."""

    def __init__(self) -> None:
        self.links: dict[tuple[str, str], Link] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def open(self, target: str, port: int, *, peers: bool = False) -> int:
        """Listen for connections to a broker's port; return the port of the proxy.

        Args:
            target: The name of the broker.
            port: Its listener.
            peers: Whether other brokers connect there, whose number their requests tell.
        """

        async def serve() -> int:
            def accept(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter
            ) -> Awaitable[None]:
                return self._serve(reader, writer, target, port, peers=peers)

            server = await asyncio.start_server(accept, HOST, 0)
            self._servers.append(server)
            return int(server.sockets[0].getsockname()[1])

        return asyncio.run_coroutine_threadsafe(serve(), self._loop).result(10)

    def link(self, source: str, target: str) -> Link:
        """Return the link of a pair."""
        return self.links.setdefault((source, target), Link())

    def change(self, links: list[Link], **state: float) -> None:
        """Change links; those that are cut lose their connections."""

        def now() -> None:
            for link in links:
                for name, value in state.items():
                    setattr(link, name, value)
                if link.cut:
                    for connection in link.connections:
                        connection.cancel()

        self._loop.call_soon_threadsafe(now)

    def close(self) -> None:
        """End all connections, and the thread."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        target: str,
        port: int,
        *,
        peers: bool,
    ) -> None:
        """Carry one connection until an end of it closes, or its link is cut."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            first = await first_request(reader) if peers else b""
            link = self.link(source_of(first) if peers else CLIENT, target)
            task = asyncio.current_task()
            if not link.cut and task is not None:
                link.connections.add(task)
                task.add_done_callback(link.connections.discard)
                await _connect(reader, writer, first, port, link)
        _reset(writer)


async def _connect(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    first: bytes,
    port: int,
    link: Link,
) -> None:
    """Carry both directions until one of them ends."""
    away, back = await asyncio.open_connection(HOST, port)
    back.write(first)
    ways = [
        asyncio.ensure_future(_carry(reader, back, link)),
        asyncio.ensure_future(_carry(away, writer, link)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        _reset(back)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset, not in peace."""
    end = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def first_request(reader: asyncio.StreamReader) -> bytes:
    """Read the first request of a connection: four bytes of length, then the request."""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack(">i", length)[0])


def source_of(request: bytes) -> str:
    """Return the number of the broker that sent a request, from its client id.

    >>> header = struct.pack(">ihhih", 31, 18, 4, 0, 18) + b"broker-2-fetcher-0"
    >>> source_of(header)
    '2'
    """
    length = struct.unpack(">h", request[12:14])[0]
    number = re.search(rb"\d+", request[14 : 14 + max(0, length)])
    return number[0].decode() if number else "?"


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, link: Link) -> None:
    """Carry one direction, in order; a chunk arrives after the link's delay."""
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(IN_FLIGHT)

    async def deliver() -> None:
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            while link.dropped:  # noqa: ASYNC110  (other threads change it)
                await asyncio.sleep(0.02)
            if not data:
                return
            target.write(data)
            await target.drain()
            link.carried += len(data)

    delivery = asyncio.ensure_future(deliver())
    try:
        data = b"-"
        while data and not delivery.done():
            data = await source.read(CHUNK)
            await queue.put((time.monotonic() + link.delay, data))
        await delivery
    finally:
        delivery.cancel()
