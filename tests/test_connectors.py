"""The seam for connectors: a format, a sink and a source that Eagre does not know."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

import eagre as eg
from eagre import connectors
from eagre.connectors import registry
from eagre.errors import SettingsError
from eagre.preflight.plan import plan
from toy_connectors import Console, Counter, Csv, JsonLines, JsonTopic

SOURCE = Path(eg.__file__).parent


def test_the_registry_has_built_in_and_registered_connectors():
    assert {"Kafka", "KafkaSource", "Counter"} <= set(connectors.sources())
    assert {"Kafka", "KafkaSink", "Postgres", "Redis", "JsonLines"} <= set(connectors.sinks())
    assert {"json", "string", "bytes", "csv"} <= set(connectors.formats())
    for path in SOURCE.rglob("*.py"):
        assert "toy_connectors" not in path.read_text()


def test_an_unknown_format_names_the_known_ones():
    with pytest.raises(SettingsError, match=r"FORMAT_UNKNOWN.*there are .*json"):
        eg.Kafka("t", format="protobuf")


def test_an_installed_package_registers_its_connectors(monkeypatch):
    loaded = []

    class Entry:
        @staticmethod
        def load():
            loaded.append(1)
            registry.register(type("Toml", (Csv,), {"name": "toml"}))

    monkeypatch.setattr(registry, "entry_points", lambda group: [Entry] * (group == registry.GROUP))
    registry._load_installed.cache_clear()  # noqa: SLF001
    try:
        assert eg.Kafka("t", format="toml").value_format.name == "toml"
        assert eg.Kafka("t", format="toml").value_format.name == "toml"
        assert loaded == [1]
    finally:
        registry._formats.pop("toml", None)  # noqa: SLF001
        registry._load_installed.cache_clear()  # noqa: SLF001


def test_a_toy_format_in_both_modes(run_in_both_modes, eagre_harness):
    source = eg.Kafka("csv-in", schema="card STRING, n INT", format="csv")

    @eg.pipeline(source=source, sink=eg.Kafka("csv-out", format="csv", key="card"))
    def lines(df):
        return df.selectExpr("card", "n + 1 AS n")

    assert run_in_both_modes(lines, ["a,1", "b,2"]) == [["a", "2"], ["b", "3"]]
    before = _dead_letters(eagre_harness)
    assert run_in_both_modes(lines, ["a,1", "b,two"]) == [["a", "2"]]
    assert _dead_letters(eagre_harness) == before + 1


def _dead_letters(harness):
    topics = harness.topics
    return topics.ends(["csv-in.dlq"])["csv-in.dlq"][0] if topics.describe(["csv-in.dlq"]) else 0


@pytest.fixture
def to_files(tmp_path):
    @eg.pipeline(source=eg.Kafka("files-in", schema="n INT"), sink=JsonLines(str(tmp_path / "out")))
    def to_files(df):
        return df.select("n")

    return to_files


def test_a_toy_sink_writes_what_its_modes_allow(to_files, run_pipeline, tmp_path):
    run_pipeline(to_files, [{"n": n} for n in range(5)], mode="available-now")
    lines = [line for p in (tmp_path / "out").glob("*.json") for line in p.read_text().splitlines()]
    assert sorted(json.loads(line)["n"] for line in lines) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["micro-batch", "real-time"])
def test_a_toy_sink_in_both_modes(mode, run_pipeline, eagre_harness):
    topics, out = eagre_harness.topics, f"toy-{mode}"
    topics.create(out, 1)

    @eg.pipeline(
        source=eg.Kafka("toy-in", schema="n INT"), sink=JsonTopic(out, eagre_harness.brokers)
    )
    def doubled(df):
        return df.selectExpr("n * 2 AS n")

    run_pipeline(doubled, [{"n": n} for n in range(5)], mode=mode)
    written = [json.loads(record.value())["n"] for record in eagre_harness.records(out, {0: 0})]
    assert sorted(written) == [0, 2, 4, 6, 8]


def test_a_mode_that_a_sink_does_not_have_is_refused(to_files, eagre_spark, tmp_path):
    with pytest.raises(SettingsError, match=r"MODE_UNSUPPORTED.*--mode micro-batch"):
        eg.check(to_files, eagre_spark)
    with pytest.raises(SettingsError, match="MODE_UNSUPPORTED"):
        to_files.start(eagre_spark, checkpoint=str(tmp_path), brokers="127.0.0.1:9")


def test_a_sink_that_needs_a_shuffle_gets_one(eagre_spark):
    @eg.pipeline(source=eg.Kafka("shuffle-in", schema="card STRING"), sink=Console("card"))
    def shuffled(df):
        return df.select("card")

    report = eg.check(shuffled, eagre_spark)
    assert report.ok, report.errors
    assert len(report.shuffles) == 1
    assert shuffled.sink.rows_written(eagre_spark, "shuffled") == 7


def test_a_toy_source_and_sink_run_supervised(cli, in_process, tmp_path):
    app = cli.app(
        "import eagre as eg\n"
        "from toy_connectors import Counter, JsonLines\n"
        f"@eg.pipeline(source=Counter(3), sink=JsonLines({str(tmp_path / 'out')!r}))\n"
        "def numbers(df):\n"
        "    return df\n",
        "numbers_app.py",
    )
    run = in_process(app, mode="micro-batch", every="100 ms").wait_for("status")
    about = next(event["about"] for event in run.events if event["event"] == "running")
    assert about["sink"]["kind"] == "jsonlines"
    assert about["sources"] == []
    assert about["delivery"] == "at-least-once"
    run.drain()
    assert run.has("ended", drained=True)
    assert list((tmp_path / "out").glob("*.json"))


def test_a_topic_by_role_takes_only_the_arguments_of_its_role():
    both, source, sink = (
        {f.name for f in fields(c)} for c in (eg.Kafka, eg.KafkaSource, eg.KafkaSink)
    )
    assert source | sink == both
    assert source & sink == {f.name for f in fields(connectors.KafkaTopic)}
    with pytest.raises(TypeError):
        eg.KafkaSink("t", watermark="1 second")
    with pytest.raises(TypeError):
        eg.KafkaSource("t", delivery="exactly-once")

    @eg.pipeline(source=eg.KafkaSource("a", schema="n INT"), sink=eg.KafkaSink("b"))
    def split(df):
        return df

    assert split.on("x:1").needs_brokers is False
    assert split.needs_brokers
    with pytest.raises(SettingsError, match="PIPELINE_ENDS"):
        eg.pipeline(source=eg.KafkaSink("a"), sink=eg.KafkaSink("b"))
    with pytest.raises(SettingsError, match="PIPELINE_ENDS"):
        eg.pipeline(source=eg.KafkaSource("a"), sink=eg.KafkaSource("b"))


def test_the_old_name_of_the_writer_still_works(eagre_spark):
    from eagre.sinks import writer

    rows = eg.Kafka("old-in", schema="n INT").read(eagre_spark, "127.0.0.1:9092")
    assert writer(rows, eg.Kafka("old-out"), "127.0.0.1:9092")._df is not None  # noqa: SLF001
    unbound = eg.read_stream(eagre_spark, eg.Kafka("old-in", schema="n INT", brokers="b:1"))
    assert unbound.columns == ["n", "_source"]
    with pytest.raises(SettingsError, match="MODE_UNSUPPORTED"):
        eg.read_stream(eagre_spark, Counter(1))


@pytest.mark.parametrize("name", ["kafka.client.id", "kafka.Client.Id"])
def test_the_client_id_of_a_sink_is_known_in_any_case(eagre_spark, name):
    """A commit flushes the producers with this id."""
    sink = eg.Kafka("any-case", brokers="b:1", options={name: "mine"})
    rows = eg.Kafka("any-case-in", schema="n INT", brokers="b:1").read(eagre_spark)
    options = plan(eagre_spark, eg.write_stream(rows, sink), 60_000).options
    ids = {key: value for key, value in options.items() if key.lower() == "kafka.client.id"}
    assert list(ids.values()) == ["mine"]
    assert sink.client_id("any") == "mine"
    assert eg.Kafka("t").client_id("score") == "eagre-score"
