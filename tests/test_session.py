import logging
import os
import shlex
import subprocess
import sys
from importlib import import_module

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import eagre as eg
from eagre.errors import JvmError, SettingsError
from eagre.jvm import archive as archives
from eagre.jvm import gateway
from eagre.profile import PROFILE
from eagre.session import IN_PROCESS_SHUFFLE


@pytest.fixture(autouse=True)
def archive(monkeypatch, tmp_path):
    """The path of the start-up archive; it does not exist until a test writes it."""
    path = tmp_path / "java.archive"
    monkeypatch.setattr(import_module("eagre.session"), "archive", lambda: path)
    return path


@pytest.fixture
def builder(monkeypatch):
    monkeypatch.setattr(import_module("eagre.session"), "_reported", set())
    return SparkSession.builder


def options(builder):
    return builder._options  # noqa: SLF001  (what a session would be started with)


def test_the_profile_is_applied(builder):
    stated = options(eg.configure(builder))
    assert all(stated[setting.key] == setting.value for setting in PROFILE)
    assert stated["spark.master"] == "local[64]"
    assert stated["spark.driver.bindAddress"] == "127.0.0.1"


def test_a_setting_selects_the_profile(builder, monkeypatch):
    assert options(eg.configure(builder))["spark.eagre.profile"] == "latency"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.eagre.profile=throughput pyspark-shell")
    builder._options.clear()  # noqa: SLF001  (what the first call stated)
    assert options(eg.configure(builder))["spark.eagre.profile"] == "throughput"
    with pytest.raises(SettingsError, match="no profile 'speed'") as caught:
        eg.configure(builder.config("spark.eagre.profile", "speed"))
    assert "latency or throughput" in str(caught.value.hint)


def test_user_settings_override_the_profile_and_are_reported_once(builder, caplog):
    key = "spark.sql.shuffle.partitions"
    profile = next(s for s in PROFILE if s.key == key)
    with caplog.at_level(logging.WARNING, "eagre"):
        eg.configure(builder.config(key, "8").master("local[3]"))
        eg.configure(builder.config(key, "8"))
    assert options(builder)[key] == "8"
    assert options(builder)["spark.master"] == "local[3]"
    assert [r.getMessage() for r in caplog.records if key in r.getMessage()] == [
        f"you set {key} to 8; the profile uses {profile.value}. {profile.reason}"
    ]


def test_spark_defaults_conf_overrides_the_profile(builder, tmp_path, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\nspark.sql.shuffle.partitions  5\nspark.ui.enabled=true\n"
        "spark.driver.extraJavaOptions  -Dlog4j.file=x -XX:+UseStringDeduplication\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    stated = options(eg.configure(builder))
    assert "spark.sql.shuffle.partitions" not in stated
    assert "spark.ui.enabled" not in stated
    assert stated["spark.driver.extraJavaOptions"] == (
        "-XX:-UsePerfData -XX:+UseParallelGC -Xms1024m -Xmn409m -XX:MetaspaceSize=256m "
        "-Dlog4j.file=x -XX:+UseStringDeduplication"
    )


def test_the_heap_layout_follows_the_configured_memory(builder):
    stated = options(eg.configure(builder.config("spark.driver.memory", "3g")))
    assert "-Xms3072m -Xmn1228m" in stated["spark.driver.extraJavaOptions"]
    assert "-Xms1024m" in stated["spark.executor.extraJavaOptions"]


def test_a_configured_heap_is_not_changed(builder):
    configured = "-Xms300m"
    stated = options(eg.configure(builder.config("spark.driver.extraJavaOptions", configured)))
    assert stated["spark.driver.extraJavaOptions"] == f"-XX:-UsePerfData {configured}"


def test_the_jvm_of_a_run_keeps_its_temporary_files_in_the_runs_folder(builder, monkeypatch):
    monkeypatch.setenv("EAGRE_RUN_TMPDIR", "/scratch/of a run")
    stated = options(eg.configure(builder))
    assert "'-Djava.io.tmpdir=/scratch/of a run'" in stated["spark.driver.extraJavaOptions"]
    assert "tmpdir" not in stated["spark.executor.extraJavaOptions"]


def test_jvm_counters_are_off_unless_configured(builder):
    configured = "-XX:+UsePerfData -Xms300m"
    stated = options(eg.configure(builder.config("spark.driver.extraJavaOptions", configured)))
    assert stated["spark.driver.extraJavaOptions"] == configured
    assert stated["spark.executor.extraJavaOptions"].count("-XX:-UsePerfData") == 1


def test_submit_arguments_override_the_profile(builder, monkeypatch):
    arguments = "--master local[5] --conf spark.sql.shuffle.partitions=7 pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    stated = options(eg.configure(builder))
    assert stated["spark.master"] == "local[5]"
    assert "spark.sql.shuffle.partitions" not in stated


def test_additions_to_submit_arguments_take_effect(builder, monkeypatch):
    """PySpark passes the builder's settings first; these arguments follow and override them."""
    arguments = (
        "--conf spark.jars=/own/mine.jar --conf spark.driver.extraJavaOptions=-Dx=y pyspark-shell"
    )
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    for _ in range(2):
        stated = options(eg.configure(builder))
        *words, app = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        assert app == "pyspark-shell"
        submitted = dict(word.split("=", 1) for word in words if "=" in word)
        assert submitted["spark.jars"] == stated["spark.jars"]
        assert submitted["spark.jars"].startswith("/own/mine.jar,")
        assert submitted["spark.driver.extraJavaOptions"].endswith("-Dx=y")
        assert submitted["spark.driver.extraJavaOptions"].count("-XX:+UseParallelGC") == 1


def test_jars_are_appended(builder):
    stated = options(eg.configure(builder.config("spark.jars", "/own/mine.jar")))
    jars = stated["spark.jars"].split(",")
    assert jars[0] == "/own/mine.jar"
    assert jars[-1].endswith("eagre-companion.jar")
    assert any("spark-sql-kafka" in jar for jar in jars)


def test_a_configured_gc_is_not_changed(builder):
    configured = "-XX:+UseZGC -Dx=y"
    stated = options(eg.configure(builder.config("spark.driver.extraJavaOptions", configured)))
    assert stated["spark.driver.extraJavaOptions"] == f"-XX:-UsePerfData {configured}"


def test_a_cluster_is_not_bound_to_loopback(builder):
    assert "spark.driver.host" not in options(eg.configure(builder.master("spark://host:7077")))


def test_sparks_ports_are_on_loopback(eagre_spark):
    import psutil

    [jvm] = [p for p in psutil.Process().children() if any("SparkSubmit" in a for a in p.cmdline())]
    listening = [c.laddr for c in jvm.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert listening
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_the_companion_answers_the_handshake(eagre_spark, monkeypatch):
    assert gateway.companion(eagre_spark, "Companion").version() == eg.__version__
    monkeypatch.setattr("eagre.jvm.gateway.handshake._classes", {})
    monkeypatch.setattr(eg, "__version__", "9.9.9")
    with pytest.raises(JvmError, match="COMPANION_VERSION"):
        gateway.companion(eagre_spark, "Companion")


def test_slots_of_a_local_session(eagre_spark):
    assert gateway.slots(eagre_spark) == 8


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[A_CLASS] It is so. SQLSTATE: 22023;\nplan\n", "[A_CLASS] It is so.;"),
        (
            (
                "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
                "[USER_RAISED_EXCEPTION] no. SQLSTATE: P0001 SQLSTATE: XXKST"
            ),
            "[USER_RAISED_EXCEPTION] no.",
        ),
        (
            (
                "An error occurred while calling o1.start.\n: java.lang.RuntimeException: outer\n"
                "\tat x.y\nCaused by: java.io.IOException: No space left on device\n\tat z"
            ),
            "No space left on device",
        ),
    ],
)
def test_a_jvm_error_is_shown_in_one_line(text, reason):
    assert gateway.reason(RuntimeError(text)) == reason


