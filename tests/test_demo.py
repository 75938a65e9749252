"""The demo's machinery, in seconds; its speed is shown by the demo itself, not judged here."""

import json

import pytest

from eagre.bench.judge import sent_us
from eagre.bench.load import Load


def test_the_demo_measures_both_modes(cli):
    done = cli.ok(
        *("demo", "--seconds", "3", "--warmup", "2", "--rate", "500", "--every", "5 seconds"),
        *("--no-dashboard", "--json", "-"),
        timeout=240,
    )
    result = json.loads(done.stdout)
    assert list(result["modes"]) == ["micro-batch", "real-time"]
    for figures in result["modes"].values():
        assert figures["records"] == figures["expected"] == 1500
        assert figures["sent"] == 2500
        assert figures["negative"] == 0
        percentiles = [figures[f"{p}_ms"] for p in ("p50", "p95", "p99", "p999", "max")]
        assert percentiles == sorted(percentiles)
        assert percentiles[0] > 0
    assert set(result["ratio"]) == {"p50", "p95", "p99"}
    assert "micro-batch ÷ real-time" in done.stderr
    assert "real-time: starting Spark" in done.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("nonsense",), "USE_CASE_UNKNOWN"),
        (("--seconds", "0"), "must be above zero"),
        (("--every", "often"), "INTERVAL_MALFORMED"),
    ],
)
def test_a_demo_that_cannot_be(cli, args, told):
    done = cli("demo", *args)
    assert done.returncode != 0
    assert told in done.stderr
    assert "starting Kafka" not in done.stderr


def test_the_schedule_is_open_loop():
    load = Load("", "", "", rate=2000, seconds=1.5, begin_us=10)
    assert load.records == 3000
    assert [load.due_us(n) for n in (0, 1, 2000)] == [10, 510, 1_000_010]


def test_the_intended_time_is_read_wherever_it_stands():
    assert sent_us(b'{"sent_us":1731650000000000}') == 1_731_650_000_000_000
    assert sent_us(b'{"a":1,"sent_us":1731650000000001,"b":{}}') == 1_731_650_000_000_001
    with pytest.raises(ValueError, match="subsection not found"):
        sent_us(b"{}")
