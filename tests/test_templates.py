"""Use cases and the demo's measurements, without Spark."""

import json
import os
import re
import runpy
from itertools import islice
from random import Random
from xml.etree import ElementTree as ET

import pytest

from eagre.cli.use_cases.demo import _epochs, measured_pipeline
from eagre.runtime.app import App
from eagre.templates import folder, projects, use_cases
from eagre.trial.events import EventsFile
from eagre.trial.load import Load, Probe
from eagre.trial.meter import Measurement

SECOND = 1_000_000


def load(use_case, seconds=5.0):
    events = EventsFile(str(folder(use_case) / "generate.py"))
    return Load(
        "", events.topic, events.path, events.rate, seconds, begin_us=1_767_000_000 * SECOND
    )


@pytest.mark.parametrize("use_case", use_cases())
def test_every_use_case_has_the_files_of_the_demo(use_case):
    name, results = measured_pipeline(folder(use_case) / "app.py")
    what = load(use_case)
    assert name
    assert results != what.topic
    sent = [due for _, _, due in what.feed()]
    assert len(sent) == len(set(sent)) == what.records
    expected = what.source.expected(what, what.begin_us, what.due_us(what.records))
    assert set(sent) >= expected
    assert expected


@pytest.mark.parametrize("use_case", projects())
def test_generated_events_are_realistic(use_case):
    """Skew, disorder, duplicates and unparsable records."""
    pairs = list(
        islice(runpy.run_path(str(folder(use_case) / "generate.py"))["events"](Random(1)), 20_000)
    )
    keys = [key for key, _ in pairs]
    assert max(map(keys.count, set(keys[:50]))) > 2 * len(keys) / len(set(keys))
    assert 0 < sum("copy" in event for _, event in pairs) / len(pairs) < 0.1
    assert 0.1 < sum(event["late_ms"] > 0 for _, event in pairs) / len(pairs) < 0.5
    assert sum("n/a" in event.values() for _, event in pairs) > 5


@pytest.mark.parametrize("use_case", projects())
def test_a_diagram_shows_every_topic_and_loads_nothing_from_outside(use_case):
    place = folder(use_case)
    assert "](pipeline.svg)" in (place / "README.md").read_text()
    picture = (place / "pipeline.svg").read_text()
    texts = ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314  (ours)
    shown = {text.text for text in texts}
    first = App(place / "app.py").pipelines()[0]
    read = {topic for source in first.sources for topic in source.topics}
    assert read | {f"{topic}.dlq" for topic in read} | set(first.sink.topics) <= shown
    assert re.findall('https?://[^"]+', picture) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme: dark" in picture
    assert len(picture.encode()) < 8192


def test_the_leaderboard_expects_a_result_for_every_play():
    """A measured play is judged by the plays before it."""
    what = load("leaderboard", 80.0)
    at = [what.due_us(n) for n in (0, 10_000, 20_000)]
    early, late = what.source.expected(what, at[0], at[1]), what.source.expected(what, at[1], at[2])
    assert early | late == what.source.expected(what, at[0], at[2])
    assert 100 < len(late) < len(early) / 3


class Result:
    """A result as Kafka's consumer returns it."""

    def __init__(self, value, origin=None):
        self._value, self._origin = value, origin

    def value(self):
        return self._value

    def headers(self):
        return [("other", b"x"), ("eagre-origin", self._origin)] if self._origin else None


def test_an_event_is_complete_with_all_its_results():
    what = load("leaderboard", 20.0)
    until = what.due_us(3000)
    measurement = Measurement(what, "boards", {0: 0}, what.due_us(2000), until, source_begin=7)
    judge = measurement.judge()
    assert not judge.complete()
    expected = what.source.expected(what, what.due_us(2000), until)
    for number in range(2000, 3000):
        if what.due_us(number) in expected:
            for late_ms in (5, 9):
                result = Result(b'{"rank":1}', f"plays/0/{number + 7} 1767000000000".encode())
                received = what.due_us(number) + late_ms * 1000
                judge.take(what.source.evidence(result), received, 0)
    for other in (b"plays/0/3 1", b"tables/0/2500 1", b"plays/1/2500 1"):
        judge.take(what.source.evidence(Result(b"{}", other)), until, 0)
    verdict = judge.verdict()
    assert judge.complete()
    assert verdict["records"] == verdict["expected"] > 10
    assert verdict["results"] == 2 * verdict["records"]
    assert verdict["lost"] == 0
    assert verdict["p50_ms"] == pytest.approx(9, rel=0.01)


def test_lost_results_are_reported():
    what = load("payments", 1.0)
    measurement = Measurement(
        what, "scores", {0: 0}, what.begin_us, what.due_us(100), source_begin=0
    )
    judge = measurement.judge()
    for number in range(99):
        value = json.dumps({"sent_us": what.due_us(number)}, separators=(",", ":")).encode()
        judge.take(what.source.evidence(Result(value)), what.due_us(number) + 1000, 0)
    assert not judge.complete()
    verdict = judge.verdict()
    assert (verdict["expected"], verdict["records"], verdict["lost"]) == (100, 99, 1)


def test_probes_happened_long_before_the_load():
    what = load("leaderboard")
    _, probe, due = next(Probe(what)._feed)  # noqa: SLF001  (what it would send)
    _, first, _ = next(what.feed())
    assert probe["at"][:10] < first["at"][:10]
    assert due == probe["sent_us"]


def test_epochs_are_counted_that_ended_in_the_measured_time(tmp_path):
    commits = tmp_path / "checkpoint" / "leaderboard" / "commits"
    commits.mkdir(parents=True)
    for batch, second in enumerate((95, 100, 105, 110, 120)):
        for name in (str(batch), f".{batch}.crc"):
            (commits / name).touch()
            os.utime(commits / name, (second, second))
    assert _epochs(tmp_path, 100 * SECOND, 20.0) == 3
