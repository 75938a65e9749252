"""Forwards records unchanged: the cost of a second hop through the broker."""

import json
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

AT_ONCE = 1_000


def client(job: dict[str, Any], kind: str) -> dict[str, str]:
    """Settings of one Kafka client."""
    settings = {k.removeprefix(kind): v for k, v in job["settings"].items() if k.startswith(kind)}
    return {"bootstrap.servers": job["brokers"], "log_level": "0", **settings}


def main() -> None:
    """Consume and produce, until killed."""
    job = json.loads(Path(sys.argv[1]).read_text())
    group = {"group.id": job["group"], "group.instance.id": "1", "auto.offset.reset": "earliest"}
    consumer = Consumer({**client(job, "consumer."), **group})
    producer = Producer(client(job, "producer."))
    consumer.subscribe([job["source"]])
    while True:
        first = consumer.poll(1)
        if first is None:
            continue
        for record in (first, *consumer.consume(AT_ONCE, 0)):
            if not record.error():
                producer.produce(job["sink"], record.value(), record.key())
        producer.poll(0)


if __name__ == "__main__":
    main()
