"""The app file, before Spark has started: which files define their pipelines without a session."""

import subprocess
import sys

import pytest

PIPELINE = """
import eagre as eg
{globals}
@eg.pipeline(source=eg.Kafka("in", schema="n INT"), sink=eg.Kafka("out"))
def numbers(df):
    return df.where({condition})
"""
CAUGHT = """
from pyspark.sql import functions as F
try:
    large = F.col('n') > 9
except Exception:
    raise {}
"""
LOAD = """
import sys
from pathlib import Path
from eagre.runtime.app import App

found = App(Path(sys.argv[1])).pipelines_before_spark()
from pyspark import SparkContext
print([p.name for p in found] if found else found, SparkContext._active_spark_context)
"""


@pytest.mark.parametrize(
    ("statements", "condition", "expected"),
    [
        ("", '"n > 0"', "['numbers'] None"),
        ("from pyspark.sql import functions as F\nlarge = F.col('n') > 9", "large", "None None"),
        ("spark = eg.session()", '"n > 0"', "None None"),
        (
            "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()",
            '"n > 0"',
            "None None",
        ),
        ("from pyspark import SparkContext\ncontext = SparkContext()", '"n > 0"', "None None"),
        (
            "from pyspark.sql import SparkSession\nspark = SparkSession.getActiveSession()",
            '"n > 0"',
            "None None",
        ),
        (
            CAUGHT.format("ValueError('no column') from None"),
            "large",
            "None None",
        ),
        (
            CAUGHT.format("SystemExit(3)"),
            "large",
            "None None",
        ),
    ],
    ids=["plain", "column", "eg.session", "builder", "context", "active", "reraised", "exit"],
)
def test_a_file_that_needs_a_session_is_left_for_later(tmp_path, statements, condition, expected):
    """Without this, such a file would start a session without the settings of the run."""
    path = tmp_path / "app.py"
    path.write_text(PIPELINE.format(globals=statements, condition=condition))
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected


def test_an_error_of_the_file_itself_is_reported_before_spark_starts(tmp_path):
    path = tmp_path / "app.py"
    path.write_text("x = 1 / 0\n")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, check=False
    )
    assert "APP_RAISED" in done.stderr
    assert "line 1" in done.stderr


def test_modules_of_the_app_are_run_again_with_a_session(tmp_path):
    """A module that registers something at import would otherwise find it registered."""
    (tmp_path / "registry_of_app.py").write_text("names = []\n")
    path = tmp_path / "app.py"
    path.write_text(
        "import registry_of_app\n"
        "from pyspark.sql import functions as F\n"
        "assert not registry_of_app.names\n"
        "registry_of_app.names.append('me')\n"
        "large = F.col('n') > 9\n"
    )
    code = LOAD + "\nprint('registry_of_app' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["None", "None", "False"]
