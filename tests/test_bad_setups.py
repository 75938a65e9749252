"""Each invalid setup ends with one clear message, a non-zero exit code and no processes."""

import json
from io import StringIO

import pytest
from confluent_kafka import Producer

from conftest import processes_of
from eagre.broker import Topics
from eagre.commit import Checkpoint
from eagre.errors import CheckpointError, EagreError, SettingsError
from eagre.profile import CLIENTS
from eagre.runtime import child
from eagre.runtime.app import App
from eagre.runtime.parent import Parent
from eagre.runtime.resolved_run import resolve
from eagre.runtime.spec import RunSpec

GOOD = """
import eagre as eg

@eg.pipeline(source=eg.Kafka("{topic}", schema="n INT"{more}), sink=eg.Kafka("setup-out"))
def setup(df):
    return {body}
"""


def app(topic="setup-in", more="", body="df"):
    return GOOD.format(topic=topic, more=more, body=body)


def refused(cli, done, code):
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    messages = [line for line in done.stderr.splitlines() if code in line]
    assert len(messages) == 1, done.stderr
    assert messages[0].startswith(f"eagre: {code}: ")
    assert done.stdout == ""
    assert processes_of(cli.folder) == []
    return messages[0]


@pytest.fixture
def start(eagre_spark, eagre_broker, cli):
    """Start an app as the Spark child does, in the session of the tests; it must be refused."""

    def refuse(text):
        parent = Parent(StringIO())
        parent.orders.put(eagre_broker.address)
        path = cli.app(text, f"app_{abs(hash(text))}.py")
        with pytest.raises(EagreError) as refused:
            child.run(RunSpec(app=str(path), checkpoint=str(cli.folder / "checkpoint")), parent)
        return refused.value

    return refuse


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "import eagre as eg\nraise ValueError('no luck')",
            "APP_RAISED",
            "(line 2): ValueError: no",
        ),
        (app(more=", create=False", topic="setup-absent"), "TOPIC_NOT_FOUND", "setup-absent"),
        (app().replace("n INT", "n NUMBER OF"), "SCHEMA_MALFORMED", "'n NUMBER OF'"),
        (app(body="df.nothing"), "PIPELINE_RAISED", "(line 6)"),
        (app(body="df.select('m')"), "PIPELINE_RAISED", "UNRESOLVED_COLUMN"),
        (app(body="None"), "PIPELINE_RETURNS_NO_ROWS", "NoneType"),
        (
            app(topic="setup-wide", more=", partitions=9"),
            "SLOTS_TOO_FEW",
            "has 8: Spark would silently skip 1 partition",
        ),
    ],
)
def test_invalid_apps_are_refused_before_reading(start, text, code, message):
    refused = start(text)
    assert refused.code == code
    assert message in str(refused)


def test_a_query_that_spark_refuses(start):
    refused = start(app(body="df.orderBy('n')"))
    assert refused.code == "SORT"
    assert "cannot be sorted" in refused.problem


@pytest.mark.e2e
def test_a_query_that_spark_refuses_is_reported_in_one_line(cli, eagre_broker):
    done = cli("run", cli.app(app(body="df.orderBy('n')")), "--brokers", eagre_broker.address)
    message = refused(cli, done, "SORT")
    assert "cannot be sorted" in message


def test_files_that_are_not_apps(cli):
    assert "line 2" in refused(cli, cli("run", cli.app("x = 1\ny = (\n")), "APP_SYNTAX")
    refused(cli, cli("run", "absent.py"), "APP_NOT_FOUND")


def test_an_unknown_mode_and_a_malformed_interval(cli):
    path = cli.app(app())
    done = cli("run", path, "--mode", "warp")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "'warp' is not one of" in done.stderr
    refused(cli, cli("run", path, "--every", "soon"), "INTERVAL_MALFORMED")


def test_an_unreachable_broker(cli):
    refused(cli, cli("run", cli.app(app()), "--brokers", "127.0.0.1:1"), "BROKER_UNREACHABLE")


def test_no_java(cli, tmp_path):
    done = cli("run", cli.app(app()), JAVA_HOME=str(tmp_path))
    refused(cli, done, "JAVA_NOT_FOUND")


def test_debug_shows_the_trace(cli):
    done = cli("run", "absent.py", "--debug")
    assert "Traceback" in done.stderr


