"""Generated streams with disorder and duplicates, and plain Python oracles of the operators."""

import random
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id INT, card STRING, amount INT, country STRING, at TIMESTAMP"


def payments(seed, count, *, keys=5, grace=10, step=3.0):
    """Return events of a few keys, with bursts, gaps, duplicates and disorder up to ``grace`` s."""
    pick = random.Random(seed)
    rows, clock = [], 0.0
    for number in range(count):
        clock += pick.choice([0, 0.25, step, step, 8 * step])
        second = max(0.0, clock - pick.choice([0, 0, 0, pick.random() * grace]))
        row = {
            "id": number,
            "card": f"c{pick.randrange(keys)}",
            "amount": pick.choice([None, *range(1, 50)]),
            "country": pick.choice(["CH", "FR", "US", None]),
            "at": stamp(round(second * 1000)),
        }
        rows.append(row)
        if pick.random() < 0.15:
            rows.append(dict(row))
    return rows


def stamp(ms):
    return (START + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")


def ms(text):
    return round((datetime.fromisoformat(text) - START).total_seconds() * 1000)


def absolute_ms(text):
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def on_time(rows, key, late_ms):
    """Return the rows at most ``late_ms`` older than the newest of their key, and the others."""
    newest, timely, late = {}, [], []
    for row in rows:
        at = ms(row["at"])
        if at < newest.get(row[key], at) - late_ms:
            late.append(row)
            continue
        newest[row[key]] = max(newest.get(row[key], at), at)
        timely.append(row)
    return timely, late


def deduplicated(rows, key, within_ms):
    timely, late = on_time(rows, key, within_ms)
    passed, out = {}, []
    for row in timely:
        at = ms(row["at"])
        times = passed.setdefault(row[key], [])
        if all(abs(at - time) > within_ms for time in times):
            times.append(at)
            out.append(row)
    return out, late


def rolled(rows, key, window_ms, slices, grace_ms):
    """Return each row with the amounts and countries in its window, or None for a late row."""
    timely, _ = on_time(rows, key, grace_ms)
    accepted = {id(row) for row in timely}
    length = window_ms // slices
    seen, out = {}, []
    for row in rows:
        if id(row) not in accepted:
            out.append((row, None))
            continue
        current = absolute_ms(row["at"]) // length
        seen.setdefault(row[key], []).append((current, row))
        window = [r for number, r in seen[row[key]] if current - slices < number <= current]
        out.append((row, window))
    return out


def sessions_on_time(rows, key, gap_ms, grace_ms):
    """Return the rows whose session is open when they arrive, and the others."""
    return on_time(rows, key, gap_ms + grace_ms)
