"""The verifier: reads input and output with plain clients and compares them with the oracles.

It imports nothing from Eagre. The rule for fences is implemented again, from the documentation.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from .oracles import ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .shapes import Shape

Row = dict[str, Any]
Record = tuple[int, int, list[tuple[str, bytes]], bytes]
"""Partition, offset, headers, value."""


@dataclass
class Verdict:
    """The result of a verification; all but ``checked`` and ``void`` must be 0.

    Attributes:
        checked: Results that were expected.
        lost: Missing results.
        repeated: Duplicates, for a reader that follows the fences; only an at-least-once output may
            have them.
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

    def clean(self, *, exactly_once: bool) -> bool:
        """Whether the output keeps its promise, for a reader that follows the fences."""
        repeated = self.repeated if exactly_once else 0
        return not (self.lost or repeated or self.wrong or self.disordered)


def records(brokers: str, topic: str) -> Iterator[Record]:
    """Read a topic from its beginning to its current end, one partition after the other."""
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "chaos-verifier", "enable.auto.commit": False}
    )
    try:
        for partition in sorted(consumer.list_topics(topic, 60).topics[topic].partitions):
            yield from _partition(consumer, topic, partition)
    finally:
        consumer.close()


def _partition(consumer: Any, topic: str, partition: int) -> Iterator[Record]:  # noqa: ANN401
    begin, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 60)
    consumer.assign([TopicPartition(topic, partition, begin)])
    offset = begin - 1
    while offset < end - 1:
        message = consumer.poll(60)
        if message is None or message.error():
            raise RuntimeError(f"{topic} cannot be read: {message and message.error()}")
        offset = message.offset()
        if offset < end:
            yield partition, offset, message.headers() or [], message.value()


def input_rows(brokers: str, shape: Shape) -> dict[str, list[Row]]:
    """Return the rows of the source topics, in the order of partitions and offsets."""
    return {topic: [json.loads(r[3]) for r in records(brokers, topic)] for topic in shape.topics}


def require_acknowledged(rows: dict[str, list[Row]], acknowledged: set[int]) -> None:
    """Check that the brokers still have every record that they acknowledged."""
    present = {row.get("id", row.get("other")) for some in rows.values() for row in some}
    if missing := acknowledged - present:
        raise RuntimeError(f"the brokers lost {len(missing)} acknowledged records")


def label(shape: Shape, result: Row) -> str:
    """Return what identifies a result among those of its card."""
    return "/".join(str(plain(result.get(name))) for name in shape.label)


def plain(value: Any) -> Any:  # noqa: ANN401  (JSON)
    """Return the start of a window or session, and any other value unchanged."""
    return ms(value["start"]) if isinstance(value, dict) else value


def compare(
    shape: Shape, rows: dict[str, list[Row]], output: Iterable[Record], *, ordered: bool = True
) -> Verdict:
    """Compare an output topic with what the source topics demand."""
    verdict = Verdict()
    valid, everything = _read(output, verdict)
    if shape.latest:
        expected = newest(shape, (result for _, result in shape.expected(rows)))
        return compare_latest(expected, newest(shape, valid), verdict)
    wanted = _by_card(shape, (result for _, result in shape.expected(rows)))
    results, seen = _by_card(shape, valid), _by_card(shape, everything)
    verdict.checked = sum(map(len, wanted.values()))
    for card in sorted(wanted.keys() | results.keys()):
        _compare_card(card, wanted[card], results[card], verdict, ordered=ordered and shape.ordered)
        verdict.repeated_plain += _repeats(seen[card])
    if not shape.exactly_once:
        verdict.disordered = 0
    return verdict


def compare_latest(expected: Row, actual: Row, verdict: Verdict) -> Verdict:
    """Compare the newest values of keys: of a database, or of an output that is updated."""
    verdict.checked = len(expected)
    for key in sorted(expected.keys() | actual.keys(), key=str):
        if key not in actual:
            verdict.lost += 1
            verdict.examples.append(f"lost {key} {expected[key]}")
        elif expected.get(key) != actual[key]:
            verdict.wrong += 1
            verdict.examples.append(f"wrong {key} {actual[key]}, not {expected.get(key)}")
    return verdict


def _read(output: Iterable[Record], verdict: Verdict) -> tuple[list[Row], list[Row]]:
    """Return the results that the fences admit, and all."""
    valid, everything = [], []
    highest: dict[tuple[int, str], int] = {}
    for partition, _, headers, value in output:
        words = {name: data.decode().split(" ") for name, data in headers}
        pipeline, incarnation = (words.get("eagre-fence") or words.get("eagre") or ["", "0"])[:2]
        known = highest.get((partition, pipeline), 0)
        highest[partition, pipeline] = max(known, int(incarnation))
        if "eagre-fence" in words:
            continue
        everything.append(json.loads(value))
        if pipeline and int(incarnation) < known:
            verdict.void += 1
        else:
            valid.append(everything[-1])
    return valid, everything


def newest(shape: Shape, results: Iterable[Row]) -> dict[Any, str]:
    """Return the newest value of each key; merged sessions are gone."""
    values: dict[Any, str | None] = {}
    for result in results:
        values[tuple(plain(result[name]) for name in shape.latest)] = (
            None if result.get("status") == "merged" else label(shape, result)
        )
    return {key: value for key, value in values.items() if value is not None}


def _by_card(shape: Shape, results: Iterable[Row]) -> dict[str, list[str]]:
    cards = defaultdict(list)
    for result in results:
        cards[result["card"]].append(label(shape, result))
    return cards


def _compare_card(
    card: str, expected: list[str], actual: list[str], verdict: Verdict, *, ordered: bool
) -> None:
    expected_set, actual_set = set(expected), set(actual)
    lost, wrong = expected_set - actual_set, actual_set - expected_set
    verdict.lost += len(lost)
    verdict.wrong += len(wrong)
    verdict.repeated += _repeats(actual)
    if ordered:
        once = list(dict.fromkeys(r for r in actual if r in expected_set))
        verdict.disordered += once != [r for r in expected if r in actual_set]
    for kind, some in (("lost", lost), ("wrong", wrong), ("repeated", _repeated(actual))):
        verdict.examples += [f"{kind} {card} {text}" for text in sorted(some)[:2]]


def _repeats(labels: list[str]) -> int:
    return len(labels) - len(set(labels))


def _repeated(labels: list[str]) -> list[str]:
    return [text for text, times in Counter(labels).items() if times > 1]
