"""The topics of a cluster as the page shows them: offsets, rates, records, dead letters."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagre.broker import Client, Topics
from eagre.delivery.dead_letters import DeadLetter
from eagre.error_policy import SUFFIX
from eagre.errors import BrokerError, EagreError

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERY_SECONDS = 2.0
ANSWER_SECONDS = 3.0
NEWEST = 20
LETTERS = 200
"""Of the dead letters, so many of the newest are read for their reasons."""
LONGEST = 600
"""Characters of a payload that are shown."""
READ_SECONDS = 4.0

Told = dict[str, Any]


@dataclass
class Watched:
    """A topic as it was last seen."""

    partitions: list[Told] = field(default_factory=list)
    records: int = 0
    rate: float = 0.0
    seen: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)


class Cluster:
    """Looks at some topics every two seconds, in a thread of its own.

    Args:
        brokers: Its address.
        config: A client's properties file, as the app names it.
    """

    def __init__(self, brokers: str, config: str | None = None) -> None:
        self.brokers = brokers
        self.problem = ""
        self._topics = Topics(Client.to(brokers, config), ANSWER_SECONDS)
        self._wanted: set[str] = set()
        self._seen: dict[str, Watched] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="eagre-topics", daemon=True)
        self._thread.start()

    @property
    def settings(self) -> dict[str, Any]:
        """The client's settings for librdkafka."""
        return self._topics.client_settings

    def watch(self, names: Iterable[str]) -> None:
        """Look at these too from now on."""
        self._wanted |= set(names)

    def partitions(self, names: Iterable[str]) -> dict[str, int]:
        """How many partitions each topic has; a topic that was not seen yet is left out."""
        return {n: len(self._seen[n].partitions) for n in names if n in self._seen}

    def ends(self, name: str) -> dict[int, int]:
        """Where each partition of a topic ends, as last seen."""
        seen = self._seen.get(name, Watched())
        return {one["partition"]: one["end"] for one in seen.partitions}

    def told(self) -> list[Told]:
        """Describe the topics."""
        return [
            {
                "topic": name,
                "brokers": self.brokers,
                "letters": name.endswith(SUFFIX),
                "records": one.records,
                "rate": round(one.rate, 1),
                "partitions": one.partitions,
                "reasons": one.reasons,
            }
            for name, one in sorted(dict(self._seen).items())
        ]

    def knows(self, name: str) -> bool:
        """Tell whether a topic is one of those that are looked at."""
        return name in self._seen

    def newest(self, name: str, *, payloads: bool) -> list[Told]:
        """Read the newest records of a topic, decoded and cut short.

        Raises:
            BrokerError: It cannot be read.
        """
        return [_shown(record, payloads=payloads) for record in self._tail(name, NEWEST)]

    def letters(self, name: str, *, payloads: bool) -> list[Told]:
        """Read the newest dead letters, with their reasons.

        Raises:
            BrokerError: They cannot be read.
        """
        return [_letter(record, payloads=payloads) for record in self._tail(name, NEWEST)]

    def close(self) -> None:
        """Stop looking."""
        self._over.set()
        self._thread.join(ANSWER_SECONDS)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._look()
                self.problem = ""
            except EagreError as error:
                self.problem = error.problem
            self._over.wait(EVERY_SECONDS if self._wanted else EVERY_SECONDS / 10)

    def _look(self) -> None:
        if not self._wanted:
            return
        there = [name for name in sorted(self._wanted) if name in self._topics.names()]
        begins, ends = self._topics.begins(there), self._topics.ends(there)
        now = time.monotonic()
        for name in there:
            self._note(name, begins[name], ends[name], now)

    def _note(self, name: str, begins: dict[int, int], ends: dict[int, int], now: float) -> None:
        before = self._seen.get(name, Watched())
        passed = now - before.seen
        old = {one["partition"]: one["end"] for one in before.partitions}
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
        rate = float(sum(one["rate"] for one in partitions))
        reasons = before.reasons
        if name.endswith(SUFFIX) and [one["end"] for one in partitions] != list(old.values()):
            reasons = self._reasons(name)
        self._seen[name] = Watched(partitions, records, rate, now, reasons)

    def _reasons(self, name: str) -> dict[str, int]:
        found = [DeadLetter.of(record) for record in self._tail(name, LETTERS)]
        return dict(Counter(letter.kind or "no reason is given" for letter in found).most_common(8))

    def _tail(self, name: str, most: int) -> list[Any]:
        """Read the newest records of a topic, the newest first."""
        from confluent_kafka import Consumer, TopicPartition

        begins, ends = self._topics.begins([name])[name], self._topics.ends([name])[name]
        each = max(1, most // len(ends))
        starts = {p: max(begins[p], end - each) for p, end in ends.items()}
        left = sum(ends[p] - start for p, start in starts.items())
        consumer = Consumer(
            {**self.settings, "group.id": "eagre-page", "enable.auto.commit": False}
        )
        found: list[Any] = []
        try:
            consumer.assign([TopicPartition(name, p, o) for p, o in starts.items() if o < ends[p]])
            deadline = time.monotonic() + READ_SECONDS
            while len(found) < left and time.monotonic() < deadline:
                found += [r for r in consumer.consume(left, 0.2) if not r.error()]
        finally:
            consumer.close()
        return sorted(found, key=lambda r: (r.timestamp()[1], r.offset()), reverse=True)[:most]


class Clusters:
    """Every cluster that the pipelines name, each looked at once."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, str | None], Cluster] = {}
        self.problems: dict[str, str] = {}

    def of(self, where: Told) -> Cluster | None:
        """Give a cluster; None where its client cannot be made, and ``problems`` says why."""
        key = (where["brokers"], where.get("config"))
        if key not in self._all:
            try:
                self._all[key] = Cluster(*key)
            except EagreError as error:
                self.problems[where["brokers"]] = str(error)
                return None
        return self._all[key]

    def told(self) -> list[Told]:
        """Describe all topics."""
        return [topic for cluster in list(self._all.values()) for topic in cluster.told()]

    def trouble(self) -> dict[str, str]:
        """Why a cluster cannot be looked at, by its address."""
        now = {one.brokers: one.problem for one in list(self._all.values()) if one.problem}
        return {**self.problems, **now}

    def find(self, topic: str) -> Cluster:
        """Give the cluster that a topic of a pipeline is on.

        Raises:
            BrokerError: No pipeline has such a topic.
        """
        for cluster in list(self._all.values()):
            if cluster.knows(topic):
                return cluster
        raise BrokerError("TOPIC_NOT_SHOWN", f"no pipeline here has a topic {topic!r}.")

    def close(self) -> None:
        """Let go of all of them."""
        for cluster in self._all.values():
            cluster.close()


def _shown(record: Any, *, payloads: bool) -> Told:  # noqa: ANN401  (librdkafka's record)
    told = {
        "partition": record.partition(),
        "offset": record.offset(),
        "time": record.timestamp()[1],
        "bytes": len(record.value() or b""),
    }
    if not payloads:
        return told
    headers = [[name, decoded(value)] for name, value in record.headers() or ()]
    return {
        **told,
        "key": decoded(record.key()),
        "value": decoded(record.value()),
        "headers": headers[:NEWEST],
    }


def _letter(record: Any, *, payloads: bool) -> Told:  # noqa: ANN401
    letter = DeadLetter.of(record)
    reason = letter.reason if payloads else letter.kind
    told = {**_shown(record, payloads=payloads), "reason": reason[:LONGEST]}
    return {**told, "source": letter.source, "pipeline": letter.pipeline, "lost": letter.lost}


def decoded(data: bytes | None) -> str | None:
    """Show bytes as people read them: text, JSON in one line, else hexadecimal; cut short.

    >>> decoded(b'{"a":1}'), decoded(bytes([0, 255])), decoded(None)
    ('{"a": 1}', '0x00ff', None)
    """
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "0x" + data[: LONGEST // 2].hex()
    with contextlib.suppress(ValueError):
        text = json.dumps(json.loads(text), ensure_ascii=False) if text[:1] in "[{" else text
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
