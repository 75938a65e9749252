"""Running pipelines: the app file, the Spark child, and the parent that owns it."""
