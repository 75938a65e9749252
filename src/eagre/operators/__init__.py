"""Stateful operators that Real-Time Mode lacks, in every mode.

``docs/reference/operators.md`` describes them.
"""

from eagre.operators.deduplicate import deduplicate
from eagre.operators.join import interval_join
from eagre.operators.lookup import lookup
from eagre.operators.ranking import top_n
from eagre.operators.rolling import rolling
from eagre.operators.windows import session_windows, windows

__all__ = [
    "deduplicate",
    "interval_join",
    "lookup",
    "rolling",
    "session_windows",
    "top_n",
    "windows",
]
