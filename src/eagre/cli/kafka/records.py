"""Read, format and write records of Kafka topics."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from eagre.config import timestamp_ms
from eagre.errors import BrokerError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Generator

    from eagre.broker import Topics

_QUEUE_FULL_WAIT = 0.1
_POLL_SECONDS = 0.5


class Sender:
    """A producer that counts acknowledged records, with the partitioner of Java clients."""

    def __init__(self, topics: Topics) -> None:
        from confluent_kafka import Producer

        settings = {"partitioner": "murmur2_random", "linger.ms": 5, "message.max.bytes": 1 << 27}
        self._producer: Any = Producer({**topics.client_settings, **settings})
        self._error: Any = None
        self.acknowledged = 0

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        **extras: Any,  # noqa: ANN401  (as librdkafka takes them)
    ) -> None:
        """Send a record, waiting while the queue is full; extras: headers, partition, timestamp."""
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered, **extras)
            except BufferError:
                self._producer.poll(_QUEUE_FULL_WAIT)
            else:
                break
        self._producer.poll(0)
        self._raise_error()

    def finish(self) -> None:
        """Wait until every record is acknowledged."""
        self._producer.flush()
        self._raise_error()

    def _delivered(self, error: Any, _: object) -> None:  # noqa: ANN401
        self._error = error or self._error
        self.acknowledged += error is None

    def _raise_error(self) -> None:
        if self._error:
            raise BrokerError(
                "RECORD_REFUSED",
                f"the cluster rejected a record: {self._error.str()} "
                f"({self.acknowledged:,} were acknowledged).",
            )


def begin(
    topics: Topics, name: str, start: str, partitions: tuple[int, ...] = ()
) -> dict[int, int]:
    """Return the offset of each partition to read from.

    Args:
        topics: The cluster.
        name: The topic.
        start: ``earliest``, ``latest``, an offset in each partition, or an ISO 8601 time.
        partitions: Only these partitions; all if empty.

    Raises:
        SettingsError: The start is malformed, or a partition does not exist.
    """
    first = topics.begins([name])[name]
    missing = sorted(set(partitions) - set(first))
    if missing:
        raise SettingsError(
            "PARTITION_NOT_FOUND",
            f"topic {name!r} has no partition {missing[0]}.",
            hint=f"its partitions are 0 to {max(first)}.",
        )
    offsets = first if start == "earliest" else _start_offsets(topics, name, start, first)
    return {p: offset for p, offset in offsets.items() if not partitions or p in partitions}


def _start_offsets(topics: Topics, name: str, start: str, first: dict[int, int]) -> dict[int, int]:
    if start == "latest":
        return topics.ends([name])[name]
    if start.isdigit():
        ends = topics.ends([name])[name]
        return {p: min(max(int(start), first[p]), ends[p]) for p in first}
    return topics.at([name], timestamp_ms(start))[name]


def read(topics: Topics, name: str, offsets: dict[int, int]) -> Generator[Any, None, None]:
    """Yield records as they arrive, without end.

    Raises:
        BrokerError: The topic cannot be read.
    """
    from confluent_kafka import Consumer, TopicPartition

    settings = {"group.id": "eagre-tail", "enable.auto.commit": False}
    consumer = Consumer({**topics.client_settings, **settings})
    consumer.assign([TopicPartition(name, p, offset) for p, offset in offsets.items()])
    try:
        while True:
            record = consumer.poll(_POLL_SECONDS)
            if record is not None and record.error():
                raise BrokerError("TOPIC_UNREADABLE", f"{name!r}: {record.error().str()}.")
            if record is not None:
                yield record
    finally:
        consumer.close()


@dataclass(frozen=True)
class Columns:
    """The columns that are printed before the value of a record, each followed by a tab.

    On a terminal, control characters are printed as escape sequences.
    """

    terminal: bool = False
    timestamps: bool = False
    offsets: bool = False
    headers: bool = False
    keys: bool = False

    def text(self, record: Any) -> str:  # noqa: ANN401  (librdkafka's)
        """Return a record as a line."""
        cells = []
        if self.timestamps:
            cells.append(_time(record.timestamp()[1]))
        if self.offsets:
            cells += [str(record.partition()), str(record.offset())]
        if self.headers:
            cells.append(",".join(f"{n}={_text(v)}" for n, v in record.headers() or ()) or "-")
        if self.keys:
            cells.append(_text(record.key()))
        cells.append(_text(record.value()))
        return "\t".join(map(printable, cells) if self.terminal else cells)


def as_dict(record: Any) -> dict[str, Any]:  # noqa: ANN401  (librdkafka's)
    """Return a record as a JSON object."""
    return {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp_ms": record.timestamp()[1],
        "headers": [{"name": n, **as_text("value", v)} for n, v in record.headers() or ()],
        **as_text("key", record.key()),
        **as_text("value", record.value()),
    }


def as_text(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return bytes as text, or in base64 if they are not UTF-8.

    >>> as_text("key", b"card"), as_text("key", bytes([255]))
    ({'key': 'card'}, {'key': None, 'key_base64': '/w=='})
    """
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}


def printable(text: str) -> str:
    r"""Replace control characters, which a terminal would interpret, by escape sequences.

    >>> printable("a" + chr(27) + "[2J")
    'a\\x1b[2J'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _time(timestamp: int) -> str:
    """Format a record's time.

    >>> _time(1767225607250)
    '2026-01-01T00:00:07.250Z'
    """
    moment = datetime.fromtimestamp(timestamp / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode(errors="replace")
