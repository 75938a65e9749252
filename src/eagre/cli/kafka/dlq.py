"""``eagre dlq``: dead letters, what they are, and back to where they came from."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from eagre.cli.commands import Group
from eagre.cli.console import json_option, result, say, table, write_json
from eagre.cli.kafka.records import Sender, as_text, printable
from eagre.cli.kafka.topic import cluster, topics_of
from eagre.config import counted, timestamp_ms
from eagre.connectors.error_policy import SUFFIX
from eagre.delivery.dead_letters import REPLAYED, DeadLetter, Progress, dead_letters, topic_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from eagre.broker import Topics

_SHOWN = 500
_HEADERS = 20
_AT_ONCE = 500
NONE = "no dead letters"

_REASON = click.option(
    "--reason", metavar="TEXT", help="Only dead letters whose reason contains TEXT."
)


@click.group(cls=Group)
def dlq() -> None:
    """List, show and replay dead letters."""


@dlq.command("list", examples=("eagre dlq list", "eagre dlq list --topic payments --json -"))
@click.option("--topic", "only", metavar="TOPIC", help="Only dead letters of this topic.")
@json_option
@cluster
def list_(only: str | None, target: str | None, brokers: str | None, config: Path | None) -> None:
    """List dead letters by topic, pipeline and reason."""
    topics = topics_of(brokers, config)
    names = [topic_of(only)] if only else [n for n in topics.names() if n.endswith(SUFFIX)]
    groups = [asdict(group) for name in names for group in _groups(topics, name)]
    headings = ["topic", "pipeline", "reason", "letters", "oldest", "newest"]
    rows = [[printable(str(value)) for value in group.values()] for group in groups]
    result(target, groups, table(headings, rows) if rows else NONE)


@dlq.command(
    examples=(
        "eagre dlq show payments",
        "eagre dlq show payments --reason 'not JSON' --limit 5",
        "eagre dlq show payments --json -",
    )
)
@click.argument("topic")
@_REASON
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Show at most this many.",
)
@json_option
@cluster
def show(
    topic: str,
    reason: str | None,
    limit: int,
    target: str | None,
    brokers: str | None,
    config: Path | None,
) -> None:
    """Show the dead letters of TOPIC, the oldest first."""
    wanted = _Wanted(reason=reason, again=True)
    found = dead_letters(topics_of(brokers, config), topic_of(topic))
    shown = list(islice(filter(wanted.has, found), limit))
    text = "\n\n".join(map(_text, shown)) if shown else NONE
    result(target, [_json(letter) for letter in shown], text)


@dlq.command(
    examples=(
        "eagre dlq replay payments --dry-run",
        "eagre dlq replay payments --since 2026-11-15T08:30:00Z --rate 100",
    )
)
@click.argument("topic")
@_REASON
@click.option(
    "--since", metavar="TIME", help="Only dead letters written at or after this ISO 8601 time."
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Replay at most this many.")
@click.option("--rate", default=1000.0, show_default=True, help="Records per second.")
@click.option("--again", is_flag=True, help="Also replay records that failed again after a replay.")
@click.option("--dry-run", is_flag=True, help="Count what would be replayed, and write nothing.")
@json_option
@cluster
def replay(
    topic: str,
    reason: str | None,
    since: str | None,
    limit: int | None,
    rate: float,
    again: bool,
    dry_run: bool,
    target: str | None,
    brokers: str | None,
    config: Path | None,
) -> None:
    """Write the records of dead letters back to the topics they came from.

    Each dead letter is replayed once: the next replay continues after it. A record that fails
    again is skipped, unless --again is given.
    """
    topics = topics_of(brokers, config)
    name = topic_of(topic)
    wanted = _Wanted(reason, timestamp_ms(since) if since else None, again)
    progress = Progress(topics, name)
    try:
        chosen = _chosen(topics, name, wanted, progress)
        replayed = _Replay(topics, progress, rate, dry_run=dry_run)
        replayed.run(islice(chosen, limit))
    finally:
        progress.close()
    done = "would replay" if dry_run else "replayed"
    say(f"{done} {counted(replayed.count, 'record')} of {name!r}{_left(wanted)}")
    if target:
        counts = {"replayed": replayed.count, "skipped": wanted.left, "dry_run": dry_run}
        write_json(target, {"topic": name, **counts})


@dataclass
class _Group:
    """Letters of one kind."""

    topic: str
    pipeline: str
    reason: str
    letters: int
    oldest: str
    newest: str


def _groups(topics: Topics, name: str) -> list[_Group]:
    groups: dict[tuple[str, str], _Group] = {}
    for letter in dead_letters(topics, name):
        key = (letter.pipeline, letter.kind)
        new = _Group(name, *key, 0, letter.time, letter.time)
        group = groups.setdefault(key, new)
        group.letters += 1
        group.oldest = min(group.oldest, letter.time)
        group.newest = max(group.newest, letter.time)
    return sorted(groups.values(), key=lambda group: -group.letters)


@dataclass
class _Wanted:
    """Which dead letters are asked for, and why others were skipped."""

    reason: str | None = None
    since_ms: int | None = None
    again: bool = False
    left: dict[str, int] = field(default_factory=dict)

    def has(self, letter: DeadLetter) -> bool:
        if self.reason and self.reason not in letter.reason:
            return False
        return not (self.since_ms and (_written_ms(letter) or 0) < self.since_ms)

    def can_be_replayed(self, letter: DeadLetter) -> bool:
        if letter.lost or not letter.source_partition:
            return self._leave("whose record is incomplete")
        if letter.replays and not self.again:
            return self._leave("whose record failed again after a replay (--again replays them)")
        return True

    def _leave(self, why: str) -> bool:
        self.left[why] = self.left.get(why, 0) + 1
        return False


def _written_ms(letter: DeadLetter) -> int | None:
    return timestamp_ms(letter.time) if letter.time else None


def _chosen(topics: Topics, name: str, wanted: _Wanted, progress: Progress) -> Iterator[DeadLetter]:
    for letter in dead_letters(topics, name):
        if wanted.has(letter) and letter not in progress and wanted.can_be_replayed(letter):
            yield letter


def _left(wanted: _Wanted) -> str:
    return "".join(f"; skipped {count:,} {why}" for why, count in wanted.left.items())


class _Replay:
    """Writes records back, some at a time, and keeps account of them."""

    def __init__(self, topics: Topics, progress: Progress, rate: float, *, dry_run: bool) -> None:
        self._topics = topics
        self._progress = progress
        self._rate = rate
        self._dry_run = dry_run
        self._partitions: dict[str, int] = {}
        self._began = time.monotonic()
        self.count = 0

    def run(self, chosen: Iterator[DeadLetter]) -> None:
        if self._dry_run:
            self.count = sum(1 for _ in chosen)
            return
        sender = Sender(self._topics)
        while some := list(islice(chosen, max(1, min(_AT_ONCE, int(self._rate))))):
            self._write(sender, some)

    def _write(self, sender: Sender, some: list[DeadLetter]) -> None:
        for letter in some:
            self._progress.add(letter)
        self._progress.check()
        for letter in some:
            time.sleep(max(0.0, self._began + self.count / self._rate - time.monotonic()))
            topic, partition = letter.source_partition or ("", 0)
            extras = {"partition": partition} if partition < self._count(topic) else {}
            sender.send(topic, letter.key, letter.value, headers=_marked(letter), **extras)
            self.count += 1
        sender.finish()
        self._progress.save()

    def _count(self, topic: str) -> int:
        if topic not in self._partitions:
            self._partitions[topic] = self._topics.require(topic).partitions
        return self._partitions[topic]


def _marked(letter: DeadLetter) -> list[tuple[str, bytes | None]]:
    """Give the record's headers, with the mark that keeps it from going round and round."""
    own = [header for header in letter.headers if header[0] != REPLAYED]
    return [*own, (REPLAYED, f"{letter.replays + 1} {letter.place}".encode())]


