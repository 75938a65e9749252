"""The benchmark: workloads on Eagre and on other systems, one load, one machine, one report.

It imports ``eagre``, which does not import it.
"""
