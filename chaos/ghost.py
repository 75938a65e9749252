"""What a run that died may have left in the output, written in its name."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from .verify import SOURCE, records, results

if TYPE_CHECKING:
    import random

LATE = 20


def write_late(brokers: str, pipeline: str, pick: random.Random) -> None:
    """Write again what a dead run wrote: as if a paused broker had let it through."""
    topic = f"chaos-{pipeline}"
    found = records(brokers, topic)
    names = [name.split() for _, _, headers, _ in found for key, name in headers if key == "eagre"]
    newest = max(int(name[1]) for name in names)
    old = [r for r in found for k, v in r[2] if k == "eagre" and int(v.split()[1]) < newest]
    producer = Producer({"bootstrap.servers": brokers})
    for partition, _, headers, value in pick.sample(old, min(LATE, len(old))):
        producer.produce(topic, value, partition=partition, headers=headers)
    producer.flush(30)


def leave_a_hole(brokers: str, pipeline: str) -> None:
    """Write what one partition of the output lacks, and not what the others lack.

    So a run leaves it that dies when the broker has taken a batch for one partition, and a batch
    for another, with rows from before and between, is still on its way.
    """
    topic = f"chaos-{pipeline}"
    homes, delivered, newest = {}, set(), ("", 0)
    for partition, _, headers, value in records(brokers, topic):
        name = dict(headers).get("eagre", b"").decode().split()
        if name:
            homes[json.loads(value)["card"]] = partition
            delivered.add(name[2])
            newest = max(newest, (name[0], int(name[1])))
    rows = records(brokers, SOURCE)
    producer = Producer({"bootstrap.servers": brokers})
    for (partition, offset, _, _), ordinal, result in results(pipeline, rows):
        position = f"{SOURCE}/{partition}/{offset}/{ordinal}"
        if homes.get(result["card"]) == 0 and position not in delivered:
            name = f"{newest[0]} {newest[1]} {position} {time.time() * 1000:.0f}"
            producer.produce(
                topic, json.dumps(result), result["card"], 0, headers=[("eagre", name.encode())]
            )
    producer.flush(30)
