"""Features of all commands: JSON, verbosity, colour, exit codes, help, completion."""

import json
import re
import shlex
import subprocess
import sys

import click
import pytest
from confluent_kafka import Consumer, TopicPartition

from eagre.broker import Topics
from eagre.cli import console
from eagre.cli import eagre as command_line
from eagre.cli.commands import Command
from eagre.cli.exit_codes import MEANINGS, ExitCode
from eagre.cli.kafka import records
from eagre.cli.options import settings
from eagre.cli.pipelines.run import Display, _settings
from eagre.cli.pipelines.run import run as run_command
from eagre.errors import SettingsError
from test_docs import everything

COMMANDS = [
    (path, command)
    for path, command in everything(command_line)
    if not isinstance(command, click.Group)
]


def test_conf_is_parsed_unchanged():
    pairs = ["spark.driver.extraJavaOptions=-Da=b -Dc=d", " spark.executorEnv.A__B = 1"]
    assert settings(pairs) == {
        "spark.driver.extraJavaOptions": "-Da=b -Dc=d",
        "spark.executorEnv.A__B": "1",
    }


@pytest.mark.parametrize(
    ("conf", "code"),
    [
        ("spark.ui.enabled", "SETTING_MALFORMED"),
        ("=true", "SETTING_MALFORMED"),
        ("fs.s3a.endpoint=x", "CONF_NOT_SPARK"),
        ("spark.sql.extensions.test.loadFromCp=true", "CONF_FIXED"),
    ],
)
def test_invalid_conf_is_refused(call, conf, code):
    for command in ("run", "check", "size", "advise"):
        done = call(command, "app.py", "--conf", conf)
        assert done.code == ExitCode.FAILED
        assert done.err.startswith(f"eagre: {code}: ")
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "check", "size", "advise"])
def test_conf_and_an_option_that_differ_are_refused(call, command, tmp_path):
    (tmp_path / "app.py").write_text("")
    done = call(command, "app.py", "--master", "local[2]", "--conf", "spark.master=local[4]")
    assert done.err.startswith("eagre: CONF_TWICE: --master says local[2] and --conf spark.master")


def test_a_verbose_run_sets_the_log_level_of_spark():
    console.set_verbosity(console.Verbosity.VERBOSE)
    try:
        assert _settings({}, "throughput", None) == {
            "spark.log.level": "INFO",
            "spark.eagre.profile": "throughput",
        }
        assert _settings({"spark.log.level": "DEBUG"}, None, None) == {"spark.log.level": "DEBUG"}
    finally:
        console.set_verbosity(console.Verbosity.NORMAL)
    assert _settings({}, None, None) == {}


@pytest.mark.parametrize(
    ("args", "keys"),
    [
        (("status",), {"runs"}),
        (("broker", "status"), {"brokers"}),
        (("jars", "verify"), {"ok", "sets", "companion"}),
        (("explain",), {"rules"}),
        (("explain", "slots_too_few"), {"id", "level", "consequence", "explanation"}),
        (("size", "--source-partitions", "8"), {"slots", "terms"}),
        (("doctor",), {"ok", "checks"}),
    ],
)
def test_stdout_contains_only_json(call, args, keys, tmp_path):
    only = call(*args, "--json", "-")
    assert only.code == ExitCode.OK
    assert keys <= set(json.loads(only.out))
    also = call(*args, "--json", "out.json")
    assert json.loads((tmp_path / "out.json").read_text()).keys() == json.loads(only.out).keys()
    free = re.compile(r"[\d.]+ GiB")  # other processes write to the disk
    assert free.sub("", also.out) == free.sub("", call(*args).out)
    assert not also.out.startswith("{")


def test_json_into_a_missing_folder_is_refused_before_the_work(call):
    done = call("demo", "--json", "absent/out.json")
    assert done.code == ExitCode.USAGE
    assert "absent does not exist" in done.err


def test_quiet_and_verbose(call):
    usual = call("jars", "verify")
    assert usual.err == ""
    more = call("jars", "verify", "-v")
    assert more.out == usual.out
    assert "spark-sql-kafka" in more.err
    assert "fraud" in call("init", "fraud", "loud").err
    assert call("init", "fraud", "silent", "--quiet").err == ""
    failed = call("init", "fraud", "silent", "-q")
    assert failed.code == ExitCode.FAILED
    assert "DIRECTORY_NOT_EMPTY" in failed.err


