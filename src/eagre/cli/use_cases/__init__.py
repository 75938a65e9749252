"""Commands about use cases: see one run, begin a project with one."""
