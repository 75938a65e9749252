"""A pipeline under load, measured from outside: load generator, meter and judge of results."""
