"""The workloads by name: ``eagre_bench.workloads:python_map`` is ``python-map.toml``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre_bench.workload import names, workload

if TYPE_CHECKING:
    from eagre_bench.workload import Workload


def __getattr__(name: str) -> Workload:
    known = {name.replace("-", "_"): name for name in names()}
    if name not in known:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return workload(known[name])
