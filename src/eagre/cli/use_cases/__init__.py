"""Commands for use cases: run a demo, create a project."""
