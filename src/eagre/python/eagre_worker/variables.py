"""The state variables of a key as a call sees them: PySpark's value, list and map state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .layout import WrongTypeError
from .rows import Rows
from .session import (
    ASK_ENTRY,
    ASK_LIST,
    ASK_MAP,
    CLEAR,
    LIST_APPEND,
    LIST_CLEAR,
    LIST_PUT,
    MAP_CLEAR,
    MAP_PUT,
    MAP_REMOVE,
    UPDATE,
    RevertibleState,
    Session,
)
from .wire import COUNT, FLAG, block, blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import types as T


class Variable(RevertibleState):
    """A state variable: rows of one schema, with an index in the session."""

    def __init__(self, session: Session, index: int, spec: dict[str, Any]) -> None:
        self._session = session
        self._index = index
        self._name = spec["name"]
        self._rows = Rows(spec["schema"])

    def _encode(self, value: Any) -> bytes:  # noqa: ANN401  (checked by the codec)
        return self._named("value", self._rows, value)

    def _named(self, part: str, rows: Rows, value: Any) -> bytes:  # noqa: ANN401  (as above)
        """Encode a row, and name this variable if it has the wrong type."""
        try:
            return rows.encode(value)
        except WrongTypeError as error:
            raise WrongTypeError(f"a {part} of the state {self._name!r}: {error}") from None


class Value(Variable):
    """``ValueState``: its value arrives with the call."""

    _data: bytes | None = None

    def load(self, data: bytes | None) -> None:
        """Load the value that arrived with the call."""
        self._data = data

    def forget(self) -> None:
        """Reset before a call; ``load`` follows."""
        self._data = None

    def saved(self) -> Any:  # noqa: ANN401
        """Return a snapshot for ``restore``."""
        return self._data

    def restore(self, saved: Any) -> None:  # noqa: ANN401
        """Undo the changes since ``saved``."""
        self._data = saved

    def exists(self) -> bool:
        """Return whether the key has a value."""
        return self._data is not None

    def get(self) -> T.Row | None:
        """Return the key's value, or None."""
        return None if self._data is None else self._rows.decode(self._data)

    def update(self, newValue: Any) -> None:  # noqa: ANN401, N803  (PySpark's name)
        """Set the key's value."""
        self._data = self._encode(newValue)
        self._session.change(UPDATE, self._index, block(self._data))

    def clear(self) -> None:
        """Remove the key's value."""
        self._data = None
        self._session.change(CLEAR, self._index)


class List(Variable):
    """``ListState``: its elements are fetched when they are read."""

    def forget(self) -> None:
        """Reset before a call."""
        self._known: list[bytes] | None = None
        self._more: list[bytes] = []

    def saved(self) -> Any:  # noqa: ANN401
        """Return a snapshot for ``restore``."""
        return self._known, list(self._more)

    def restore(self, saved: Any) -> None:  # noqa: ANN401
        """Undo the changes since ``saved``."""
        self._known, self._more = saved

    def _all(self) -> list[bytes]:
        if self._known is None:
            reply = self._session.ask(ASK_LIST, self._index)
            self._known = [reply.block() for _ in range(reply.take(COUNT)[0])]
        return self._known + self._more

    def exists(self) -> bool:
        """Return whether the key has elements."""
        return bool(self._more) or bool(self._all())

    def get(self) -> Iterator[T.Row]:
        """Return the key's elements."""
        return map(self._rows.decode, self._all())

    def put(self, newState: Iterable[Any]) -> None:  # noqa: N803  (PySpark's name)
        """Replace the key's elements."""
        encoded = self._encoded(newState)
        self._known, self._more = encoded, []
        self._session.change(LIST_PUT, self._index, blocks(encoded))

    def appendValue(self, newState: Any) -> None:  # noqa: ANN401, N802, N803
        """Add an element."""
        self.appendList([newState])

    def appendList(self, newState: Iterable[Any]) -> None:  # noqa: N802, N803
        """Add elements."""
        more = self._encoded(newState)
        self._more = self._more + more
        self._session.change(LIST_APPEND, self._index, blocks(more))

    def clear(self) -> None:
        """Remove the key's elements."""
        self._known, self._more = [], []
        self._session.change(LIST_CLEAR, self._index)

    def _encoded(self, values: Iterable[Any]) -> list[bytes]:
        encoded = [self._encode(value) for value in values]
        if not encoded:
            raise ValueError("a list state does not accept an empty list; use clear()")
        return encoded


class Map(Variable):
    """``MapState``: fetches single entries on access, and all of them for iteration."""

    def __init__(self, session: Session, index: int, spec: dict[str, Any]) -> None:
        super().__init__(session, index, spec)
        self._keys = Rows(spec["key"])
        self._single = len(spec["key"]["fields"]) == 1

    def forget(self) -> None:
        """Reset before a call."""
        self._known: dict[bytes, bytes | None] = {}
        self._complete = False

    def saved(self) -> Any:  # noqa: ANN401
        """Return a snapshot for ``restore``."""
        return dict(self._known), self._complete

    def restore(self, saved: Any) -> None:  # noqa: ANN401
        """Undo the changes since ``saved``."""
        known, self._complete = saved
        self._known = dict(known)

    def _entry(self, key: Any) -> bytes | None:  # noqa: ANN401  (checked by the codec)
        name = self._key(key)
        if name not in self._known and not self._complete:
            reply = self._session.ask(ASK_ENTRY, self._index, block(name))
            self._known[name] = reply.block() if reply.take(FLAG)[0] else None
        return self._known.get(name)

    def _key(self, key: Any) -> bytes:  # noqa: ANN401  (checked by the codec)
        """Encode a key; a plain string is the key of one field."""
        plain = self._single and isinstance(key, str)
        return self._named("key", self._keys, (key,) if plain else key)

    def _all(self) -> dict[bytes, bytes]:
        if not self._complete:
            reply = self._session.ask(ASK_MAP, self._index)
            pairs = [(reply.block(), reply.block()) for _ in range(reply.take(COUNT)[0])]
            self._known = {**dict(pairs), **self._known}
            self._complete = True
        return {name: value for name, value in self._known.items() if value is not None}

    def exists(self) -> bool:
        """Return whether the key has entries."""
        return bool(self._all())

    def getValue(self, key: Any) -> T.Row | None:  # noqa: ANN401, N802
        """Return the value of an entry, or None."""
        value = self._entry(key)
        return None if value is None else self._rows.decode(value)

    def containsKey(self, key: Any) -> bool:  # noqa: ANN401, N802
        """Return whether the entry exists."""
        return self._entry(key) is not None

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: ANN401, N802
        """Set an entry."""
        name, data = self._key(key), self._encode(value)
        self._known[name] = data
        self._session.change(MAP_PUT, self._index, block(name) + block(data))

    def iterator(self) -> Iterator[tuple[T.Row, T.Row]]:
        """Return all entries."""
        pairs = list(self._all().items())
        return ((self._keys.decode(name), self._rows.decode(value)) for name, value in pairs)

    def keys(self) -> Iterator[T.Row]:
        """Return the keys of all entries."""
        return map(self._keys.decode, list(self._all()))

    def values(self) -> Iterator[T.Row]:
        """Return the values of all entries."""
        return map(self._rows.decode, list(self._all().values()))

    def removeKey(self, key: Any) -> None:  # noqa: ANN401, N802
        """Remove an entry."""
        name = self._key(key)
        self._known[name] = None
        self._session.change(MAP_REMOVE, self._index, block(name))

    def clear(self) -> None:
        """Remove all entries."""
        self._known, self._complete = {}, True
        self._session.change(MAP_CLEAR, self._index)
