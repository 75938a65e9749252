"""``eagre dlq``: list, show and replay dead letters."""

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

_MAX_BYTES_SHOWN = 500
_MAX_HEADERS_SHOWN = 20
_MAX_CHUNK = 500
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
    headings = ["topic", "pipeline", "reason", "dead letters", "oldest", "newest"]
    rows = [[printable(str(value)) for value in group.values()] for group in groups]
    # `letters` is the name until 0.2.
    entries = [{**group, "letters": group["dead_letters"]} for group in groups]
    result(target, entries, table(headings, rows) if rows else NONE)


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
    selection = _Selection(reason=reason, again=True)
    stored = dead_letters(topics_of(brokers, config), topic_of(topic))
    shown = list(islice(filter(selection.matches, stored), limit))
    text = "\n\n".join(map(_text, shown)) if shown else NONE
    result(target, [_json(dead_letter) for dead_letter in shown], text)


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
    selection = _Selection(reason, timestamp_ms(since) if since else None, again)
    progress = Progress(topics, name)
    try:
        chosen = _chosen(topics, name, selection, progress)
        replayed = _Replay(topics, progress, rate, dry_run=dry_run)
        replayed.run(islice(chosen, limit))
    finally:
        progress.close()
    done = "would replay" if dry_run else "replayed"
    say(f"{done} {counted(replayed.count, 'record')} of {name!r}{_skipped(selection)}")
    if target:
        counts = {"replayed": replayed.count, "skipped": selection.skipped, "dry_run": dry_run}
        write_json(target, {"topic": name, **counts})


@dataclass
class _Group:
    """Dead letters with the same topic, pipeline and reason."""

    topic: str
    pipeline: str
    reason: str
    dead_letters: int
    oldest: str
    newest: str


def _groups(topics: Topics, name: str) -> list[_Group]:
    groups: dict[tuple[str, str], _Group] = {}
    for dead_letter in dead_letters(topics, name):
        key = (dead_letter.pipeline, dead_letter.kind)
        new = _Group(name, *key, 0, dead_letter.time, dead_letter.time)
        group = groups.setdefault(key, new)
        group.dead_letters += 1
        group.oldest = min(group.oldest, dead_letter.time)
        group.newest = max(group.newest, dead_letter.time)
    return sorted(groups.values(), key=lambda group: -group.dead_letters)


@dataclass
class _Selection:
    """Selects dead letters and counts the skipped ones by reason."""

    reason: str | None = None
    since_ms: int | None = None
    again: bool = False
    skipped: dict[str, int] = field(default_factory=dict)

    def matches(self, dead_letter: DeadLetter) -> bool:
        if self.reason and self.reason not in dead_letter.reason:
            return False
        return not (self.since_ms and (_written_ms(dead_letter) or 0) < self.since_ms)

    def can_be_replayed(self, dead_letter: DeadLetter) -> bool:
        if dead_letter.lost or not dead_letter.source_partition:
            return self._skip("whose record is incomplete")
        if dead_letter.replays and not self.again:
            return self._skip("whose record failed again after a replay (--again replays them)")
        return True

    def _skip(self, why: str) -> bool:
        self.skipped[why] = self.skipped.get(why, 0) + 1
        return False


def _written_ms(dead_letter: DeadLetter) -> int | None:
    return timestamp_ms(dead_letter.time) if dead_letter.time else None


def _chosen(
    topics: Topics, name: str, selection: _Selection, progress: Progress
) -> Iterator[DeadLetter]:
    for dead_letter in dead_letters(topics, name):
        if (
            selection.matches(dead_letter)
            and dead_letter not in progress
            and selection.can_be_replayed(dead_letter)
        ):
            yield dead_letter


def _skipped(selection: _Selection) -> str:
    return "".join(f"; skipped {count:,} {why}" for why, count in selection.skipped.items())


class _Replay:
    """Writes records back in chunks, and commits the progress after each chunk."""

    def __init__(self, topics: Topics, progress: Progress, rate: float, *, dry_run: bool) -> None:
        self._topics = topics
        self._progress = progress
        self._rate = rate
        self._dry_run = dry_run
        self._partitions: dict[str, int] = {}
        self._started = time.monotonic()
        self.count = 0

    def run(self, chosen: Iterator[DeadLetter]) -> None:
        if self._dry_run:
            self.count = sum(1 for _ in chosen)
            return
        sender = Sender(self._topics)
        while chunk := list(islice(chosen, max(1, min(_MAX_CHUNK, int(self._rate))))):
            self._write(sender, chunk)

    def _write(self, sender: Sender, chunk: list[DeadLetter]) -> None:
        for dead_letter in chunk:
            self._progress.add(dead_letter)
        self._progress.check()
        for dead_letter in chunk:
            time.sleep(max(0.0, self._started + self.count / self._rate - time.monotonic()))
            topic, partition = dead_letter.source_partition or ("", 0)
            extras = {"partition": partition} if partition < self._partition_count(topic) else {}
            sender.send(
                topic,
                dead_letter.key,
                dead_letter.value,
                headers=_replay_headers(dead_letter),
                **extras,
            )
            self.count += 1
        sender.finish()
        self._progress.save()

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partitions:
            self._partitions[topic] = self._topics.require(topic).partitions
        return self._partitions[topic]


def _replay_headers(dead_letter: DeadLetter) -> list[tuple[str, bytes | None]]:
    """Return the record's headers with the replay count, which prevents an endless loop."""
    original = [header for header in dead_letter.headers if header[0] != REPLAYED]
    return [*original, (REPLAYED, f"{dead_letter.replays + 1} {dead_letter.place}".encode())]


def _json(dead_letter: DeadLetter) -> dict[str, Any]:
    described = {
        k: v for k, v in asdict(dead_letter).items() if k not in ("key", "value", "headers")
    }
    described |= as_text("key", dead_letter.key) | as_text("value", dead_letter.value)
    described["headers"] = [{"name": n, **as_text("value", v)} for n, v in dead_letter.headers]
    return {**described, "replays": dead_letter.replays}


def _text(dead_letter: DeadLetter) -> str:
    lines = [
        f"{dead_letter.place}  {dead_letter.time}  {printable(dead_letter.pipeline)}",
        f"  reason  {printable(dead_letter.reason)}",
        f"  source  {printable(dead_letter.source) or 'unknown'}",
    ]
    if dead_letter.lost:
        lines.append(f"  lost    {printable(dead_letter.lost)}")
    lines += [f"  key     {_preview(dead_letter.key)}", f"  value   {_preview(dead_letter.value)}"]
    shown = dead_letter.headers[:_MAX_HEADERS_SHOWN]
    lines += [f"  header  {printable(name)}: {_preview(value)}" for name, value in shown]
    if len(dead_letter.headers) > _MAX_HEADERS_SHOWN:
        lines.append(
            f"  and {counted(len(dead_letter.headers) - _MAX_HEADERS_SHOWN, 'header')} more"
        )
    return "\n".join(lines)


def _preview(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = printable(data[:_MAX_BYTES_SHOWN].decode(errors="replace"))
    return text if len(data) <= _MAX_BYTES_SHOWN else f"{text}… ({len(data):,} bytes)"
