"""Commands about the installation: what it needs, its jars, completion in shells."""
