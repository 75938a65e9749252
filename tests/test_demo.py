"""The demo in a few seconds; these tests do not judge its latencies."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from conftest import processes_of
from eagre.config import cache_dir, state_dir
from eagre.trial.judge import sent_us
from eagre.trial.load import Load
from eagre.trial.trial import scratch_folder
from eagre.waiting import wait_until


@pytest.fixture
def separate_cache(monkeypatch):
    """A separate cache with a short path, as users have."""
    monkeypatch.setenv("EAGRE_JARS", str(cache_dir() / "jars"))
    folder = Path(tempfile.mkdtemp())
    monkeypatch.setenv("EAGRE_CACHE", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.early
def test_the_demo_measures_both_modes_and_the_dashboard_shows_them(cli):
    process = cli.start(
        *("demo", "--seconds", "3", "--warmup", "2", "--rate", "500", "--every", "5 seconds"),
        *("--json", "-", "--no-archive"),
    )
    messages, shown = [], {}
    reader = threading.Thread(target=lambda: messages.extend(process.stderr))
    reader.start()
    while process.poll() is None:
        for mode, records in _measured_records(messages).items():
            shown[mode] = max(records, shown.get(mode, 0))
        time.sleep(0.5)
    reader.join()
    assert process.returncode == 0, messages
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
        assert shown[mode] > 0, shown
    assert set(result["ratio"]) == {"p50", "p95", "p99"}
    assert result["epochs"] == result["modes"]["real-time"]["epochs"] <= 1
    output = "".join(messages)
    assert "micro-batch ÷ real-time" in output
    assert "real-time: starting Spark" in output


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_an_interrupted_demo_leaves_no_files(separate_cache, cli, sign, code):
    process = cli.start("demo", "--no-archive")
    with process:
        lines = iter(process.stderr)
        assert any("starting Spark" in line for line in lines)
        state = cli.folder.parent / "state"
        wait_until(lambda: list(state.glob("checkpoints/*")), 120, "the demo has no checkpoint")
        process.send_signal(sign)
        process.communicate()
    assert process.returncode == code
    assert files_in(separate_cache / "demo", separate_cache / "brokers") == []
    assert files_in(*(state / name for name in ("brokers", "runs", "checkpoints"))) == []
    wait_until(lambda: not processes_of(separate_cache), 30, "a process of the demo still runs")


def files_in(*folders):
    return [path for folder in folders for path in folder.iterdir()]


def test_files_of_a_killed_demo_are_removed(separate_cache, monkeypatch):
    """The scratch folder, the entry of the run, and the record of its checkpoint."""
    monkeypatch.setenv("EAGRE_STATE", str(separate_cache / "state"))
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert killed.returncode == -9
    assert len(files_in(state_dir() / "checkpoints", state_dir() / "runs")) == 2
    [folder] = files_in(separate_cache / "demo")
    with scratch_folder(separate_cache / "demo") as other:
        assert files_in(separate_cache / "demo") == [other] != [folder]
    assert (
        files_in(state_dir() / "checkpoints", state_dir() / "runs", separate_cache / "demo") == []
    )


KILLED = """
import os
from eagre.config import cache_dir
from eagre.commit import Binding, Checkpoint
from eagre.runtime.runs import Register
from eagre.trial.trial import scratch_folder

with scratch_folder(cache_dir() / "demo") as scratch:
    Register("app.py").write(now=True)
    checkpoint = Checkpoint(scratch / "real-time" / "checkpoint")
    checkpoint.bind(Binding("counts", "cluster", {}, {}))
    os.kill(os.getpid(), 9)
"""


def _measured_records(messages):
    """Return the records that the dashboard shows for each mode; none before it is served."""
    address = next(
        (line.split("dashboard: ")[1] for line in list(messages) if "dashboard: " in line), ""
    )
    url, _, token = address.strip().partition("?token=")
    headers = {"Authorization": f"Bearer {token}"}
    try:
        with urlopen(Request(url + "api/state", headers=headers), timeout=5) as answer:  # noqa: S310
            views = json.load(answer)["pipelines"]
    except (OSError, ValueError):
        return {}
    return {view["status"]["mode"]: view["meter"]["total"]["records"] for view in views}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nonsense",), "USE_CASE_UNKNOWN"),
        (("--seconds", "0"), "must be above zero"),
        (("--every", "often"), "INTERVAL_MALFORMED"),
    ],
)
def test_invalid_demo_options_are_refused(cli, args, message):
    done = cli("demo", *args)
    assert done.returncode != 0
    assert message in done.stderr
    assert "starting Kafka" not in done.stderr


def test_the_schedule_is_open_loop():
    load = Load("", "", "", rate=2000, seconds=1.5, begin_us=10)
    assert load.records == 3000
    assert [load.due_us(n) for n in (0, 1, 2000)] == [10, 510, 1_000_010]


def test_the_intended_time_is_read_from_any_position():
    assert sent_us(b'{"sent_us":1731650000000000}') == 1_731_650_000_000_000
    assert sent_us(b'{"a":1,"sent_us":1731650000000001,"b":{}}') == 1_731_650_000_000_001
    with pytest.raises(ValueError, match="subsection not found"):
        sent_us(b"{}")
