"""The systems under test: one job for each, in its own environment (README.md has the contract)."""
