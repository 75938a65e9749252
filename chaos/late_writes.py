"""Writes that a dead run may have left in the output, imitated."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from .shapes import SOURCE
from .verify import records

if TYPE_CHECKING:
    import random

    from .shapes import Shape

LATE = 20


def write_late(brokers: str, shape: Shape, pick: random.Random) -> None:
    """Write results of a dead run again, as if a paused broker had delayed them."""
    topic = f"chaos-{shape.name}"
    written = list(records(brokers, topic))
    names = [
        name.split() for _, _, headers, _ in written for key, name in headers if key == "eagre"
    ]
    newest = max(int(name[1]) for name in names)
    old = [r for r in written for k, v in r[2] if k == "eagre" and int(v.split()[1]) < newest]
    producer = Producer({"bootstrap.servers": brokers})
    for partition, _, headers, value in pick.sample(old, min(LATE, len(old))):
        producer.produce(topic, value, partition=partition, headers=headers)
    producer.flush(30)


def leave_a_gap(brokers: str, shape: Shape) -> None:
    """Write the missing results of one partition only.

    A run leaves this state when it dies after the broker has accepted a batch for one partition,
    while a batch for another, with earlier rows, is still in flight.
    """
    topic = f"chaos-{shape.name}"
    homes, delivered, newest = {}, set(), ("", 0)
    for partition, _, headers, value in records(brokers, topic):
        name = dict(headers).get("eagre", b"").decode().split()
        if name:
            homes[json.loads(value)["card"]] = partition
            delivered.add(name[2])
            newest = max(newest, (name[0], int(name[1])))
    rows = [
        {**json.loads(value), "_place": f"{SOURCE}/{partition}/{offset}"}
        for partition, offset, _, value in records(brokers, SOURCE)
    ]
    producer = Producer({"bootstrap.servers": brokers})
    ordinals: Counter[str] = Counter()
    for row, result in shape.expected({SOURCE: rows}):
        position = f"{row['_place']}/{ordinals[row['_place']]}"
        ordinals[row["_place"]] += 1
        if homes.get(result["card"]) == 0 and position not in delivered:
            header = f"{newest[0]} {newest[1]} {position} {time.time() * 1000:.0f}"
            producer.produce(
                topic, json.dumps(result), result["card"], 0, headers=[("eagre", header.encode())]
            )
    producer.flush(30)
