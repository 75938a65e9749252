"""A soak: the six use cases for hours, with faults, and what grows meanwhile."""
