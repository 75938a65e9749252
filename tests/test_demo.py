"""The demo's machinery, in seconds; its speed is shown by the demo itself, not judged here."""

import json
import threading
import time
from urllib.request import Request, urlopen

import pytest

from eagre.trial.judge import sent_us
from eagre.trial.load import Load


def test_the_demo_measures_both_modes_and_its_page_shows_them(cli):
    process = cli.start(
        *("demo", "--seconds", "3", "--warmup", "2", "--rate", "500", "--every", "5 seconds"),
        *("--json", "-", "--no-archive"),
    )
    said, shown = [], {}
    listening = threading.Thread(target=lambda: said.extend(process.stderr))
    listening.start()
    while process.poll() is None:
        shown |= _measured(said)
        time.sleep(0.5)
    listening.join()
    assert process.returncode == 0, said
    with process:
        result = json.loads(process.stdout.read())
    assert list(result["modes"]) == ["micro-batch", "real-time"]
    for mode, figures in result["modes"].items():
        assert figures["records"] == figures["expected"] == figures["results"] == 1500
        assert figures["lost"] == 0
        assert figures["sent"] == 2000, "a second of the load does not count"
        assert figures["negative"] == 0
        percentiles = [figures[f"{p}_ms"] for p in ("p50", "p95", "p99", "p999", "max")]
        assert percentiles == sorted(percentiles)
        assert percentiles[0] > 0
        assert shown[mode] > 1000, shown
    assert set(result["ratio"]) == {"p50", "p95", "p99"}
    assert result["epochs"] == result["modes"]["real-time"]["epochs"] <= 1
    told = "".join(said)
    assert "micro-batch ÷ real-time" in told
    assert "real-time: starting Spark" in told


def _measured(said):
    """What the demo's page has measured in each mode; nothing while it is not there."""
    address = next(
        (line.split("dashboard: ")[1] for line in list(said) if "dashboard: " in line), ""
    )
    url, _, token = address.strip().partition("?token=")
    asked = {"Authorization": f"Bearer {token}"}
    try:
        with urlopen(Request(url + "api/state", headers=asked), timeout=5) as answer:  # noqa: S310
            views = json.load(answer)["pipelines"]
    except (OSError, ValueError):
        return {}
    return {view["status"]["mode"]: view["meter"]["total"]["records"] for view in views}


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
