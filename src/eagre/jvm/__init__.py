"""Java, jars and the companion: everything of the JVM that is not Spark's own."""

from eagre.jvm.companion import companion_jar
from eagre.jvm.jars import class_path
from eagre.jvm.java import Java, find_java

__all__ = ["Java", "class_path", "companion_jar", "find_java"]
