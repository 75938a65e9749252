"""The topics of a cluster for the dashboard: offsets, rates, records, dead letters."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagre.broker import ClientSettings, Topics
from eagre.connectors.error_policy import SUFFIX
from eagre.dashboard import topic_reader
from eagre.delivery.dead_letters import DeadLetter
from eagre.errors import BrokerError, EagreError

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERY_SECONDS = 2.0
ANSWER_SECONDS = 3.0
NEWEST = 20
LONGEST = 600
"""How many characters of a payload are shown."""

Json = dict[str, Any]


@dataclass
class TopicStatus:
    """The last known status of a topic."""

    partitions: list[Json] = field(default_factory=list)
    records: int = 0
    rate: float = 0.0
    seen: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)


class Cluster:
    """Polls topics of a cluster every two seconds, in its own thread.

    Args:
        brokers: The address of the cluster.
        config: The client's properties file, as the app names it.
    """

    def __init__(self, brokers: str, config: str | None = None) -> None:
        self.brokers = brokers
        self.problem = ""
        self._topics = Topics(ClientSettings.to(brokers, config), ANSWER_SECONDS)
        self._wanted: set[str] = set()
        self._statuses: dict[str, TopicStatus] = {}
        self._reasons: dict[str, topic_reader.ReasonCounts] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="eagre-topics", daemon=True)
        self._thread.start()

    @property
    def settings(self) -> dict[str, Any]:
        """The client's settings for librdkafka."""
        return self._topics.client_settings

    def watch(self, names: Iterable[str]) -> None:
        """Add topics to poll."""
        self._wanted |= set(names)

    def partitions(self, names: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; topics not polled yet are skipped."""
        return {n: len(self._statuses[n].partitions) for n in names if n in self._statuses}

    def ends(self, name: str) -> dict[int, int]:
        """Return the last known end offset of each partition of a topic."""
        status = self._statuses.get(name, TopicStatus())
        return {entry["partition"]: entry["end"] for entry in status.partitions}

    def describe(self) -> list[Json]:
        """Describe the topics."""
        return [
            {
                "topic": name,
                "brokers": self.brokers,
                "dead_letters": name.endswith(SUFFIX),
                "records": status.records,
                "rate": round(status.rate, 1),
                "partitions": status.partitions,
                "reasons": status.reasons,
            }
            for name, status in sorted(dict(self._statuses).items())
        ]

    def knows(self, name: str) -> bool:
        """Return whether a topic is polled."""
        return name in self._statuses

    def newest(self, name: str, *, payloads: bool) -> list[Json]:
        """Read the newest records of a topic, decoded and truncated.

        Raises:
            BrokerError: The topic cannot be read.
        """
        return [_shown(record, payloads=payloads) for record in self._tail(name, NEWEST)]

    def dead_letters(self, name: str, *, payloads: bool) -> list[Json]:
        """Read the newest dead letters, with their reasons.

        Raises:
            BrokerError: The topic cannot be read.
        """
        return [_dead_letter(record, payloads=payloads) for record in self._tail(name, NEWEST)]

    def close(self) -> None:
        """Stop polling."""
        self._over.set()
        self._thread.join(ANSWER_SECONDS)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._poll()
                self.problem = ""
            except EagreError as error:
                self.problem = error.problem
            self._over.wait(EVERY_SECONDS if self._wanted else EVERY_SECONDS / 10)

    def _poll(self) -> None:
        if not self._wanted:
            return
        existing = [name for name in sorted(self._wanted) if name in self._topics.names()]
        begins, ends = self._topics.begins(existing), self._topics.ends(existing)
        now = time.monotonic()
        for name in existing:
            self._update(name, begins[name], ends[name], now)

    def _update(self, name: str, begins: dict[int, int], ends: dict[int, int], now: float) -> None:
        before = self._statuses.get(name, TopicStatus())
        passed = now - before.seen
        old = {entry["partition"]: entry["end"] for entry in before.partitions}
        partitions = [
            {
                "partition": p,
                "begin": begins[p],
                "end": end,
                "rate": round((end - old[p]) / passed, 1) if p in old and passed > 0 else 0.0,
            }
            for p, end in sorted(ends.items())
        ]
        records = sum(end - begins[p] for p, end in ends.items())
        rate = float(sum(entry["rate"] for entry in partitions))
        reasons = self._reasons_of(name, begins, ends) if name.endswith(SUFFIX) else {}
        self._statuses[name] = TopicStatus(partitions, records, rate, now, reasons)

    def _reasons_of(
        self, name: str, begins: dict[int, int], ends: dict[int, int]
    ) -> dict[str, int]:
        """Count the reasons of dead letters; what a poll has no budget for waits for the next."""
        reasons = self._reasons.setdefault(name, topic_reader.ReasonCounts())
        starts = reasons.starts(begins, ends)
        if any(start < ends[p] for p, start in starts.items()):
            most = topic_reader.READ_BYTES
            reasons.add(topic_reader.read(self.settings, name, starts, ends, most))
        return reasons.counts()

    def _tail(self, name: str, most: int) -> list[Any]:
        """Read the newest records of a topic, newest first."""
        begins, ends = self._topics.begins([name])[name], self._topics.ends([name])[name]
        each = max(1, most // len(ends))
        starts = {p: max(begins[p], end - each) for p, end in ends.items()}
        records = topic_reader.read(self.settings, name, starts, ends)
        return sorted(records, key=lambda r: (r.timestamp()[1], r.offset()), reverse=True)[:most]


class Clusters:
    """Every cluster that the pipelines use, each polled once."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, str | None], Cluster] = {}
        self.problems: dict[str, str] = {}

    def of(self, where: Json) -> Cluster | None:
        """Return a cluster; None if its client cannot be created (``problems`` has the reason)."""
        key = (where["brokers"], where.get("config"))
        if key not in self._all:
            try:
                self._all[key] = Cluster(*key)
            except EagreError as error:
                self.problems[where["brokers"]] = str(error)
                return None
        return self._all[key]

    def describe(self) -> list[Json]:
        """Describe all topics."""
        return [topic for cluster in list(self._all.values()) for topic in cluster.describe()]

    def trouble(self) -> dict[str, str]:
        """Return why clusters cannot be polled, by their addresses."""
        current = {c.brokers: c.problem for c in list(self._all.values()) if c.problem}
        return {**self.problems, **current}

    def find(self, topic: str) -> Cluster:
        """Return the cluster of a pipeline's topic.

        Raises:
            BrokerError: No pipeline uses the topic.
        """
        for cluster in list(self._all.values()):
            if cluster.knows(topic):
                return cluster
        raise BrokerError(
            "TOPIC_NOT_SHOWN", f"no pipeline on this dashboard uses a topic {topic!r}."
        )

    def close(self) -> None:
        """Close all clusters."""
        for cluster in self._all.values():
            cluster.close()


def _shown(record: Any, *, payloads: bool) -> Json:  # noqa: ANN401  (librdkafka's record)
    metadata = {
        "partition": record.partition(),
        "offset": record.offset(),
        "time": record.timestamp()[1],
        "bytes": len(record.value() or b""),
    }
    if not payloads:
        return metadata
    headers = [[name, decoded(value)] for name, value in record.headers() or ()]
    return {
        **metadata,
        "key": decoded(record.key()),
        "value": decoded(record.value()),
        "headers": headers[:NEWEST],
    }


def _dead_letter(record: Any, *, payloads: bool) -> Json:  # noqa: ANN401
    dead_letter = DeadLetter.of(record)
    reason = dead_letter.reason if payloads else dead_letter.kind
    shown = {**_shown(record, payloads=payloads), "reason": reason[:LONGEST]}
    return {
        **shown,
        "source": dead_letter.source,
        "pipeline": dead_letter.pipeline,
        "lost": dead_letter.lost,
    }


def decoded(data: bytes | None) -> str | None:
    """Format bytes for display: text, JSON on one line, or hexadecimal; truncated.

    >>> decoded(b'{"a":1}'), decoded(bytes([0, 255])), decoded(None)
    ('{"a": 1}', '0x00ff', None)
    """
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "0x" + data[: LONGEST // 2].hex()
    with contextlib.suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), ensure_ascii=False) if text[:1] in "[{" else text
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
