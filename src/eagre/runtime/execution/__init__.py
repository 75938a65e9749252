"""One execution of a query, from its start to its end: reports, commits, failures, executors."""
