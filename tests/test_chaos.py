"""Parts of ``make chaos``: the verifier and the proxy; a round of each fault; negative controls."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from chaos import broker_faults, disk_faults  # noqa: F401  (they register their faults)
from chaos.campaign import plans
from chaos.faults import FAULTS
from chaos.proxy import CLIENT, Proxies
from chaos.shapes import SHAPES, SOURCE
from chaos.table import tables
from chaos.verify import compare

import eagre as eg
from eagre.testing.harness import Record

ROOT = Path(__file__).parent.parent


OPTIONS = ("--every", "5 seconds", "--pause", "3", "--rate", "150")


def stream(shape, count=400):
    """Return the rows of the source topics, as if each topic had one partition."""
    generator, rows = shape.generator(7), {topic: [] for topic in shape.topics}
    for number in range(count):
        for topic, row in shape.records(generator, number):
            rows[topic].append({"copies": 2, **row})
    return rows


def as_records(results):
    """Return results as an output topic holds them: times and windows are JSON."""
    spelled = [{name: spell(name, value) for name, value in row.items()} for row in results]
    return [(0, n, [], json.dumps(row).encode()) for n, row in enumerate(spelled)]


def spell(name, value):
    if name not in ("window", "session"):
        return value
    start = datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")
    return {"start": start, "end": start}


KAFKA = [shape for shape in SHAPES.values() if shape.output == "kafka"]


@pytest.mark.parametrize("shape", KAFKA, ids=lambda shape: shape.name)
def test_the_verifier_notices_lost_repeated_and_wrong_results(shape):
    rows = stream(shape)
    right = [result for _, result in shape.expected(rows)]
    assert len(right) > 20

    def verdict(results):
        return compare(shape, rows, as_records(results))

    assert verdict(right).clean(exactly_once=True)
    assert verdict(right).checked == len(right)
    assert verdict(right[:-1]).lost == 1
    wrong = {**right[-1], shape.label[-1]: -1}
    assert verdict([*right[:-1], wrong]).wrong == 1
    again = verdict([*right, right[-1]])
    assert again.repeated == (0 if shape.latest else 1)
    assert again.clean(exactly_once=shape.exactly_once) == (not shape.exactly_once)


def test_the_verifier_notices_results_out_of_order():
    shape = SHAPES["counts"]
    rows = stream(shape)
    results = [result for _, result in shape.expected(rows)]
    assert compare(shape, rows, as_records(results[::-1])).disordered > 0


def test_a_reader_that_follows_the_fences_skips_late_results():
    shape = SHAPES["counts"]
    rows = {SOURCE: stream(shape)[SOURCE][:1]}
    [(_, result)] = shape.expected(rows)
    value = json.dumps(result).encode()
    old, new = [("eagre", b"p 1 x/0/0/0 0")], [("eagre", b"p 2 x/0/0/0 0")]
    fence = (0, 0, [("eagre-fence", b"p 2")], b"{}")
    verdict = compare(shape, rows, [fence, (0, 1, new, value), (0, 2, old, value)])
    assert verdict.clean(exactly_once=True)
    assert (verdict.void, verdict.repeated_plain) == (1, 1)


def test_a_seed_repeats_a_campaign_and_every_fault_comes_up():
    shapes = list(SHAPES)
    once, again = ([next(p) for _ in range(60)] for p in (plans(3, 6, shapes), plans(3, 6, shapes)))
    assert once == again
    assert {name for plan in once for name in plan.faults} == set(FAULTS)
    assert {plan.shape.name for plan in once} == set(SHAPES)
    assert all(FAULTS[f].needs <= plan.needs for plan in once for f in plan.faults)


def test_the_tables_count_what_the_trials_found():
    counts = dict.fromkeys(("lost", "repeated", "wrong", "disordered"), 0)
    done = {"rounds": [{"fault": "jvm", "seconds": 9.0}], "failure": "", **counts}
    lines = [{"shape": "counts", "checked": 1000, **done}, {"shape": "join", "checked": 7, **done}]
    text = tables(lines)
    assert "| all |  | 2 | 2 | 1,007 | 0 |  | 0 | 0 | 0 |" in text
    assert "| jvm | 2 | 9.0 | 9.0 |" in text


@pytest.fixture
def echo():
    """A server that answers one client with what it gets; its port."""

    def serve():
        near, _ = server.accept()
        with near, contextlib.suppress(OSError):
            while data := near.recv(100):
                near.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


def test_a_link_is_delayed_dropped_and_cut(echo):
    proxies = Proxies()
    port, link = proxies.open("1", echo), proxies.link(CLIENT, "1")
    with contextlib.closing(proxies), socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        proxies.change([link], dropped=True)
        client.settimeout(0.3)
        client.sendall(b"b")
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(10)
        proxies.change([link], dropped=False)
        assert client.recv(1) == b"b"
        proxies.change([link], cut=True)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


@pytest.fixture(scope="module")
def app():
    """The pipelines of the campaign, without their thread that exhausts the heap."""
    sys.path.append(str(ROOT / "chaos"))
    import heap

    heap.listen = lambda: None
    import app

    return {one.name: one for one in vars(app).values() if isinstance(one, eg.Pipeline)}


@pytest.mark.e2e
@pytest.mark.parametrize("shape", KAFKA, ids=lambda shape: shape.name)
def test_each_pipeline_gives_what_its_oracle_says(app, run_pipeline, shape):
    rows = stream(shape)
    records = {topic: [Record(row, key=row["card"]) for row in rows[topic]] for topic in rows}
    results = run_pipeline(app[shape.name], records)
    output = [(0, n, [], json.dumps(row).encode()) for n, row in enumerate(results)]
    verdict = compare(shape, rows, output, ordered=False)
    assert verdict.clean(exactly_once=True), verdict


def chaos(*options):
    command = [sys.executable, "-m", "chaos.campaign", *OPTIONS, *options]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False
    )
    return done.returncode, done.stdout + done.stderr


ROUNDS = [
    ("counts", "jvm,python,group,stop_and_start,hole,byte_flipped"),
    ("counts", "mid_epoch,commit_written,offsets_written,while_fencing"),
    ("stateless", "while_scanning,while_recovering,catching_up,paused_and_group,partition_added"),
    ("stateless", "jvm_paused,heap_exhausted,writes_refused,broker_killed,broker_paused"),
    ("counts", "client_delayed,client_dropped,client_cut,client_dropped_and_group"),
    ("bursts", "leader_killed,leader_paused,leader_cut_off,two_brokers_killed"),
    ("rolling", "peers_delayed,peers_dropped,peers_cut,broker_paused30"),
    ("functions", "worker_killed,worker_paused,access_revoked"),
    ("windows", "disk_full"),
    ("join", "slow_disk"),
    ("postgres", "database_killed"),
]
"""A round of each fault that does not take minutes."""
QUICK = {"functions", "postgres"}
"""The shapes whose rounds belong to `make e2e`; the others take many minutes together."""


def test_each_fault_has_a_round_that_suits_it():
    of = {name: SHAPES[shape] for shape, names in ROUNDS for name in names.split(",")}
    assert set(of) == {name for name, fault in FAULTS.items() if fault.weight >= 1}
    assert all(FAULTS[name].suits(shape) for name, shape in of.items())


@pytest.mark.parametrize(
    ("shape", "faults"),
    [
        pytest.param(*entry, marks=pytest.mark.e2e if entry[0] in QUICK else pytest.mark.long)
        for entry in ROUNDS
    ],
)
def test_no_fault_loses_or_duplicates_a_result(shape, faults):
    code, output = chaos("--pipeline", shape, "--kinds", faults, "--seed", "11")
    if "only root can" in output:
        pytest.skip("only root can mount a small file system")
    assert code == 0, output
    assert f"{faults.count(',') + 1} faults, 0 lost" in output


@pytest.mark.e2e
def test_without_the_replay_filter_the_verifier_reports_duplicates():
    code, output = chaos(
        *("--pipeline", "stateless", "--kinds", "mid_epoch", "--seed", "12", "--control", "off")
    )
    assert code == 0, output
    assert " 0 repeated (" not in output


@pytest.mark.e2e
def test_a_campaign_continues_where_it_was_stopped(tmp_path):
    results = tmp_path / "results.jsonl"
    options = ("--pipeline", "stateless", "--batch", "1", "--resume", str(results), "--seed", "5")
    for rounds in ("1", "2"):
        code, output = chaos("--rounds", rounds, *options)
        assert code == 0, output
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [line["trial"] for line in lines] == [0, 1]
    assert str(tmp_path) not in results.read_text()
