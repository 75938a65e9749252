"""Measurements for the project's own decisions; not in the wheel."""
