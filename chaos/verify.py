"""The verifier: reads input and output as any consumer would, and does its own arithmetic.

It imports nothing of Eagre. The rule for fences is written down here a second time, from the page.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = "chaos-in"
Record = tuple[int, int, list[tuple[str, bytes]], bytes]
"""Partition, offset, headers, value."""


@dataclass
class Verdict:
    """What was found; all but ``checked`` and ``void`` must be 0.

    Attributes:
        checked: Results that were expected.
        lost: Expected and not there.
        repeated: There more than once, for a reader that follows the fences.
        repeated_plain: There more than once, for a plain reader.
        wrong: There and not expected: a wrong aggregate, a row from nowhere.
        disordered: Results of a key that came in another order than their rows.
        void: Records that the fences shut out.
    """

    checked: int = 0
    lost: int = 0
    repeated: int = 0
    repeated_plain: int = 0
    wrong: int = 0
    disordered: int = 0
    void: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether a reader that follows the fences has nothing to complain of."""
        return not (self.lost or self.repeated or self.wrong or self.disordered)


def records(brokers: str, topic: str) -> list[Record]:
    """Read a topic from its beginning to its present end."""
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "chaos-verifier", "enable.auto.commit": False}
    )
    partitions = list(consumer.list_topics(topic, 30).topics[topic].partitions)
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 30)[1] for p in partitions}
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    found = []
    while any(ends.values()):
        message = consumer.poll(30)
        if message is None or message.error():
            raise SystemExit(f"{topic} cannot be read: {message and message.error()}")
        partition, offset = message.partition(), message.offset()
        if offset < ends[partition]:
            found.append((partition, offset, message.headers() or [], message.value()))
        if offset >= ends[partition] - 1:
            ends[partition] = 0
    consumer.close()
    return sorted(found, key=lambda record: record[:2])


def verify(brokers: str, pipeline: str, acknowledged: set[int]) -> Verdict:
    """Compare a pipeline's output with what went in."""
    rows = records(brokers, SOURCE)
    missing = acknowledged - {json.loads(value)["id"] for _, _, _, value in rows}
    if missing:
        raise SystemExit(f"the broker lost {len(missing)} acknowledged records")
    expected = defaultdict(list)
    for _, _, result in results(pipeline, rows):
        expected[result["card"]].append(_told(result))
    return _compare(expected, records(brokers, f"chaos-{pipeline}"))


def results(pipeline: str, rows: list[Record]) -> Iterator[tuple[Record, int, dict]]:
    """Give what a pipeline makes of each row: the row, the result's number in it, the result."""
    return _stateless(rows) if pipeline == "stateless" else _counts(rows)


def _stateless(rows: list[Record]) -> Iterator[tuple[Record, int, dict]]:
    for record in rows:
        row = json.loads(record[3])
        for copy in range(1, 3 if row["id"] % 3 == 0 else 2):
            yield record, copy - 1, {**row, "copy": copy}


def _counts(rows: list[Record]) -> Iterator[tuple[Record, int, dict]]:
    """A card's rows are in one partition, in the order in which they were read above."""
    counts, sums = Counter(), Counter()
    for record in rows:
        row = json.loads(record[3])
        card = row["card"]
        counts[card] += 1
        sums[card] += row["n"]
        yield record, 0, {"card": card, "count": counts[card], "total": sums[card]}


def _told(result: dict) -> str:
    """Say a result in a word."""
    if "copy" in result:
        return f"{result['id']}/{result['n']}/{result['copy']}"
    return f"{result['count']}/{result['total']}"


def _compare(expected: dict[str, list[str]], output: list) -> Verdict:
    verdict = Verdict(checked=sum(map(len, expected.values())))
    valid, plain = defaultdict(list), defaultdict(list)
    highest: dict[tuple[int, str], int] = {}
    for partition, _, headers, value in output:
        told = {name: data.decode().split(" ") for name, data in headers}
        fence, identity = told.get("eagre-fence"), told.get("eagre")
        pipeline, incarnation = (fence or identity)[:2]
        known = highest.get((partition, pipeline), 0)
        highest[partition, pipeline] = max(known, int(incarnation))
        if fence:
            continue
        row = json.loads(value)
        result = _told(row)
        plain[row["card"]].append(result)
        if int(incarnation) < known:
            verdict.void += 1
        else:
            valid[row["card"]].append(result)
    for card in expected.keys() | valid.keys():
        _compare_key(card, expected[card], valid[card], verdict)
        verdict.repeated_plain += _repeats(plain[card])
    return verdict


def _compare_key(card: str, wanted: list[str], found: list[str], verdict: Verdict) -> None:
    wanted_set, found_set = set(wanted), set(found)
    lost, wrong = wanted_set - found_set, found_set - wanted_set
    verdict.lost += len(lost)
    verdict.wrong += len(wrong)
    verdict.repeated += _repeats(found)
    once = list(dict.fromkeys(r for r in found if r in wanted_set))
    verdict.disordered += once != [r for r in wanted if r in found_set]
    for kind, some in (("lost", lost), ("wrong", wrong)):
        verdict.examples += [f"{kind} {card} {one}" for one in sorted(some)[:2]]


def _repeats(found: list[str]) -> int:
    return sum(times - 1 for times in Counter(found).values())
