"""Reports the version of an executor's Python, and the packages that it cannot import.

``python -m eagre_worker.probe NAME...`` prints one line of JSON, and imports none of them. It runs
in old versions of Python too, to report them.
"""

import json
import sys
from importlib.util import find_spec


def main() -> None:
    """Print the report."""
    version = ".".join(str(number) for number in sys.version_info[:2])
    missing = [name for name in sys.argv[1:] if not _importable(name)]
    sys.stdout.write("\n" + json.dumps({"version": version, "missing": missing}) + "\n")


def _importable(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


if __name__ == "__main__":
    main()
