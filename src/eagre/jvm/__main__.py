"""``python -m eagre.jvm``: checks for a JDK to build with; needs no installed packages."""

import sys

from eagre.errors import JvmError
from eagre.jvm.java import find_jdk

try:
    jdk = find_jdk()
    sys.stderr.write(f"eagre: using Java {jdk.release} in {jdk.home}\n")
except JvmError as error:
    sys.exit(f"eagre: {error}")
