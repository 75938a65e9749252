"""``eg.Sink``: a sink in Python.

Workers get these classes by value, because Eagre need not be installed on executors. So this module
imports only the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Sink:
    """A sink in Python: it writes rows to any store, in every mode.

    >>> class Pages(Sink):
    ...     def open(self):
    ...         self.pager = connect()
    ...     def write(self, rows):
    ...         for row in rows:
    ...             self.pager.send(row.card, key=row._id)
    ...     def close(self):
    ...         self.pager.close()
    >>> Pages.batch_rows
    500

    Each task has its own copy, in a Python process next to its rows. ``write`` gets the rows that
    have arrived, at most ``batch_rows``; a row never waits for others. When it returns, its rows
    are written: a commit covers only these. If it raises, the sink is closed and opened again, and
    the same rows are written again, with increasing pauses, until ``retry_for`` has passed. Then
    the pipeline fails, and restarts from its last commit. So rows are written at least once.

    A row is a PySpark ``Row`` with two more attributes: ``row._source``, the position of its
    record, and ``row._id``, which is the same when the row is written again. Both are None for rows
    without ``_source``, such as the results of an aggregation. ``_id`` is also None after a
    shuffle, a join or another operator that keeps rows.

    The object is pickled: create connections in ``open``, and not in ``__init__``.

    Attributes:
        batch_rows: How many rows ``write`` gets at most.
        timeout: How long ``write`` may take. After that, the process is replaced, and its rows are
            written again.
        retry_for: How long rows are tried again.
        memory: How much memory a worker may use.
        on_refused: What to do with a row that ``write`` refuses: ``dead-letter``, ``drop`` or
            ``fail``.
    """

    batch_rows: int = 500
    timeout: str = "30 seconds"
    retry_for: str = "1 minute"
    memory: str = "1g"
    on_refused: str = "dead-letter"

    def open(self) -> None:
        """Connect. It is called before the first write, and again after each failed one."""

    def write(self, rows: Sequence[Any]) -> Iterable[Refused] | None:
        """Write rows, and return those that the store refuses, if any."""
        raise NotImplementedError(f"{type(self).__name__} has no method write(self, rows)")

    def close(self) -> None:
        """Disconnect."""


class Refused(Exception):  # noqa: N818  (a word for users, who also return it)
    """A row that a store refuses for good, however often it is tried.

    ``write`` returns a list of them: the other rows are written. Or it raises one: the other rows
    are then written again.

    Attributes:
        row: The row.
        reason: The reason, for the dead letter.
    """

    refused = True

    def __init__(self, row: Any, reason: str) -> None:  # noqa: ANN401  (a row of any schema)
        super().__init__(reason)
        self.row = row
        self.reason = reason


class ForeachSink(Sink):
    """An object that PySpark's ``foreach`` accepts, as a sink.

    ``open``, ``process`` and ``close`` are called for each batch, because such an object may write
    its rows as late as in ``close``.
    """

    def __init__(self, target: Any) -> None:  # noqa: ANN401  (as PySpark's foreach)
        self.target = target
        self.batches = 0

    def write(self, rows: Sequence[Any]) -> None:
        """Pass each row to the object."""
        process = getattr(self.target, "process", self.target)
        enter = getattr(self.target, "open", None)
        leave = getattr(self.target, "close", None)
        self.batches += 1
        accepts = enter is None or enter(0, self.batches)
        try:
            for row in rows if accepts else ():
                process(row)
        except Exception as error:
            if leave is not None:
                leave(error)
            raise
        if leave is not None:
            leave(None)
