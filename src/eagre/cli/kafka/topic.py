"""``eagre topic``: list, read, write, create and delete topics of any cluster."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from eagre.broker import ClientSettings, Topics, registry
from eagre.cli.commands import Group, Option
from eagre.cli.console import (
    confirm,
    detail,
    json_option,
    report,
    result,
    say,
    table,
    warn,
    write_json,
)
from eagre.cli.kafka import lags, records
from eagre.cli.options import KAFKA, brokers_option, pair, together
from eagre.config import counted, project_dir
from eagre.errors import SettingsError
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

INTERNAL = "__"
"""The prefix of Kafka's internal topics."""
DELETE_SECONDS = 10


def cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the Kafka cluster."""
    config = click.option(
        "--config",
        cls=Option,
        group=KAFKA,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A Kafka client's properties file, with security.protocol and the like. "
        "[default: the file that EAGRE_KAFKA_CONFIG names]",
    )
    return brokers_option("the running embedded broker")(config(command))


@click.group(cls=Group)
def topic() -> None:
    """Look into topics, and create, fill and delete them."""


@topic.command(
    "list", examples=("eagre topic list", "eagre topic list --brokers kafka:9092 --json -")
)
@json_option
@cluster
def list_(target: str | None, brokers: str | None, config: Path | None) -> None:
    """List topics with their partitions and records."""
    topics = topics_of(brokers, config)
    names = topics.names()
    described, begins, ends = topics.describe(names), topics.begins(names), topics.ends(names)
    listed = [
        {
            "name": name,
            "partitions": described[name].partitions,
            "records": sum(ends[name].values()) - sum(begins[name].values()),
        }
        for name in names
    ]
    rows = [[str(t["name"]), f"{t['partitions']}", f"{t['records']:,}"] for t in listed]
    text = table(["topic", "partitions", "records"], rows) if rows else "no topics"
    result(target, {"topics": listed}, text)


@topic.command(examples=("eagre topic describe payments",))
@click.argument("name")
@json_option
@cluster
def describe(name: str, target: str | None, brokers: str | None, config: Path | None) -> None:
    """Show the partitions, offsets, records and settings of a topic.

    Settings are shown where they differ from Kafka's defaults. Records are counted by offsets,
    which includes compacted records and transaction markers.
    """
    topics = topics_of(brokers, config)
    topic_id = topics.require(name).id
    begins, ends = topics.begins([name])[name], topics.ends([name])[name]
    partitions = [
        {"partition": p, "begin": begins[p], "end": ends[p], "records": ends[p] - begins[p]}
        for p in sorted(ends)
    ]
    described = {
        "name": name,
        "id": topic_id,
        "records": sum(p["records"] for p in partitions),
        "partitions": partitions,
        "settings": topics.changed_settings(name),
    }
    result(target, described, _text(described))


@topic.command(
    examples=(
        "eagre topic create payments --partitions 8",
        "eagre topic create limits --set cleanup.policy=compact",
    )
)
@click.argument("name")
@click.option(
    "--partitions",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="How many partitions.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A topic setting, such as retention.ms=3600000; repeatable.",
)
@json_option
@cluster
def create(
    name: str,
    partitions: int,
    settings: tuple[str, ...],
    target: str | None,
    brokers: str | None,
    config: Path | None,
) -> None:
    """Create a topic."""
    chosen = dict(map(pair, settings))
    topics_of(brokers, config).create(name, partitions, chosen)
    report(
        target,
        {"name": name, "partitions": partitions, "settings": chosen},
        f"created topic {name!r} with {counted(partitions, 'partition')}",
    )


@topic.command(examples=("eagre topic delete payments", "eagre topic delete in out --yes"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@cluster
def delete(
    names: tuple[str, ...],
    yes: bool,
    target: str | None,
    brokers: str | None,
    config: Path | None,
) -> None:
    """Delete topics with all their records."""
    for name in names:
        _require_deletable(name)
    topics = topics_of(brokers, config)
    chosen = [topics.require(name).name for name in dict.fromkeys(names)]
    if not yes:
        begins, ends = topics.begins(chosen), topics.ends(chosen)
        for name in chosen:
            records_held = sum(ends[name].values()) - sum(begins[name].values())
            say(f"topic {name!r} on {topics.brokers} holds {counted(records_held, 'record')}")
    confirm(f"Delete {counted(len(chosen), 'topic')} and all records in them?", yes=yes)
    topics.delete(chosen)
    _wait_until_gone(topics, set(chosen))
    for name in chosen:
        say(f"deleted topic {name!r}")
    if target:
        write_json(target, {"deleted": chosen})


_column = partial(click.option, cls=Option, group="Columns", is_flag=True)
_column_options = together(
    _column("--timestamps", help="Print the time."),
    _column("--offsets", help="Print partition and offset."),
    _column("--headers", help="Print headers, as NAME=VALUE,..."),
    _column("--keys", help="Print the key before the value."),
    _column("--all", "every", help="Print all these."),
)


@topic.command(
    examples=(
        "eagre topic tail scores",
        "eagre topic tail scores --from earliest -n 10 --keys --offsets",
        "eagre topic tail scores --from 2026-11-15T08:30:00Z --all",
        "eagre topic tail scores --partition 0 --from 4711 --json -",
    )
)
@click.argument("name")
@click.option(
    "-n", "count", type=click.IntRange(1), metavar="N", help="Stop after this many records."
)
@click.option(
    "--from",
    "start",
    metavar="earliest|latest|TIME|OFFSET",
    default="latest",
    show_default=True,
    help="Where to start: also at an ISO 8601 time, or at an offset of each partition.",
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition; repeatable.",
)
@partial(json_option, what="each record to FILE as a line of JSON")
@_column_options
@cluster
def tail(
    name: str,
    count: int | None,
    start: str,
    partitions: tuple[int, ...],
    target: str | None,
    every: bool,
    brokers: str | None,
    config: Path | None,
    **columns: bool,
) -> None:
    """Print records as they arrive, until Ctrl-C.

    Columns are separated by tabs, in this order: time, partition, offset, headers, key, value.
    JSON has all of them; bytes that are not UTF-8 are in base64, as key_base64 or value_base64.
    """
    topics = topics_of(brokers, config)
    chosen = {column: every or shown for column, shown in columns.items()}
    layout = records.Columns(sys.stdout.isatty(), **chosen)
    offsets = records.begin(topics, name, start, partitions)
    stream = records.read(topics, name, offsets)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(stream))
        file = stack.enter_context(Path(target).open("w")) if target not in (None, "-") else None
        for record in islice(stream, count):
            if target:
                _write(json.dumps(records.as_dict(record)), file or sys.stdout)
            if target != "-":
                _write(layout.text(record), sys.stdout)


@topic.command(
    examples=(
        "cat payments.jsonl | eagre topic produce payments --key card",
        "cat payments.jsonl | eagre topic produce payments --rate 100",
    )
)
@click.argument("name")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--key", metavar="FIELD", help="Use this field of each JSON object as the key.")
@click.option(
    "--rate", type=float, help="Records per second. [default: as fast as the cluster takes them]"
)
@json_option
@cluster
def produce(
    name: str,
    file: Iterable[bytes],
    key: str | None,
    rate: float | None,
    target: str | None,
    brokers: str | None,
    config: Path | None,
) -> None:
    """Write each line of FILE, or of standard input, as one record."""
    topics = topics_of(brokers, config)
    topics.require(name)
    sender = records.Sender(topics)
    started = time.monotonic()
    for number, line in enumerate(file):
        if rate:
            time.sleep(max(0.0, started + number / rate - time.monotonic()))
        value = line.rstrip(b"\r\n")
        sender.send(name, _key(value, key, number + 1) if key else None, value)
    sender.finish()
    count = sender.acknowledged
    report(
        target,
        {"topic": name, "records": count},
        f"wrote {counted(count, 'record')} to {name!r}",
    )


@topic.command(
    examples=(
        "eagre topic lag",
        "eagre topic lag score",
        "eagre topic lag --group billing --json -",
    )
)
@click.argument("checkpoint", required=False)
@click.option("--group", help="The lag of a consumer group instead of a pipeline.")
@json_option
@cluster
def lag(
    checkpoint: str | None,
    group: str | None,
    target: str | None,
    brokers: str | None,
    config: Path | None,
) -> None:
    """Show the lag of pipelines or of a consumer group.

    CHECKPOINT is a checkpoint's folder, or a pipeline of this project. [default: all pipelines of
    this project]
    """
    topics = topics_of(brokers, config)
    positions = lags.of_group(topics, group) if group else lags.of_pipelines(checkpoint)
    kind = "group" if group else "pipeline"
    partitions = list(lags.of(topics, kind, positions))
    rows = [
        [
            partition[kind],
            f"{partition['topic']}/{partition['partition']}",
            *(f"{partition[column]:,}" for column in ("committed", "end", "lag")),
        ]
        for partition in partitions
    ]
    headings = [kind, "partition", "committed", "end", "lag"]
    result(
        target,
        {"partitions": partitions},
        table(headings, rows) if rows else "nothing is committed yet",
    )


def topics_of(brokers: str | None, config: Path | None) -> Topics:
    """Return the topics of a cluster, by default of the running embedded broker."""
    address = brokers or registry.the_running_one(project_dir() / "broker").bootstrap
    client = ClientSettings.to(address, config)
    detail(f"Kafka at {address}: {client.described()}")
    return Topics(client)


def _write(line: str, file: TextIO) -> None:
    """Write a record unchanged; ``click.echo`` would remove escape sequences."""
    file.write(f"{line}\n")
    file.flush()


def _text(topic: dict[str, Any]) -> str:
    lines = [
        f"topic       {topic['name']}",
        f"id          {topic['id']}",
        f"partitions  {len(topic['partitions'])}",
        f"records     {topic['records']:,}",
    ]
    lines += [f"setting     {key}={value}" for key, value in topic["settings"].items()]
    rows = [
        [str(p["partition"]), *(f"{p[c]:,}" for c in ("begin", "end", "records"))]
        for p in topic["partitions"]
    ]
    return "\n".join([*lines, "", table(["partition", "begin", "end", "records"], rows)])


def _require_deletable(name: str) -> None:
    if name.startswith(INTERNAL):
        raise SettingsError(
            "TOPIC_INTERNAL",
            f"topic {name!r} is internal to Kafka: consumers and transactions depend on it.",
            hint="it is not deleted; name other topics.",
        )


def _wait_until_gone(topics: Topics, names: set[str]) -> None:
    """Wait until the brokers have deleted the topics, so that they can be created again."""
    try:
        wait_until(lambda: names.isdisjoint(topics.names()), DELETE_SECONDS, "")
    except TimeoutError:
        remaining = ", ".join(sorted(names & set(topics.names())))
        warn(f"the cluster accepted the deletion but still lists: {remaining}")


def _key(value: bytes, field: str, line: int) -> bytes:
    try:
        key = json.loads(value)[field]
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            "KEY_NOT_FOUND", f"line {line} has no JSON field {field!r} for the key ({error})."
        ) from None
    return (key if isinstance(key, str) else json.dumps(key)).encode()
