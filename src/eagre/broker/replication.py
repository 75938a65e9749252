"""End offsets after which no record of a dead producer can appear any more.

Kafka tells clients the *high watermark*: the end of what every in-sync replica has. The leader may
hold more, which becomes visible when the followers have it. There is no request for the end of a
leader's log, but a fetch tells it: beyond the log it is out of range, while between the high
watermark and the end of the log it waits for records.
"""

from __future__ import annotations

import itertools
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from eagre.errors import BrokerError
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eagre.broker.topics import Offsets, Topics

    Places = dict[tuple[str, int], int]

REPLICATION_SECONDS = 120
"""A follower that is slower loses its place among the in-sync replicas (by default after 30 s)."""
PROBE_SECONDS = 1.0
POLL_SECONDS = 0.1
NOT_AUTHORIZED = "TOPIC_AUTHORIZATION_FAILED"


def replicated_ends(topics: Topics, names: Iterable[str]) -> Offsets:
    """Wait until all records that the leaders hold now are visible; return the end offsets then.

    Raises:
        BrokerError: The followers do not copy them in time, or the topics cannot be read.
    """
    wanted = list(names)
    if not wanted:
        return {}
    with closing(_consumer(topics)) as consumer:
        rounds = _Rounds(topics, wanted, consumer)
        try:
            return wait_until(rounds.next, REPLICATION_SECONDS, "")
        except TimeoutError:
            raise rounds.too_slow() from None


def _consumer(topics: Topics) -> Any:  # noqa: ANN401  (librdkafka's consumer has no types)
    from confluent_kafka import Consumer

    settings = {
        "group.id": "eagre-fence",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    }
    return Consumer({**topics.client_settings, **settings})


class _Rounds:
    """Compares the high watermarks with the ends of the leaders' logs, until they meet.

    If other producers write all the time, they may never meet. Therefore every other round looks
    further ahead, twice as far each time: once it finds the end of the log, it is enough that the
    high watermark comes that far.
    """

    def __init__(self, topics: Topics, names: list[str], consumer: Any) -> None:  # noqa: ANN401
        self._topics = topics
        self._names = names
        self._consumer = consumer
        self._steps = _steps()
        self._limits: Places = {}
        self._pending: Places = {}

    def next(self) -> Offsets:
        """Return the end offsets if each is at a limit that its log had not passed; else none."""
        ends = self._topics.ends(self._names)
        self._pending = self._below_limit(ends)
        if self._pending:
            step = next(self._steps)
            probed = {at: end + step for at, end in self._pending.items()}
            for at in beyond_log(self._consumer, probed):
                self._limits[at] = min(self._limits.get(at, probed[at]), probed[at] - 1)
            self._pending = self._below_limit(ends)
        return {} if self._pending else ends

    def _below_limit(self, ends: Offsets) -> Places:
        places = {(topic, p): end for topic, by in ends.items() for p, end in by.items()}
        return {at: end for at, end in places.items() if end < self._limits.get(at, end + 1)}

    def too_slow(self) -> BrokerError:
        """Describe the partitions whose followers are too slow."""
        where = ", ".join(f"{topic}/{p}" for topic, p in sorted(self._pending)[:5])
        return BrokerError(
            "OUTPUT_NOT_REPLICATED",
            f"the leader of {where} holds records that its followers have not copied for "
            f"{REPLICATION_SECONDS} s.",
            hint="compare the topic's in-sync replicas with its min.insync.replicas; when the "
            "followers are back, start the run again.",
        )


def _steps() -> Iterator[int]:
    """Yield how far beyond the high watermark to look: 1, 2, 1, 4, 1, 8 and so on."""
    for power in itertools.count(1):
        yield 1
        yield 2 ** min(power, 30)  # an offset is a 64-bit integer


def beyond_log(consumer: Any, offsets: Places) -> set[tuple[str, int]]:  # noqa: ANN401
    """Return those partitions whose log ends before the given offset; others may not answer.

    Raises:
        BrokerError: An ACL forbids to read a topic.
    """
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition(topic, p, offset) for (topic, p), offset in offsets.items()])
    answers: dict[tuple[str, int], bool] = {}
    deadline = time.monotonic() + PROBE_SECONDS
    while len(answers) < len(offsets) and time.monotonic() < deadline:
        record = consumer.poll(POLL_SECONDS)
        at = (record.topic(), record.partition()) if record else None
        if at in offsets:
            answers[at] = answers.get(at, False) or _is_beyond(record, offsets[at])
    return {at for at, beyond in answers.items() if beyond}


def _is_beyond(record: Any, offset: int) -> bool:  # noqa: ANN401
    error = record.error().name() if record.error() else ""
    if error == NOT_AUTHORIZED:
        raise BrokerError(
            "TOPIC_NOT_AUTHORIZED",
            f"topic {record.topic()!r} cannot be read: an ACL does not allow it to this client.",
            hint="exactly once reads what a previous run has written: allow its user to read the "
            "topic.",
        )
    return error == "_AUTO_OFFSET_RESET" and record.offset() == offset
