"""Commands for the installation: environment check, jars, shell completion."""
