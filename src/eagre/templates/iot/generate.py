"""Generate readings: busy and quiet devices, faults, silence; late, repeated and broken records."""

from collections.abc import Iterator
from random import Random
from typing import Any

TOPIC = "readings"
RATE = 200
DEVICES, BUSY = 300, 20
REPEAT_NOW, FAULTY, REPEATED, BROKEN, SILENT = 0.2, 0.002, 0.01, 0.001, 0.0002
SILENT_EVENTS = 25_000


def events(random: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield keys and events forever; ``late_ms`` becomes the event time, ``copy`` marks repeats."""
    silent: dict[int, int] = {}
    repeats: list[dict[str, Any]] = []
    number = 0
    while True:
        number += 1
        device = random.randrange(BUSY if random.random() < 0.5 else DEVICES)
        if silent.get(device, 0) > number:
            continue
        if random.random() < SILENT:
            silent[device] = number + SILENT_EVENTS
        event = reading(random, device)
        yield event["device"], event
        if random.random() < REPEATED:
            repeats.append({**event, "copy": True})
        if repeats and random.random() < REPEAT_NOW:
            copy = repeats.pop(0)
            yield copy["device"], copy


def reading(random: Random, device: int) -> dict[str, Any]:
    """Create a reading; each device has its own level and noise, and a fault is far off."""
    level, noise = 20.0 + device % 7 * 15, 0.2 + device % 5 * 0.3
    fault = random.random() < FAULTY
    off = random.choice((-1, 1)) * random.uniform(12, 60) if fault else random.gauss(0, 1)
    return {
        "id": random.getrandbits(50),
        "device": f"device-{device:03d}",
        "value": "n/a" if random.random() < BROKEN else round(level + noise * off, 3),
        "late_ms": random.choice((0, 0, 0, random.randrange(5_000))),
        "fault": fault,
    }


def expects(event: dict[str, Any]) -> bool:
    """Return whether the event must have a result: not if repeated or unparsable."""
    return not event.get("copy") and event["value"] != "n/a"