def test_a_session_starts_from_the_archive(builder, archive):
    archive.touch()
    stated = options(eg.configure(builder.config("spark.driver.extraClassPath", "/mine")))
    assert f"={archive}" in stated["spark.driver.extraJavaOptions"]
    assert stated["spark.driver.extraClassPath"].startswith("/mine:")
    assert "eagre-companion.jar" in stated["spark.driver.extraClassPath"]


@pytest.mark.parametrize("configured", ["-XX:AOTCache=/mine", "-XX:SharedArchiveFile=/mine"])
def test_a_configured_archive_is_not_changed(builder, archive, configured):
    archive.touch()
    stated = options(eg.configure(builder.config("spark.driver.extraJavaOptions", configured)))
    assert str(archive) not in stated["spark.driver.extraJavaOptions"]


def test_a_cluster_uses_no_archive(builder, archive):
    archive.touch()
    stated = options(eg.configure(builder.master("spark://127.0.0.1:7077")))
    assert str(archive) not in stated["spark.driver.extraJavaOptions"]


def test_an_archive_belongs_to_its_jars(monkeypatch, tmp_path):
    jar = tmp_path / "companion.jar"
    jar.write_bytes(b"1")
    monkeypatch.setattr("eagre.jvm.archive.companion_jar", lambda: jar)
    before = archives.archive()
    jar.write_bytes(b"12")
    assert archives.archive() != before


@pytest.mark.e2e
def test_mllib_functions_are_available_in_plans(eagre_spark):
    from pyspark.ml.functions import array_to_vector, vector_to_array

    vectors = eagre_spark.range(1).select(
        array_to_vector(F.array(F.lit(1.5), F.lit(2.0))).alias("v")
    )
    assert vectors.select(vector_to_array("v").alias("a")).first().a == [1.5, 2.0]


TWO_SESSIONS = """
from pyspark.sql import SparkSession
import eagre as eg
from eagre.jvm import gateway

def supported(shuffle):
    builder = SparkSession.builder.master("local[2]")
    builder.config("spark.shuffle.manager.incremental", shuffle)
    spark = eg.configure(builder).getOrCreate()
    rows = eg.Kafka("in", schema="n INT").read(spark, "localhost:1").groupBy("n").count()
    kind = gateway.supported_commits(rows)
    spark.stop()
    return kind

print([supported(shuffle) for shuffle in SHUFFLES])
"""


def test_the_shuffle_of_an_earlier_session_does_not_count(tmp_path):
    """Without Eagre's shuffle the rows in flight are not counted, and state cannot be committed."""
    shuffles = IN_PROCESS_SHUFFLE, "org.apache.spark.shuffle.streaming.StreamingShuffleManager"
    code = f"SHUFFLES = {shuffles}\n{TWO_SESSIONS}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "['state', '']"