@pytest.fixture
def checkpoint(cli, eagre_harness):
    """A checkpoint of one run, and the arguments to resume it."""
    at = eagre_harness.brokers
    args = (cli.app(app()), "--brokers", at, "--mode", "available-now")
    pipeline = App(args[0]).pipelines()[0]
    folder = cli.folder / ".eagre" / "checkpoints" / "setup"
    resolve(
        pipeline.on(at),
        RunSpec("", mode="available-now"),
        CLIENTS["latency"],
        Checkpoint(folder),
        str,
    )
    eagre_harness.run(pipeline, [{"n": 1}], mode="available-now", checkpoint=folder)
    return folder, args


def test_unusable_checkpoints_are_refused(cli, checkpoint, eagre_broker):
    folder, args = checkpoint
    binding = json.loads((folder / "eagre.json").read_text())
    pipeline = App(args[0]).pipelines()[0].on(eagre_broker.address)

    def bind(**changes):
        entries = {k: v for k, v in {**binding, **changes}.items() if k != "checksum"}
        (folder / "eagre.json").write_text(json.dumps(entries))

    def refusal():
        with pytest.raises(CheckpointError) as refused:
            resolve(pipeline, RunSpec(""), CLIENTS["latency"], Checkpoint(folder), str)
        return refused.value

    bind(cluster="another-cluster")
    assert f"eagre checkpoint reset {folder}" in refusal().hint
    assert refusal().code == "CHECKPOINT_OTHER_CLUSTER"
    bind(topics={"setup-in": "another-id"})
    assert refusal().code == "CHECKPOINT_OTHER_TOPIC"
    bind(pipeline="someone-else")
    assert refusal().code == "CHECKPOINT_OTHER_PIPELINE"
    (folder / "eagre.json").write_text("{")
    assert refusal().code == "CHECKPOINT_BROKEN"
    bind()
    offsets = max((folder / "offsets").glob("[0-9]*"), key=lambda p: int(p.name))
    offsets.write_text(offsets.read_text()[:20])
    assert refusal().code == "CHECKPOINT_BROKEN"
    refused(cli, cli("checkpoint", "show", "setup"), "CHECKPOINT_BROKEN")
    cli.ok("checkpoint", "reset", "setup", given="y\n")
    assert not folder.exists()


def test_the_checkpoint_commands(cli, checkpoint):
    folder, _ = checkpoint
    shown = cli.ok("checkpoint", "show", folder).stdout
    assert "pipeline    setup" in shown
    assert "offset      setup-in/0:" in shown
    cli.ok("checkpoint", "copy", "setup", "saved")
    assert (cli.folder / "saved" / "eagre.json").exists()
    refused(cli, cli("checkpoint", "copy", "setup", "saved"), "CHECKPOINT_TARGET_NOT_EMPTY")
    refused(cli, cli("checkpoint", "show", "nowhere"), "CHECKPOINT_NOT_FOUND")
    assert cli("checkpoint", "reset", "setup", given="n\n").returncode == 130
    assert folder.exists()


@pytest.mark.e2e
def test_a_resumed_run_ignores_from_and_refuses_a_broken_checkpoint(cli, checkpoint):
    folder, args = checkpoint
    again = cli.ok("run", *args, "--from", "earliest")
    assert "--from earliest is ignored" in again.stderr
    offsets = max((folder / "offsets").glob("[0-9]*"), key=lambda p: int(p.name))
    offsets.write_text(offsets.read_text()[:20])
    refused(cli, cli("run", *args), "CHECKPOINT_BROKEN")


def test_where_a_new_checkpoint_starts(cli, eagre_broker):
    at = eagre_broker.address
    if "timed-in" not in Topics(at).names():
        Topics(at).create("timed-in", 1)
        producer = Producer({"bootstrap.servers": at})
        for n in range(10):
            producer.produce("timed-in", f'{{"n": {n}}}', timestamp=1_767_225_600_000 + n * 1000)
        producer.flush()
    pipeline = App(cli.app(app(topic="timed-in"), "timed_app.py")).pipelines()[0]

    def begin(start, mode="real-time"):
        folder = cli.folder / f"fresh-{start}-{mode}"
        spec = RunSpec("", mode=mode, start=start)
        resolved = resolve(pipeline.on(at), spec, CLIENTS["latency"], Checkpoint(folder), str)
        assert resolved.lag() == 10 - resolved.start["timed-in"][0]
        return resolved.start["timed-in"][0]

    assert begin("2026-01-01T00:00:07Z") == 7
    assert begin("2026-01-01T01:00:07+01:00") == 7
    assert begin("2026-01-01T00:00:06.5") == 7
    assert begin("2030-01-01") == 10
    assert begin("earliest") == 0
    assert begin("latest") == 10
    assert begin(None) == 10
    assert begin(None, mode="available-now") == 0
    with pytest.raises(SettingsError, match="START_MALFORMED"):
        begin("yesterday")
