"""Declarations of pipelines, and errors before anything starts."""

import pickle

import pytest

import eagre as eg
from eagre.config import interval_ms
from eagre.errors import AppError, SettingsError
from eagre.pipeline import trigger
from eagre.runtime.app import App


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: eg.Kafka(""), "TOPIC_MISSING"),
        (lambda: eg.Kafka(()), "TOPIC_MISSING"),
        (lambda: eg.Kafka("t", format="avro"), "FORMAT_UNKNOWN"),
        (lambda: eg.Kafka("t", watermark="1 second"), "WATERMARK_AND_EVENT_TIME"),
        (lambda: eg.Kafka("t", event_time="at"), "WATERMARK_AND_EVENT_TIME"),
        (lambda: eg.Kafka("t", options={"startingOffsets": "earliest"}), "START_AS_OPTION"),
        (lambda: eg.Kafka("t", brokers="b:1", starting="soon").reader_options(), "START_MALFORMED"),
        (lambda: eg.Kafka("t").cluster, "BROKERS_MISSING"),
        (lambda: eg.Kafka("t").parsed_schema(), "SCHEMA_MISSING"),
        (lambda: eg.pipeline(source="payments", sink=eg.Kafka("t")), "PIPELINE_ENDS"),
        (lambda: eg.pipeline(source=[], sink=eg.Kafka("t")), "PIPELINE_ENDS"),
        (lambda: trigger("fast"), "MODE_UNKNOWN"),
        (lambda: interval_ms("soon"), "INTERVAL_MALFORMED"),
        (lambda: interval_ms("5 parsecs"), "INTERVAL_MALFORMED"),
    ],
)
def test_invalid_declarations_have_an_error_code(make, code):
    with pytest.raises(SettingsError) as refused:
        make()
    assert refused.value.code == code


def test_brokers_of_the_command_line_override_the_declared_ones():
    declared = eg.Kafka("t", brokers="declared:1")
    assert declared.on("given:2").cluster == "given:2"
    stated = eg.Kafka("t", options={"kafka.bootstrap.servers": "option:3"})
    assert stated.on("given:2").reader_options()["kafka.bootstrap.servers"] == "given:2"
    assert declared.cluster == "declared:1"
    assert eg.Kafka("t", options={"kafka.bootstrap.servers": "option:3"}).cluster == "option:3"


def test_a_pipeline_is_still_a_function():
    @eg.pipeline(source=eg.Kafka("a"), sink=eg.Kafka("b"), name="other")
    def twice(value):
        return value * 2

    assert twice.name == "other"
    assert twice(4) == 8


def test_errors_survive_pickling():
    error = SettingsError("CODE", "what.", "do this.", {"slots": 3})
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own)
    assert (str(copy), copy.data, copy.code) == (str(error), {"slots": 3}, "CODE")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("x = 1\n", "APP_WITHOUT_PIPELINE", "defines no pipeline"),
        ("x = 1\n\nx.nothing\n", "APP_RAISED", "(line 3): AttributeError"),
        ("import nowhere_to_be_found\n", "APP_RAISED", "nowhere_to_be_found"),
    ],
)
def test_unusable_apps_are_refused(tmp_path, text, code, message):
    path = tmp_path / "app_of_a_test.py"
    path.write_text(text)
    with pytest.raises(AppError) as refused:
        App(path).pipelines()
    assert refused.value.code == code
    assert message in str(refused.value)


def test_two_pipelines_with_the_same_name_are_refused(tmp_path):
    path = tmp_path / "twins_of_a_test.py"
    ends = "source=eg.Kafka('a'), sink=eg.Kafka('b'), name='same'"
    path.write_text(
        f"import eagre as eg\nx = eg.pipeline({ends})(print)\ny = eg.pipeline({ends})(repr)\n"
    )
    with pytest.raises(AppError, match="PIPELINE_NAME_TWICE"):
        App(path).pipelines()


def test_a_pipeline_is_chosen_by_name(tmp_path):
    path = tmp_path / "chosen_of_a_test.py"
    path.write_text(
        "import eagre as eg\nends = dict(source=eg.Kafka('a'), sink=eg.Kafka('b'))\n"
        "one = eg.pipeline(**ends, name='one')(print)\n"
        "two = eg.pipeline(**ends, name='two')(print)\n"
    )
    app = App.parse(f"{path}:two")
    assert [p.name for p in app.choose(app.pipelines())] == ["two"]
    with pytest.raises(AppError, match="choose one of: one, two"):
        App.parse(f"{path}:three").choose(app.pipelines())
