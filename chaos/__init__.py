"""Fault injection for exactly-once pipelines, and an independent verifier."""
