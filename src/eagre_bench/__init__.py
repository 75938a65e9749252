"""Load and measurement: an open-loop generator and a meter, each in a process of its own."""
