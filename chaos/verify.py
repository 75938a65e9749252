"""The verifier: reads input and output with a plain consumer and computes the expected results.

It imports nothing from Eagre. The rule for fences is implemented again, from the documentation.
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
    """The result of a verification; all but ``checked`` and ``void`` must be 0.

    Attributes:
        checked: Results that were expected.
        lost: Missing results.
        repeated: Duplicates, for a reader that follows the fences.
        repeated_plain: Duplicates, for a plain reader.
        wrong: Unexpected results, such as a wrong aggregate.
        disordered: Keys whose results are in another order than their rows.
        void: Records rejected by fences.
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
        """Whether the output is correct for a reader that follows the fences."""
        return not (self.lost or self.repeated or self.wrong or self.disordered)


def records(brokers: str, topic: str) -> list[Record]:
    """Read a topic from its beginning to its current end."""
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "chaos-verifier", "enable.auto.commit": False}
    )
    partitions = list(consumer.list_topics(topic, 30).topics[topic].partitions)
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 30)[1] for p in partitions}
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    values = []
    while any(ends.values()):
        message = consumer.poll(30)
        if message is None or message.error():
            raise SystemExit(f"{topic} cannot be read: {message and message.error()}")
        partition, offset = message.partition(), message.offset()
        if offset < ends[partition]:
            values.append((partition, offset, message.headers() or [], message.value()))
        if offset >= ends[partition] - 1:
            ends[partition] = 0
    consumer.close()
    return sorted(values, key=lambda record: record[:2])


def verify(brokers: str, pipeline: str, acknowledged: set[int]) -> Verdict:
    """Compare a pipeline's output with its input."""
    rows = records(brokers, SOURCE)
    missing = acknowledged - {json.loads(value)["id"] for _, _, _, value in rows}
    if missing:
        raise SystemExit(f"the broker lost {len(missing)} acknowledged records")
    expected = defaultdict(list)
    for _, _, result in results(pipeline, rows):
        expected[result["card"]].append(_label(result))
    return _compare(expected, records(brokers, f"chaos-{pipeline}"))


def results(pipeline: str, rows: list[Record]) -> Iterator[tuple[Record, int, dict]]:
    """Yield the expected results: the row, the number of the result within it, the result."""
    return _stateless(rows) if pipeline == "stateless" else _counts(rows)


def _stateless(rows: list[Record]) -> Iterator[tuple[Record, int, dict]]:
    for record in rows:
        row = json.loads(record[3])
        for copy in range(1, 3 if row["id"] % 3 == 0 else 2):
            yield record, copy - 1, {**row, "copy": copy}


def _counts(rows: list[Record]) -> Iterator[tuple[Record, int, dict]]:
    """The rows of a card are in one partition, in order."""
    counts, sums = Counter(), Counter()
    for record in rows:
        row = json.loads(record[3])
        card = row["card"]
        counts[card] += 1
        sums[card] += row["n"]
        yield record, 0, {"card": card, "count": counts[card], "total": sums[card]}


def _label(result: dict) -> str:
    """Return a short label of a result."""
    if "copy" in result:
        return f"{result['id']}/{result['n']}/{result['copy']}"
    return f"{result['count']}/{result['total']}"


def _compare(expected: dict[str, list[str]], output: list) -> Verdict:
    verdict = Verdict(checked=sum(map(len, expected.values())))
    valid, plain = defaultdict(list), defaultdict(list)
    highest: dict[tuple[int, str], int] = {}
    for partition, _, headers, value in output:
        words = {name: data.decode().split(" ") for name, data in headers}
        fence, identity = words.get("eagre-fence"), words.get("eagre")
        pipeline, incarnation = (fence or identity)[:2]
        known = highest.get((partition, pipeline), 0)
        highest[partition, pipeline] = max(known, int(incarnation))
        if fence:
            continue
        row = json.loads(value)
        result = _label(row)
        plain[row["card"]].append(result)
        if int(incarnation) < known:
            verdict.void += 1
        else:
            valid[row["card"]].append(result)
    for card in expected.keys() | valid.keys():
        _compare_key(card, expected[card], valid[card], verdict)
        verdict.repeated_plain += _repeats(plain[card])
    return verdict


def _compare_key(card: str, expected: list[str], actual: list[str], verdict: Verdict) -> None:
    expected_set, actual_set = set(expected), set(actual)
    lost, wrong = expected_set - actual_set, actual_set - expected_set
    verdict.lost += len(lost)
    verdict.wrong += len(wrong)
    verdict.repeated += _repeats(actual)
    once = list(dict.fromkeys(r for r in actual if r in expected_set))
    verdict.disordered += once != [r for r in expected if r in actual_set]
    for kind, some in (("lost", lost), ("wrong", wrong)):
        verdict.examples += [f"{kind} {card} {label}" for label in sorted(some)[:2]]


def _repeats(labels: list[str]) -> int:
    return sum(times - 1 for times in Counter(labels).values())