def test_a_quiet_run_prints_only_problems(capsys):
    running = {"event": "running", "mode": "real-time", "every_ms": 5000, "resumed": -1}
    failed = {"event": "restarting", "reason": "X: y.", "when": "at once", "attempt": 1, "most": 2}
    console.set_verbosity(console.Verbosity.QUIET)
    try:
        for event in (running, failed, {"event": "stalled", "reason": "no progress"}):
            Display().show("score", event)
    finally:
        console.set_verbosity(console.Verbosity.NORMAL)
    assert capsys.readouterr().err.splitlines() == [
        "eagre: score: X: y. Starting again at once (1 of 2)",
        "eagre: score: stalled: no progress",
    ]
    Display().show("score", running)
    assert "running in real-time" in capsys.readouterr().err


def test_no_color(monkeypatch, capsys):
    @click.command(cls=Command)
    def painted():
        """Print in colour."""
        click.echo(click.style("red", fg="red"))

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    painted.main([], standalone_mode=False)
    assert capsys.readouterr().out == "\x1b[31mred\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    painted.main([], standalone_mode=False)
    assert capsys.readouterr().out == "red\n"


def test_exit_codes_are_documented(call):
    assert set(MEANINGS) == set(ExitCode)
    text = call("--help").out
    assert all(f"{code:d} {code.brief}" in text for code in ExitCode)
    assert call("nonsense").code == call("run").code == ExitCode.USAGE
    assert call("run", "absent.py").code == ExitCode.FAILED


def test_an_unexpected_error_has_a_separate_exit_code(call, monkeypatch):
    monkeypatch.setattr("eagre.runtime.runs.running", lambda: 1 / 0)
    done = call("status")
    assert done.code == ExitCode.UNEXPECTED
    assert "unexpected ZeroDivisionError" in done.err


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_each_command_has_examples_that_parse_and_the_general_options(path, command):
    assert command.examples
    for example in command.examples:
        called = re.search(r"eagre [^|)#]*", example)[0]
        assert called.startswith(path)
        try:
            command.make_context(path, shlex.split(called.removeprefix(path)))
        except click.BadParameter as error:
            assert "does not exist" in error.message  # noqa: PT017  (a file of the user)
    flags = {flag for param in command.params for flag in param.opts}
    assert {"-q", "--quiet", "-v", "--verbose", "--debug"} <= flags


