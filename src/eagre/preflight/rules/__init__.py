"""The rules, grouped by subject. Importing this package registers all of them."""

from eagre.preflight.rules import (
    checkpoints,
    latency,
    operators,
    python,
    records,
    safety,
    settings,
    sinks,
    slots,
    sources,
    state,
    topics,
)

MODULES = (
    checkpoints,
    latency,
    records,
    safety,
    sinks,
    sources,
    python,
    operators,
    settings,
    slots,
    state,
    topics,
)
"""In the order in which the rules run."""
