"""The Python side of the bridge: what runs in the worker processes.

It ships inside the companion jar and is imported from there, so that executors need nothing but
PySpark; therefore it imports nothing else of Eagre.
"""
