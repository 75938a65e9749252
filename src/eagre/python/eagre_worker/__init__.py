"""The Python worker processes.

The package ships inside the companion jar, so that executors need only PySpark. It must not import
other parts of Eagre.
"""
