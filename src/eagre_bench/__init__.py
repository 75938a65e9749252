"""The benchmark: workloads on Eagre and on other systems, one load, one machine, one report.

It imports ``eagre``; nothing of ``eagre`` imports it.
"""
