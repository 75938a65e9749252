"""Without a private member of Spark its feature is off, and plain Spark takes over.

``runs_in_process.py`` runs pipelines without them.
"""

import pytest

import eagre as eg
from eagre.errors import JvmError
from eagre.jvm import gateway

MEMBERS = {
    "STREAM_WRITER": "the check before a start",
    "SESSION_PLANNER": "the plan cache",
    "STATE_STORES": "mid-epoch commits with state",
    "AGGREGATE_ITERATOR": "mid-epoch commits of aggregates",
    "PRODUCER_POOL": "mid-epoch commits",
    "SCAN_READERS": "mid-epoch commits",
    "FAILED_TASK_VALUES": "skipping records that crash their task",
    "SETTING_SOURCES": "smaller tasks",
}
PROPERTY = "eagre.disable"


@pytest.fixture(params=MEMBERS)
def missing(request, eagre_spark):
    """A member that this JVM treats as missing."""
    system = eagre_spark._jvm.java.lang.System  # noqa: SLF001
    system.setProperty(PROPERTY, request.param)
    yield request.param
    system.clearProperty(PROPERTY)


@eg.pipeline(
    source=eg.Kafka("without-in", schema="card STRING, n INT"), sink=eg.Kafka("without-out")
)
def without(df):
    return df.groupBy("card").count()


def test_every_member_exists(eagre_spark):
    assert gateway.missing_members(eagre_spark) == ()


def test_a_missing_member_is_reported(eagre_spark, missing):
    [member] = gateway.missing_members(eagre_spark)
    assert (member.name, member.feature) == (missing, MEMBERS[missing])
    assert str(member).startswith(f"{MEMBERS[missing]} is off: {missing} is missing")


def test_commits_need_only_some_members(eagre_spark, eagre_broker, missing):
    source = eg.Kafka("without-shapes", schema="card STRING", brokers=eagre_broker.address)
    stream = source.read(eagre_spark)
    shapes = {
        "rows": stream.where("card > ''"),
        "deduplicated": eg.deduplicate(stream, "card", "1 s"),
        "counted": stream.groupBy("card").count(),
    }
    off = {
        "STATE_STORES": {"deduplicated", "counted"},
        "AGGREGATE_ITERATOR": {"counted"},
        "PRODUCER_POOL": set(shapes),
        "SCAN_READERS": set(shapes),
    }
    without = {name for name, rows in shapes.items() if not gateway.supported_commits(rows)}
    assert without == off.get(missing, set())


def test_only_the_check_needs_the_options_of_a_writer(eagre_spark, eagre_broker, missing):
    def checked():
        return eg.check(without, eagre_spark, brokers=eagre_broker.address)

    if missing != "STREAM_WRITER":
        assert "STATE_UNBOUNDED" in checked().ids()
        return
    with pytest.raises(JvmError, match="the check before a start is off") as refused:
        checked()
    assert refused.value.code == "CHECK_UNAVAILABLE"


def test_doctor_reports_disabled_features(cli):
    done = cli.ok("doctor", JAVA_TOOL_OPTIONS=f"-D{PROPERTY}=SESSION_PLANNER")
    [line] = [line for line in done.stdout.splitlines() if " internals " in line]
    assert "the plan cache is off: SESSION_PLANNER is missing (disabled by eagre.disable)" in line
    assert "plain Spark does the work" in line