def _json(letter: DeadLetter) -> dict[str, Any]:
    described = {k: v for k, v in asdict(letter).items() if k not in ("key", "value", "headers")}
    described |= as_text("key", letter.key) | as_text("value", letter.value)
    described["headers"] = [{"name": n, **as_text("value", v)} for n, v in letter.headers]
    return {**described, "replays": letter.replays}


def _text(letter: DeadLetter) -> str:
    lines = [
        f"{letter.place}  {letter.time}  {printable(letter.pipeline)}",
        f"  reason  {printable(letter.reason)}",
        f"  source  {printable(letter.source) or 'unknown'}",
    ]
    if letter.lost:
        lines.append(f"  lost    {printable(letter.lost)}")
    lines += [f"  key     {_shown(letter.key)}", f"  value   {_shown(letter.value)}"]
    shown = letter.headers[:_HEADERS]
    lines += [f"  header  {printable(name)}: {_shown(value)}" for name, value in shown]
    if len(letter.headers) > _HEADERS:
        lines.append(f"  and {counted(len(letter.headers) - _HEADERS, 'header')} more")
    return "\n".join(lines)


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = printable(data[:_SHOWN].decode(errors="replace"))
    return text if len(data) <= _SHOWN else f"{text}… ({len(data):,} bytes)"