def test_options_are_listed_in_groups():
    text = run_command.get_help(click.Context(run_command, info_name="eagre run"))
    headings = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == ["Options:", "Kafka:", "Spark:", "Dashboard:", "General:", "Examples:"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(call, shell):
    done = call("completion", shell)
    assert done.code == ExitCode.OK
    assert f"_EAGRE_COMPLETE={shell}_complete" in done.out
    assert call("completion", "tcsh").code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("eagre ch", ["check", "checkpoint"]),
        ("eagre topic de", ["delete", "describe"]),
        ("eagre run --mo", ["--mode"]),
        ("eagre run --mode r", ["real-time"]),
    ],
)
def test_completions(call, monkeypatch, words, completed):
    monkeypatch.setenv("_EAGRE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert call().out.split() == [f"plain,{word}" for word in completed]


def test_bash_accepts_the_completion_script(call):
    """The system's bash accepts the script."""
    script = call("completion", "bash").out
    done = subprocess.run(["bash", "-n"], input=script, text=True, check=False)  # noqa: S607
    assert done.returncode == 0


def test_topics_are_described_and_deleted(call, eagre_broker, monkeypatch):
    at = ("--brokers", eagre_broker.address)
    topics = Topics(eagre_broker.address)
    topics.create("held", 2, {"retention.ms": "60000"})
    topics.create("empty", 1)
    sender = records.Sender(topics)
    for number in range(3):
        sender.send("held", b"k", b"v", partition=number % 2)
    sender.finish()

    described = json.loads(call("topic", "describe", "held", "--json", "-", *at).out)
    assert (described["name"], described["records"], described["id"]) == (
        "held",
        3,
        topics.require("held").id,
    )
    assert described["partitions"][0] == {"partition": 0, "begin": 0, "end": 2, "records": 2}
    assert described["settings"]["retention.ms"] == "60000"
    assert "retention.bytes" not in described["settings"]
    text = call("topic", "describe", "held", *at).out
    assert "setting     retention.ms=60000" in text
    listed = json.loads(call("topic", "list", "--json", "-", *at).out)["topics"]
    assert {"name": "held", "partitions": 2, "records": 3} in listed

    for args, code in (
        (("held",), "CONFIRMATION_MISSING"),
        (("held", "__consumer_offsets", "--yes"), "TOPIC_INTERNAL"),
        (("held", "absent", "--yes"), "TOPIC_NOT_FOUND"),
    ):
        done = call("topic", "delete", *args, *at)
        assert (done.code, code in done.err) == (ExitCode.FAILED, True), done.err
    assert "held" in topics.names()

    answers = iter(["n", "y"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: next(answers))
    assert call("topic", "delete", "held", *at).code == ExitCode.INTERRUPTED
    assert "held" in topics.names()
    done = call("topic", "delete", "held", *at)
    assert "'held' on" in done.err
    assert "3 records" in done.err
    assert call("topic", "delete", "empty", "--yes", *at).code == ExitCode.OK
    assert {"held", "empty"}.isdisjoint(topics.names())


def test_tail_prints_every_part_of_a_record(call, eagre_broker, tmp_path):
    at = ("--brokers", eagre_broker.address)
    topics = Topics(eagre_broker.address)
    topics.create("tailed", 2)
    sender = records.Sender(topics)
    headers = [("trace", b"t1"), ("raw", b"\xff")]
    at_ms = 1767225607250
    sender.send("tailed", b"k0", b"zero", partition=1, headers=headers, timestamp=at_ms)
    sender.send("tailed", None, b"\x1b[31mone", partition=1, timestamp=at_ms + 1000)
    sender.send("tailed", b"k2", None, partition=0, timestamp=at_ms + 2000)
    sender.finish()

    def tail(*args):
        return call("topic", "tail", "tailed", *args, *at).out.splitlines()

    assert tail("--from", "earliest", "--partition", "1", "-n", "2") == ["zero", "\x1b[31mone"]
    assert tail("--from", "earliest", "--partition", "1", "-n", "1", "--all") == [
        "2026-01-01T00:00:07.250Z\t1\t0\ttrace=t1,raw=\ufffd\tk0\tzero"
    ]
    assert tail("--from", "1", "--partition", "1", "-n", "1", "--offsets", "--keys") == [
        "1\t1\tnull\t\x1b[31mone"
    ]
    record = next(records.read(topics, "tailed", {1: 1}))
    assert records.Columns(terminal=True, keys=True).text(record) == "null\t\\x1b[31mone"
    assert tail("--from", "2026-01-01T00:00:09Z", "-n", "1", "--keys") == ["k2\tnull"]
    [line] = tail("--from", "earliest", "--partition", "1", "-n", "1", "--json", "-")
    assert json.loads(line) == {
        "topic": "tailed",
        "partition": 1,
        "offset": 0,
        "timestamp_ms": at_ms,
        "headers": [
            {"name": "trace", "value": "t1"},
            {"name": "raw", "value": None, "value_base64": "/w=="},
        ],
        "key": "k0",
        "value": "zero",
    }
    assert len(tail("--from", "earliest", "-n", "3", "--json", "tailed.jsonl")) == 3
    written = (tmp_path / "tailed.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["offset"] for line in written) == [0, 0, 1]
    wrong = call("topic", "tail", "tailed", "--partition", "2", *at)
    assert "PARTITION_NOT_FOUND" in wrong.err
    assert "START_MALFORMED" in call("topic", "tail", "tailed", "--from", "soon", *at).err


def test_a_start_beyond_the_end_is_the_end(eagre_broker):
    topics = Topics(eagre_broker.address)
    topics.create("short", 1)
    assert records.begin(topics, "short", "99") == {0: 0}
    with pytest.raises(SettingsError, match="its partitions are 0 to 0"):
        records.begin(topics, "short", "latest", (1,))


def test_the_lag_of_a_consumer_group(call, eagre_broker):
    topics = Topics(eagre_broker.address)
    topics.create("lagging", 1)
    sender = records.Sender(topics)
    for _ in range(3):
        sender.send("lagging", None, b"v")
    sender.finish()
    consumer = Consumer({"bootstrap.servers": eagre_broker.address, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("lagging", 0, 1)], asynchronous=False)
    consumer.close()
    arguments = ("topic", "lag", "--group", "billing", "--brokers", eagre_broker.address)
    partition = {"group": "billing", "topic": "lagging", "partition": 0}
    assert json.loads(call(*arguments, "--json", "-").out) == {
        "partitions": [{**partition, "committed": 1, "end": 3, "lag": 2}]
    }
    assert call(*arguments).out.splitlines()[1].split() == ["billing", "lagging/0", "1", "3", "2"]


def test_a_mid_epoch_commit_is_adopted_once(call, tmp_path):
    """`tests/runs_in_process.py` starts plain Spark on such a checkpoint."""
    folder = tmp_path / "checkpoint"
    (folder / "mid-epoch-commits").mkdir(parents=True)
    commit = {"batch": 4, "position": {}, "offsets": "v1\n{}\n{}", "commit": "v1\n{}", "ends": {}}
    (folder / "mid-epoch-commits" / "7").write_text(json.dumps(commit))
    assert call("checkpoint", "adopt", folder).code != 0, "there is no checkpoint yet"
    (folder / "metadata").touch()
    assert "continues" in (done := call("checkpoint", "adopt", folder)).err
    assert "after batch 4" in done.err
    assert (folder / "commits" / "4").read_text() == commit["commit"]
    assert "already have the newest commit" in call("checkpoint", "adopt", folder).err
