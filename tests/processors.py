"""Stateful processors for the tests, in a separate module that Spark's workers can import."""

import time

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

OUTPUT = "key STRING, total LONG, text STRING, items ARRAY<INT>, entries MAP<STRING, INT>"


class Sum(StatefulProcessor):
    """A sum for each key."""

    def __init__(self, ttl_ms=None, *, twice=False, bad=False):
        self.ttl_ms, self.twice, self.bad = ttl_ms, twice, bad

    def init(self, handle):
        if self.bad:
            raise ValueError("no model here")
        self.total = handle.getValueState("total", "n LONG", self.ttl_ms)
        if self.twice:
            handle.getListState("total", "n LONG")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            value = self.total.get()
            total = (value[0] if value else 0) + row.n
            self.total.update((total,))
            yield key[0], total, row.do, [], {}

    def close(self):
        pass


class Totals(Sum):
    """The sum only, for keys of any type."""

    def handleInputRows(self, key, rows, timerValues):
        for values in super().handleInputRows(key, rows, timerValues):
            yield values[:2]


class ConnectionFails(StatefulProcessor):
    """Raises a connection error for one of its keys."""

    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            if row.n == 3:
                raise ConnectionRefusedError("connection refused")
            yield Row(n=row.n)

    def close(self):
        pass


class RenamesState(Sum):
    """A sum in another state variable; the old variable is removed."""

    def init(self, handle):
        handle.deleteIfExists("total")
        self.total = handle.getValueState("sum", "n LONG")


class SumFromInitialState(Sum):
    """A sum that starts from initial state."""

    def handleInitialState(self, key, initialState, timerValues):
        self.total.update((initialState.start,))


class AllState(StatefulProcessor):
    """Runs the state operation that a row names, and returns all state after it."""

    def __init__(self, ttl_ms=None):
        self.ttl_ms = ttl_ms

    def init(self, handle):
        self.total = handle.getValueState("total", "n LONG, last STRING", self.ttl_ms)
        self.items = handle.getListState("items", "n INT", self.ttl_ms)
        self.entries = handle.getMapState("entries", "name STRING", "n INT", self.ttl_ms)

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            getattr(self, row.do)(row)
            yield self.all_state(key, row)

    def all_state(self, key, row):
        value = self.total.get() if self.total.exists() else None
        text = f"{row.do} {value[1] if value else None}"
        items = [item[0] for item in self.items.get()] if self.items.exists() else []
        entries = {name[0]: entry[0] for name, entry in self.entries.iterator()}
        names = self.entries.keys()
        assert sorted(entries) == sorted(name[0] for name in names)
        assert sorted(entries.values()) == sorted(entry[0] for entry in self.entries.values())
        total = value[0] if value else -1
        return Row(key=key[0], total=total, text=text, items=items, entries=entries)

    def add(self, row):
        value = self.total.get()
        self.total.update(((value[0] if value else 0) + row.n, row.do))

    def append(self, row):
        self.items.appendValue((row.n,))
        self.items.appendList([(row.n + 1,), (row.n + 2,)])
        if row.n % 7 == 0:
            self.items.put([(row.n,)])

    def put(self, row):
        name = (f"e{row.n % 4}",)
        value = self.entries.getValue(name) if self.entries.containsKey(name) else None
        self.entries.updateValue(name, ((value[0] if value else 0) + row.n,))

    def remove(self, row):
        name = (f"e{row.n % 4}",)
        if self.entries.containsKey(name):
            self.entries.removeKey(name)

    def clear(self, row):
        (self.total, self.items, self.entries)[row.n % 3].clear()

    def read(self, row):
        pass

    def refuse(self, row):
        self.add(row)
        self.append(row)
        self.put(row)
        raise ValueError(f"row {row.n} is refused")

    def close(self):
        pass


class Timers(StatefulProcessor):
    """Sets, lists and deletes timers; emits a row when one expires."""

    def __init__(self, *, event=False):
        self.event = event

    def init(self, handle):
        self.handle = handle
        self.last = handle.getValueState("last", "at LONG")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            if row.do == "set":
                at = self.now(row, timerValues) + row.n
                self.handle.registerTimer(at)
                self.last.update((at,))
                yield Row(key=key[0], total=at, text="set", items=[], entries={})
            elif row.do == "list":
                yield key[0], len(list(self.handle.listTimers())), "listed", [], {}
            elif row.do == "delete":
                self.handle.deleteTimer(self.last.get()[0])
            else:
                yield Row(key=key[0], total=0, text=row.do, items=[], entries={})

    def now(self, row, timer_values):
        if self.event:
            return int(row.at.timestamp() * 1000)
        return timer_values.getCurrentProcessingTimeInMs()

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        at = expiredTimerInfo.getExpiryTimeInMs()
        yield Row(key=key[0], total=at, text="expired", items=[], entries={})

    def close(self):
        pass


class Stamped(StatefulProcessor):
    """Passes on its rows with their event time."""

    def init(self, handle):
        self.seen = handle.getValueState("seen", "n LONG")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            yield Row(key=row.key, n=row.n, do=row.do, at=row.at)

    def close(self):
        pass


class FailingTimers(Timers):
    """Raises when a timer expires."""

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        raise ValueError("too late")


class OpenedAt(Sum):
    """Emits the time at which it was opened."""

    def init(self, handle):
        super().init(handle)
        self.opened_at = time.time_ns()

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            yield key[0], row.n, str(self.opened_at), [], {}
