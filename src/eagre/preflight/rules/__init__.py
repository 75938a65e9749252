"""The rules, by what they are about. Importing this fills the register."""

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
"""In the order in which they are looked for."""
