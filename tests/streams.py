"""Generated streams with disorder and duplicates, and plain Python oracles of the operators."""

import random
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id INT, card STRING, amount INT, country STRING, at TIMESTAMP"


def payments(seed, count, *, keys=5, grace=10, step=3.0):
    """Events of a few keys: bursts, gaps, disorder up to a grace in seconds, and repeats."""
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
    """The rows that are no older than their key's newest by more than a time, and the others."""
    newest, kept, late = {}, [], []
    for row in rows:
        at = ms(row["at"])
        if at < newest.get(row[key], at) - late_ms:
            late.append(row)
            continue
        newest[row[key]] = max(newest.get(row[key], at), at)
        kept.append(row)
    return kept, late


def deduplicated(rows, key, within_ms):
    kept, late = on_time(rows, key, within_ms)
    passed, out = {}, []
    for row in kept:
        at = ms(row["at"])
        times = passed.setdefault(row[key], [])
        if all(abs(at - time) > within_ms for time in times):
            times.append(at)
            out.append(row)
    return out, late


def rolled(rows, key, window_ms, slices, grace_ms):
    """Each row with the amounts and countries in its window, or None for a late one."""
    kept, _ = on_time(rows, key, grace_ms)
    taken = {id(row) for row in kept}
    length = window_ms // slices
    seen, out = {}, []
    for row in rows:
        if id(row) not in taken:
            out.append((row, None))
            continue
        mine = absolute_ms(row["at"]) // length
        seen.setdefault(row[key], []).append((mine, row))
        window = [r for number, r in seen[row[key]] if mine - slices < number <= mine]
        out.append((row, window))
    return out


def sessions_on_time(rows, key, gap_ms, grace_ms):
    """The rows whose session is not over when they come, and the others."""
    return on_time(rows, key, gap_ms + grace_ms)
