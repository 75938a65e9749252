"""The rules, by what they are about. Importing this fills the register."""

from eagre.preflight.rules import (
    checkpoints,
    latency,
    records,
    safety,
    shapes,
    slots,
    state,
    topics,
)

MODULES = (shapes, slots, state, checkpoints, records, topics, latency, safety)
