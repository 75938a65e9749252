"""Java, jars and the companion: the parts of the JVM that do not belong to Spark."""

from eagre.jvm.companion import companion_jar
from eagre.jvm.jars import class_path
from eagre.jvm.java import Java, find_java

__all__ = ["Java", "class_path", "companion_jar", "find_java"]
