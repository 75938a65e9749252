"""Measurements behind design decisions; not part of the wheel."""
