"""Length-prefixed messages between the JVM and a worker, over a Unix socket."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

COUNT = struct.Struct("<I")
FLAG = struct.Struct("<B")
TIME = struct.Struct("<q")
_LENGTH = struct.Struct("<I")
_CHUNK = 1 << 16


class JvmGoneError(ConnectionError):
    """The JVM closed the connection."""


class Wire:
    """A connection that sends and receives messages."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def receive(self) -> bytes:
        """Wait for a message.

        Raises:
            JvmGoneError: The JVM closed the connection.
        """
        data = self._rest or self._more()
        while len(data) < _LENGTH.size:
            data += self._more()
        end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        if len(data) < end:
            parts, size = [data], len(data)
            while size < end:
                parts.append(self._more())
                size += len(parts[-1])
            data = b"".join(parts)
        self._rest = data[end:]
        return data[_LENGTH.size : end]

    def send(self, *parts: bytes) -> None:
        """Send a message."""
        body = b"".join(parts)
        try:
            self._connection.sendall(_LENGTH.pack(len(body)) + body)
        except OSError as error:
            raise JvmGoneError from error

    def _more(self) -> bytes:
        try:
            data = self._connection.recv(_CHUNK)
        except OSError as error:
            raise JvmGoneError from error
        if not data:
            raise JvmGoneError
        return data


class Blocks:
    """Reads length-prefixed blocks and numbers from a message."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    def block(self) -> bytes:
        """Read a length-prefixed block."""
        start = self.pos + _LENGTH.size
        self.pos = start + _LENGTH.unpack_from(self.data, self.pos)[0]
        return self.data[start : self.pos]

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read numbers."""
        self.pos += layout.size
        return layout.unpack_from(self.data, self.pos - layout.size)


def block(data: bytes) -> bytes:
    """Prefix bytes with their length."""
    return _LENGTH.pack(len(data)) + data


def blocks(items: Sequence[bytes]) -> bytes:
    """Prefix blocks with their count."""
    return b"".join(itertools.chain([COUNT.pack(len(items))], map(block, items)))
