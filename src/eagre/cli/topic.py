"""``eagre topic``: a look into the topics of any cluster."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagre.broker import Client, Topics, registry
from eagre.cli.console import project_checkpoint, say, table
from eagre.config import counted, project_dir
from eagre.errors import BrokerError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_QUEUE_FULL_WAIT = 0.1


def cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command say which cluster."""
    brokers = click.option(
        "--brokers",
        envvar="EAGRE_BROKERS",
        metavar="HOST:PORT",
        help="The cluster. [default: the embedded broker that runs]",
    )
    config = click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A client's properties file, with security.protocol and the like. "
        "[default: what EAGRE_KAFKA_CONFIG names]",
    )
    return brokers(config(command))


@click.group()
def topic() -> None:
    """Topics: list, create, tail, produce, lag."""


@topic.command("list")
@cluster
def list_(brokers: str | None, config: Path | None) -> None:
    """List topics with their partitions and records."""
    topics = topics_of(brokers, config)
    names = topics.names()
    described, begins, ends = topics.describe(names), topics.begins(names), topics.ends(names)
    rows = [
        [name, str(described[name].partitions), f"{_total(ends[name]) - _total(begins[name]):,}"]
        for name in names
    ]
    click.echo(table(["topic", "partitions", "records"], rows) if rows else "no topics")


@topic.command()
@click.argument("name")
@click.option(
    "--partitions",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="How many partitions.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A topic setting.")
@cluster
def create(
    name: str,
    partitions: int,
    settings: tuple[str, ...],
    brokers: str | None,
    config: Path | None,
) -> None:
    """Create a topic."""
    pairs = dict(_pair(setting) for setting in settings)
    topics_of(brokers, config).create(name, partitions, pairs)
    say(f"created topic {name!r} with {counted(partitions, 'partition')}")


@topic.command()
@click.argument("name")
@click.option("-n", "count", type=click.IntRange(1), help="End after that many records.")
@click.option(
    "--from",
    "start",
    type=click.Choice(["earliest", "latest"]),
    default="latest",
    show_default=True,
    help="Where to begin.",
)
@click.option("--keys", is_flag=True, help="Print the key and a tab before the value.")
@cluster
def tail(
    name: str,
    count: int | None,
    start: str,
    keys: bool,
    brokers: str | None,
    config: Path | None,
) -> None:
    """Print records as they arrive, until Ctrl-C."""
    topics = topics_of(brokers, config)
    begin = topics.begins([name]) if start == "earliest" else topics.ends([name])
    for number, record in enumerate(_records(topics, name, begin[name]), 1):
        key = f"{_text(record.key())}\t" if keys else ""
        click.echo(key + _text(record.value()))
        if number == count:
            break


@topic.command()
@click.argument("name")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--key", metavar="FIELD", help="Key each record by this field of its JSON object.")
@click.option("--rate", type=float, help="Records per second; as fast as possible if not given.")
@cluster
def produce(
    name: str,
    file: Iterable[bytes],
    key: str | None,
    rate: float | None,
    brokers: str | None,
    config: Path | None,
) -> None:
    """Write each line of FILE (standard input if none) as one record."""
    topics = topics_of(brokers, config)
    topics.require(name)
    sender = Sender(topics)
    began = time.monotonic()
    for number, line in enumerate(file):
        if rate:
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
        value = line.rstrip(b"\r\n")
        sender.send(name, _key(value, key, number + 1) if key else None, value)
    sender.finish()
    say(f"wrote {counted(sender.acknowledged, 'record')} to {name!r}")


@topic.command()
@click.argument("checkpoint", required=False)
@click.option("--group", help="Of a consumer group instead of a pipeline's checkpoint.")
@cluster
def lag(
    checkpoint: str | None, group: str | None, brokers: str | None, config: Path | None
) -> None:
    """Show how far behind a pipeline's committed offsets are (CHECKPOINT: folder or name)."""
    topics = topics_of(brokers, config)
    positions = _group_positions(topics, group) if group else _checkpoint_positions(checkpoint)
    rows = []
    for of, offsets in positions.items():
        ends = topics.ends(offsets)
        rows += [
            [of, f"{name}/{p}", f"{offset:,}", f"{ends[name][p]:,}", f"{ends[name][p] - offset:,}"]
            for name, partitions in offsets.items()
            for p, offset in sorted(partitions.items())
        ]
    headings = ["group" if group else "pipeline", "partition", "committed", "end", "lag"]
    click.echo(table(headings, rows) if rows else "nothing is committed yet")


class Sender:
    """A producer that counts what the cluster acknowledged, keyed as Java clients key."""

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
        """Hand over one record, waiting while the queue is full; headers, partition are extras."""
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
        """Wait for the acknowledgements."""
        self._producer.flush()
        self._raise_error()

    def _delivered(self, error: Any, _: object) -> None:  # noqa: ANN401
        self._error = error or self._error
        self.acknowledged += error is None

    def _raise_error(self) -> None:
        if self._error:
            raise BrokerError(
                "RECORD_REFUSED",
                f"the cluster did not take a record: {self._error.str()} "
                f"({self.acknowledged:,} were acknowledged).",
            )


def topics_of(brokers: str | None, config: Path | None) -> Topics:
    """Give the topics of the cluster that a command names, or of the embedded broker that runs."""
    address = brokers or registry.the_running_one(project_dir() / "broker").address
    return Topics(Client.to(address, config))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise SettingsError("SETTING_MALFORMED", f"a setting must be KEY=VALUE, not {text!r}.")
    return key.strip(), value.strip()


def _key(value: bytes, field: str, line: int) -> bytes:
    try:
        found = json.loads(value)[field]
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            "KEY_NOT_FOUND", f"line {line} has no JSON field {field!r} to key by ({error})."
        ) from None
    return (found if isinstance(found, str) else json.dumps(found)).encode()


def _records(topics: Topics, name: str, begin: dict[int, int]) -> Iterator[Any]:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"group.id": "eagre-tail", "enable.auto.commit": False}
    consumer = Consumer({**topics.client_settings, **settings})
    consumer.assign([TopicPartition(name, p, offset) for p, offset in begin.items()])
    try:
        while True:
            record = consumer.poll(0.5)
            if record is not None and record.error():
                raise BrokerError("TOPIC_UNREADABLE", f"{name!r}: {record.error().str()}.")
            if record is not None:
                yield record
                sys.stdout.flush()
    finally:
        consumer.close()


def _checkpoint_positions(name: str | None) -> dict[str, dict[str, dict[int, int]]]:
    own = project_dir() / "checkpoints"
    names = [name] if name else sorted(p.name for p in own.glob("*"))
    found = {}
    for checkpoint in map(project_checkpoint, names):
        described = checkpoint.describe()
        binding = described["binding"]
        found[checkpoint.path.name] = described["offsets"] or (binding["start"] if binding else {})
    return found


def _group_positions(topics: Topics, group: str) -> dict[str, dict[str, dict[int, int]]]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    request = [ConsumerGroupTopicPartitions(group)]
    future = topics.admin.list_consumer_group_offsets(request)[group]
    positions: dict[str, dict[int, int]] = {}
    for partition in topics.result(future).topic_partitions:
        positions.setdefault(partition.topic, {})[partition.partition] = max(0, partition.offset)
    return {group: positions}


def _total(offsets: dict[int, int]) -> int:
    return sum(offsets.values())


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode(errors="replace")
