"""Commands for pipelines: check, size, run, watch and stop them; their checkpoints."""
