"""Trials on slow machines: probes, tables, late results; how a process under test ends."""

import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from eagre import waiting
from eagre.errors import TrialError
from eagre.trial import meter, producer
from eagre.trial.events import EventsFile
from eagre.trial.load import Load, Probe
from eagre.trial.process import ProcessUnderTest
from eagre.waiting import machine_slowness, wait_until

FEW = "TOPIC = 'in'\ndef events(random):\n    yield from [('a', {'n': 1}), ('b', {'n': 2})]\n"
NONE = "TOPIC = 'in'\ndef events(random):\n    return ()\n"


class Producer:
    """A fake producer that stores its records; ``stuck`` ones are never sent."""

    def __init__(self, stuck=0):
        self.sent = []
        self.stuck = stuck

    def produce(self, topic, value, key, **_):
        self.sent.append((topic, key, value))

    def flush(self, _):
        return self.stuck

    def __len__(self):
        return self.stuck


@pytest.fixture
def producers(monkeypatch):
    made = []

    def produce(_):
        made.append(Producer())
        return made[-1]

    monkeypatch.setattr("confluent_kafka.Producer", produce)
    return made


def probe(folder, text):
    path = folder / "events.py"
    path.write_text(text)
    return Probe(Load("nowhere", "in", str(path), rate=1, seconds=1, begin_us=0))


def test_probes_do_not_run_out(tmp_path, producers):
    probing = probe(tmp_path, FEW)
    for _ in range(5):
        probing.send()
    assert [key for _, key, _ in producers[0].sent] == ["a", "b", "a", "b", "a"]


def test_a_missing_kind_of_event_is_reported(tmp_path, producers):
    with pytest.raises(TrialError, match=r"EVENTS_EMPTY: .*events\.py yields no events"):
        probe(tmp_path, NONE).send()


def test_undelivered_table_rows_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(producer, "FLUSH_SECONDS", 0.1)
    monkeypatch.setattr(waiting, "machine_slowness", lambda: 1.0)
    monkeypatch.setattr("confluent_kafka.Producer", lambda _: Producer(stuck=3))
    monkeypatch.setattr("eagre.broker.Topics.create", lambda *_: None)
    path = tmp_path / "events.py"
    path.write_text(f"{FEW}def tables(random):\n    yield 'table', 'k', {{'n': 1}}\n")
    with pytest.raises(TrialError, match="TABLES_NOT_SENT: nowhere:1 did not accept 3 rows"):
        EventsFile(str(path)).fill_tables("nowhere:1")


class LateResult:
    """A fake consumer whose only result arrives late."""

    def __init__(self, seconds):
        self._due = time.monotonic() + seconds

    def poll(self, _):
        if self._due and time.monotonic() > self._due:
            self._due = None
            return SimpleNamespace(
                error=lambda: None,
                timestamp=lambda: (1, 0),
                value=lambda: b'{"sent_us":0}',
                headers=list,
            )
        time.sleep(0.01)
        return None

    def consume(self, *_):
        return []

    def close(self):
        pass


@pytest.mark.parametrize(("slowness", "results"), [(1.0, 0), (100.0, 1)])
def test_late_results_have_more_time_on_a_slow_machine(tmp_path, monkeypatch, slowness, results):
    monkeypatch.setattr(waiting, "machine_slowness", lambda: slowness)
    monkeypatch.setattr(meter, "LINGER_SECONDS", 0)
    monkeypatch.setattr(meter, "gc", SimpleNamespace(disable=lambda: None))
    monkeypatch.setattr(meter, "sys", SimpleNamespace(setswitchinterval=lambda _: None))
    monkeypatch.setattr(meter, "_consumer", lambda *_: LateResult(2))
    taken = []
    judge = SimpleNamespace(
        take=lambda *result: taken.append(result),
        complete=lambda: bool(taken),
        verdict=lambda: {"results": len(taken)},
    )
    monkeypatch.setattr(meter.Measurement, "judge", lambda _: judge)
    path = tmp_path / "events.py"
    path.write_text(FEW)
    what = Load("nowhere", "in", str(path), rate=1, seconds=1, begin_us=0)
    now = what.now_us()
    asked = meter.Measurement(what, "out", {0: 0}, from_us=now, until_us=now, grace=0.2)
    assert meter.Meter(asked).run() == {"results": results}


def test_a_process_under_test_is_killed_with_its_children(tmp_path):
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    log = tmp_path / "log"
    process = ProcessUnderTest([sys.executable, "-c", script], {}, tmp_path, log)
    wait_until(lambda: log.read_text().strip(), 10, "the child's pid is not printed")
    child = int(log.read_text())
    assert process.cost().rss_mb > 5
    process.require_alive()
    process.kill()
    assert not psutil.pid_exists(child)
    with pytest.raises(TrialError, match="SYSTEM_ENDED"):
        process.require_alive()


def test_a_process_under_test_ends_with_the_benchmark(tmp_path):
    log = tmp_path / "log"
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from eagre.trial.process import ProcessUnderTest\n"
        "print_pid = 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'\n"
        f"log = Path({str(log)!r})\n"
        "ProcessUnderTest([sys.executable, '-c', print_pid], {}, Path('.'), log)\n"
        "while not log.read_text().strip(): time.sleep(0.05)\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=30 * machine_slowness())
    pid = int(log.read_text())
    wait_until(
        lambda: not psutil.pid_exists(pid) or _zombie(pid), 10, "the process outlived the benchmark"
    )


def _zombie(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
