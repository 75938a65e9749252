"""Generate telemetry: mostly healthy, storms of one error; late, repeated and broken records."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

TOPIC = "telemetry"
RATE = 500
SERVICES = 500
HOSTS = 12
ERRORS = {
    "timeout after {} ms": "ERROR",
    "order {} could not be booked": "ERROR",
    "the database refused connection {}": "ERROR",
    "no such session: {}": "ERROR",
    "worker {} is out of memory": "FATAL",
}
METRICS = {"cpu": (0.4, 0.97), "latency_ms": (80.0, 2_500.0), "queue": (60.0, 20_000.0)}
ILL, NEW_STORM, REPEATED, BROKEN = 0.2, 0.02, 0.01, 0.001


def events(random: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield keys and events forever; ``late_ms`` becomes the event time, ``news`` marks alerts."""
    cluster = f"eu-{random.getrandbits(24):06x}"
    storms = [storm(random)]
    seen: Counter[tuple[str, str]] = Counter()
    while True:
        if random.random() < NEW_STORM or not storms:
            storms.append(storm(random))
        wrong = random.choice(storms) if random.random() < ILL else None
        event = ill(random, wrong) if wrong else well(random)
        event |= {"cluster": cluster, "late_ms": random.choice((0, 0, 0, random.randrange(3_000)))}
        if random.random() < BROKEN:
            event["value"] = "n/a"
        for mark in [{}, {"copy": True}] if random.random() < REPEATED else [{}]:
            if wrong and event["value"] != "n/a":
                seen[wrong["service"], wrong["what"]] += 1
                event["news"] = is_news(seen[wrong["service"], wrong["what"]])
            yield event["service"], {**event, **mark}
        if wrong:
            wrong["left"] -= 1
            storms = [active for active in storms if active["left"] > 0]


def storm(random: Random) -> dict[str, Any]:
    """Create a problem of a service: a few records, or several thousand."""
    return {
        "service": f"service-{random.randrange(SERVICES):03d}",
        "what": random.choice([*ERRORS, *METRICS]),
        "left": min(5_000, int(3 * random.paretovariate(1.3))),
    }


def service(random: Random) -> str:
    """Choose a service; a few are much busier than the others."""
    return f"service-{int(random.paretovariate(0.6)) % SERVICES:03d}"


def ill(random: Random, wrong: dict[str, Any]) -> dict[str, Any]:
    """Create a record of a storm."""
    what = wrong["what"]
    if what in METRICS:
        return record(random, wrong["service"], metric=what, value=METRICS[what][1])
    message = what.format(random.randrange(100_000))
    return record(random, wrong["service"], level=ERRORS[what], message=message)


def well(random: Random) -> dict[str, Any]:
    """Create a record of a healthy service."""
    if random.random() < 0.6:
        message = f"request {random.getrandbits(32)} took {random.randrange(90)} ms"
        return record(random, service(random), level="INFO", message=message)
    metric = random.choice(list(METRICS))
    value = METRICS[metric][0] * random.uniform(0.5, 1.5)
    return record(random, service(random), metric=metric, value=round(value, 3))


def record(random: Random, name: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Create a log line or a metric; the other fields are null."""
    empty = dict.fromkeys(("level", "message", "metric", "value"))
    return {**empty, "service": name, "host": f"host-{random.randrange(HOSTS):02d}", **fields}


def is_news(records: int) -> bool:
    """Return whether the app reports an incident with this many records: 1, 10, 100, ..."""
    return str(records).strip("0") == "1"


def expects(event: dict[str, Any]) -> bool:
    """Return whether the event must have a result: the 1st, 10th, 100th ... of an incident."""
    return bool(event.get("news")) and event["value"] != "n/a"
