"""Readings as they come: chatty devices and quiet ones, faults, silence, late, repeated, broken."""

from collections.abc import Iterator
from random import Random
from typing import Any

TOPIC = "readings"
RATE = 200
DEVICES, CHATTY = 300, 20
SOON, FAULTY, REPEATED, BROKEN, SILENT = 0.2, 0.002, 0.01, 0.001, 0.0002
REST = 25_000


def events(random: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a key and an event, for ever; ``late_ms`` becomes its time, ``copy`` marks repeats."""
    silent: dict[int, int] = {}
    again: list[dict[str, Any]] = []
    number = 0
    while True:
        number += 1
        device = random.randrange(CHATTY if random.random() < 0.5 else DEVICES)
        if silent.get(device, 0) > number:
            continue
        if random.random() < SILENT:
            silent[device] = number + REST
        event = reading(random, device)
        yield event["device"], event
        if random.random() < REPEATED:
            again.append({**event, "copy": True})
        if again and random.random() < SOON:
            copy = again.pop(0)
            yield copy["device"], copy


def reading(random: Random, device: int) -> dict[str, Any]:
    """One reading; each device has a level and a noise of its own, a fault is far off."""
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
    """Tell whether a result must come: not of a repeat, nor of a record that cannot be read."""
    return not event.get("copy") and event["value"] != "n/a"
