"""The page's server without Spark: who may ask, what machines get, the meter, the causes."""

import gc
import http.client
import json
import re
import socket
import threading
import time
import tracemalloc
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from eagre.broker import Topics
from eagre.cli.dashboard import judge_slo
from eagre.dashboard import Dashboard
from eagre.dashboard.causes import Around, causes
from eagre.dashboard.metrics import FAMILIES
from eagre.dashboard.result_sampler import MOST_PER_SECOND, SLICE_SECONDS, ResultSampler
from eagre.dashboard.server import ASSETS, MOST_CONNECTIONS
from eagre.dashboard.view import View
from eagre.errors import SettingsError
from eagre.latency import Meter, Result
from eagre.runtime.runs import PipelineStatus, RunStatus
from eagre.slo import Slo
from eagre.waiting import wait_until

TOKEN = "a-token-for-the-tests-long-enough"  # noqa: S105


def run_of(**changes):
    status = PipelineStatus("score", "running", "real-time", **changes)
    return RunStatus(4711, 0.0, "score.py", pipelines={"score": status})


ABOUT = {
    "sources": [{"topic": "page-in", "partitions": 2}],
    "letters": ["page-in.dlq"],
    "sink": {"kind": "kafka", "name": "page-out", "topics": ["page-out"]},
    "clusters": {"source": {"brokers": "127.0.0.1:1"}, "sink": {"brokers": "127.0.0.1:1"}},
    "delivery": "at-least-once",
    "slots": 64,
    "settings": {},
    "slo": "p99 < 100ms",
}
VITALS = {
    "pauses": 2,
    "paused_ms": 30,
    "longest_pause_ms": 20,
    "heap_mb": 100,
    "lag": {"page-in/0": 3, "page-in/1": 0},
    "consumed": 10,
    "waits": {"page-in/0": [10, 25, 4]},
    "at": 1.0,
}


@pytest.fixture(scope="module")
def page():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EAGRE_DASHBOARD_TOKEN", TOKEN)
        dashboard = Dashboard(shown=lambda: [run_of(about={}, vitals=VITALS)])
    with dashboard:
        yield dashboard


def port_of(page):
    return int(page.url.rsplit(":", 1)[1].strip("/"))


def ask(page, path, method="GET", **headers):
    """One request as it is written, with nothing that a client adds by itself."""
    port = port_of(page)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Host": f"127.0.0.1:{port}", **headers}.items():
        for one in [value] if isinstance(value, str) else value:
            connection.putheader(name, one)
    connection.endheaders()
    answer = connection.getresponse()
    answer.body = answer.read() if "event-stream" not in str(answer.headers) else b""
    connection.close()
    return answer


def bearer(token=TOKEN):
    return {"Authorization": f"Bearer {token}"}


EVERYTHING = [*ASSETS, "/api/state", "/api/events", "/api/records?topic=x", "/metrics", "/none"]


@pytest.mark.parametrize("path", EVERYTHING)
def test_nothing_is_told_without_the_token(page, path):
    assert ask(page, path).status == 401
    assert ask(page, path, **bearer("wrong")).status == 401
    assert ask(page, path, **bearer(TOKEN[:-1])).status == 401
    assert ask(page, path, **bearer(TOKEN + "x")).status == 401
    assert ask(page, path, Cookie=f"eagre_{port_of(page)}=wrong").status == 401
    assert ask(page, path + ("&" if "?" in path else "?") + "token=wrong").status == 401
    assert TOKEN.encode() not in ask(page, path).body


def test_the_address_lets_a_browser_in_and_forgets_the_token(page):
    answer = ask(page, "/?token=" + TOKEN)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    inside = ask(page, "/", Cookie=cookie.split(";")[0])
    assert inside.status == 200
    assert TOKEN.encode() not in inside.body


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "",
        "127.0.0.1:{port}.evil",
    ],
)
def test_another_name_for_this_machine_is_a_rebinding_attack(page, host):
    told = host.format(port=port_of(page))
    assert ask(page, "/api/state", Host=told, **bearer()).status == 421
    assert ask(page, "/healthz", Host=told).status == 421


def test_two_hosts_are_none(page):
    own = f"127.0.0.1:{port_of(page)}"
    assert ask(page, "/api/state", Host=[own, "evil.example"], **bearer()).status == 421
    assert ask(page, "/api/state", Host=f"localhost:{port_of(page)}", **bearer()).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_requests_from_other_origins_are_refused_even_with_the_cookie(page, origin):
    cookie = f"eagre_{port_of(page)}={TOKEN}"
    told = origin.format(port=port_of(page))
    assert ask(page, "/api/state", Origin=told, Cookie=cookie).status == 403
    own = f"http://127.0.0.1:{port_of(page)}"
    assert ask(page, "/api/state", Origin=own, Cookie=cookie).status == 200


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "FOO"]
)
def test_only_get_and_head_do_anything(page, method):
    for path in ("/api/state", "/healthz"):
        assert ask(page, path, method).status == 401
        assert ask(page, path, method, **bearer()).status == 405


def test_head_has_no_body(page):
    answer = ask(page, "/api/state", "HEAD", **bearer())
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/../board.py",
        "/static/../board.py",
        "/%2e%2e/board.py",
        "//etc/passwd",
        "/dashboard.css/../../board.py",
        "/board.py",
    ],
)
def test_files_beside_the_page_are_not_served(page, path):
    answer = ask(page, path, **bearer())
    assert answer.status == 404
    assert b"import" not in answer.body


@pytest.mark.parametrize("path", [*ASSETS, "/api/state", "/metrics", "/healthz", "/none"])
def test_every_answer_forbids_what_it_can(page, path):
    headers = ask(page, path, **bearer()).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


def test_the_page_names_no_outside_address():
    for name, _ in ASSETS.values():
        text = (files("eagre.dashboard") / "static" / name).read_text()
        found = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", text))
        assert found <= {"http://www.w3.org/2000/svg"}, name
        assert "innerHTML" not in text


def test_it_listens_on_loopback_only(page):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        outside = probe.getsockname()[0]
    if outside.startswith("127."):
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((outside, port_of(page)), 2)


def test_too_many_connections_do_not_shut_others_out_for_good(page):
    held = [
        socket.create_connection(("127.0.0.1", port_of(page)), 5)
        for _ in range(MOST_CONNECTIONS + 10)
    ]
    wait_until(lambda: _closed(held[-1]), 5, "a connection too many was kept")
    for one in held:
        one.close()
    wait_until(lambda: _status(page) == 200, 10, "it never answered again")


def _status(page):
    try:
        return ask(page, "/healthz").status
    except (OSError, http.client.HTTPException):
        return 0


def _closed(connection):
    connection.settimeout(0.2)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_short_token_is_refused(monkeypatch):
    monkeypatch.setenv("EAGRE_DASHBOARD_TOKEN", "short")
    with pytest.raises(SettingsError, match="PAGE_TOKEN_SHORT"):
        Dashboard()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])  # noqa: S104
def test_every_address_at_once_is_refused(host):
    with pytest.raises(SettingsError, match="PAGE_HOST"):
        Dashboard(host=host)


def test_a_port_in_use_is_named(page):
    with pytest.raises(SettingsError, match="PAGE_PORT"):
        Dashboard(port_of(page))


def test_topics_that_no_pipeline_has_are_not_read(page):
    answer = ask(page, "/api/records?topic=__consumer_offsets", **bearer())
    assert answer.status == 404
    assert json.loads(answer.body)["code"] == "TOPIC_NOT_SHOWN"


def served(status, path):
    with Dashboard(shown=lambda: [status]) as page:
        wait_until(lambda: page.views, 5, "nothing is followed")
        token = page.address.split("token=")[1]
        return ask(page, path, **bearer(token))


@pytest.mark.parametrize(
    ("changes", "path", "code", "reason"),
    [
        ({}, "/readyz", 200, ""),
        ({}, "/healthz", 200, ""),
        (
            {"phase": "starting", "reason": "checking the plan"},
            "/readyz",
            503,
            "score: starting: checking the plan",
        ),
        (
            {"phase": "stalled", "reason": "no Kafka broker answers"},
            "/readyz",
            503,
            "no Kafka broker answers",
        ),
        ({"phase": "stalled", "reason": "no Kafka broker answers"}, "/healthz", 200, ""),
        ({"phase": "failed", "failure": "QUERY_FAILED: no"}, "/healthz", 503, "QUERY_FAILED: no"),
    ],
)
def test_probes_have_reasons(changes, path, code, reason):
    run = run_of()
    for name, value in changes.items():
        setattr(run.pipelines["score"], name, value)
    answer = served(run, path)
    told = json.loads(answer.body)
    assert (answer.status, told["ok"]) == (code, code == 200)
    assert reason in " ".join(told["reasons"])


def test_without_a_pipeline_it_is_not_ready():
    with Dashboard(shown=list) as page:
        assert json.loads(ask(page, "/readyz").body)["reasons"] == ["no pipeline is running"]


LINE = re.compile(r'([a-z_:]+)\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\} (-?[0-9.e+-]+|NaN|\+Inf)')


def test_metrics_are_what_prometheus_reads():
    epoch = {
        "batch": 3,
        "ended": 1.0,
        "phases": {"addBatch": 900, "walCommit": 5},
        "state": {"operators": 1, "keys": 7, "memory_bytes": 10, "disk_bytes": 20},
    }
    run = run_of(vitals=VITALS, epochs=[epoch], about={"slo": ""}, written=5, lag=3)
    run.pipelines["score"].about = {}
    run.app = 'a "quoted"\\name'
    body = served(run, "/metrics").body.decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", body, re.MULTILINE))
    samples = [LINE.fullmatch(line) for line in body.splitlines() if not line.startswith("#")]
    assert all(samples), body
    for name, labels, value in (sample.groups() for sample in samples):
        family = re.sub(r"_(bucket|sum|count)$", "", name) if "latency_seconds" in name else name
        assert family in kinds, name
        assert kinds[family] != "counter" or name.endswith("_total")
        assert float(value) >= 0
        assert "score" in labels or "version" in labels
    own = 'pipeline="score",mode="real-time",pid="4711"'
    assert f'eagre_source_lag_records{{{own},topic="page-in",partition="0"}} 3' in body
    buckets = [int(s[3]) for s in samples if s[1] == "eagre_latency_seconds_bucket"]
    assert buckets == sorted(buckets)
    assert 'le="+Inf"' in body
    assert f"eagre_state_keys{{{own}}} 7" in body


def test_the_grafana_dashboard_asks_for_metrics_there_are():
    text = (Path(__file__).parent.parent / "docs" / "grafana" / "eagre.json").read_text()
    board = json.loads(text)
    asked = [one["expr"] for panel in board["panels"] for one in panel["targets"]]
    for expression in asked:
        for name in re.findall(r"eagre_\w+", expression):
            family = re.sub(r"_bucket$", "", name)
            assert family in FAMILIES, expression
    assert {re.sub(r"_bucket$", "", n) for n in re.findall(r"eagre_\w+", " ".join(asked))} >= {
        "eagre_latency_seconds",
        "eagre_slo_burn_rate",
        "eagre_source_lag_records",
    }


def test_state_is_what_status_shows(page):
    wait_until(lambda: page.views, 5, "nothing is followed")
    told = json.loads(ask(page, "/api/state", **bearer()).body)
    [view] = told["pipelines"]
    wanted = run_of(about={}, vitals=VITALS).as_dict()["pipelines"]["score"]
    assert {**view["status"], "since": 0} == {**wanted, "since": 0}
    assert view["waiting"]


@pytest.mark.long
def test_many_seconds_for_ten_clients_leave_memory_flat():
    """Ten minutes of seconds, each shorter; docs/how-to/dashboard.md has the real ten minutes."""
    run = run_of(vitals=VITALS)
    tracemalloc.start()
    with Dashboard(shown=lambda: [run], every=0.005) as page:
        token = page.address.split("token=")[1]
        over = threading.Event()
        readers = [threading.Thread(target=_listen, args=(page, token, over)) for _ in range(10)]
        for reader in readers:
            reader.start()
        _pass(page, 1000)
        before = _memory()
        _pass(page, 600)
        grown = _memory() - before
        tracemalloc.stop()
        over.set()
        for reader in readers:
            reader.join()
    assert grown < 1_500_000


def _memory():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _pass(page, seconds):
    until = page._recorder.number + seconds  # noqa: SLF001
    wait_until(lambda: page._recorder.number >= until, 60, "the seconds do not pass")  # noqa: SLF001


def _listen(page, token, over):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(page), timeout=10)
    connection.request("GET", "/api/events", headers=bearer(token))
    answer = connection.getresponse()
    while not over.is_set():
        answer.read1(65536)
    connection.close()


@pytest.mark.parametrize("text", ["p99 < 100ms", "p99.9 < 1 second", "p50<5ms", "p999 < 2 s"])
def test_an_slo_is_read(text):
    assert Slo.parse(text).text == text


@pytest.mark.parametrize(
    "text", ["", "p99", "fast", "p0 < 1ms", "99 < 1ms", "p99 > 1ms", "p99 < ms"]
)
def test_a_malformed_slo_is_refused(text):
    with pytest.raises(SettingsError, match=r"SLO_MALFORMED|INTERVAL_MALFORMED"):
        Slo.parse(text)


@pytest.mark.parametrize(
    ("slo", "slow", "code", "told"),
    [
        ("p99 < 100ms", 1, 0, "SLO p99 < 100ms kept: p99 was"),
        ("p99 < 100ms", 3, 3, "SLO p99 < 100ms broken: p99 was"),
        ("p99 < 100ms", None, 3, "nothing was measured"),
        ("", 0, 3, "no pipeline has an SLO"),
    ],
)
def test_the_exit_code_tells_whether_a_promise_was_kept(capsys, slo, slow, code, told):
    view = View(run := run_of(about={}), run.pipelines["score"])
    if slo:
        view.slo = Slo.parse(slo)
        view.meter = Meter(view.slo.within_ms)
    if slow is not None:
        quick = [Result(b"t/0", 1000, 1001)] * (200 - slow)
        view.meter.take(quick, 1_005_000)
        view.meter.take([Result(b"t/0", 1000, 1001)] * slow, 1_300_000)
        view.meter.second()
    view.gone()
    assert judge_slo(SimpleNamespace(views=[view])) == code
    assert told in capsys.readouterr().err


def test_the_meter_counts_what_cannot_be_measured():
    meter = Meter(slow_ms=100)
    late = [Result(b"t/0", 1_000_000, 1_000_010)] * 3
    meter.take(late, 1_000_150_000, unmeasured=2)
    meter.take([Result(b"t/1", 1_000_000, 1_000_000)], 999_990_000)
    told = meter.second()
    assert (told["records"], told["unmeasured"], told["slow"], told["negative"]) == (4, 2, 3, 1)
    assert told["partitions"]["t/0"] == [3, 150.0, 150.0]
    assert told["max_ms"] == pytest.approx(150, rel=0.001)
    assert meter.second()["records"] == 0
    assert meter.total()["records"] == 4
    assert sum(meter.buckets) == 4


def second(at, **changes):
    usual = {
        "p50_ms": 2.0,
        "max_ms": 4.0,
        "mean_ms": 2.0,
        "records": 100,
        "after_sent_ms": 0.5,
        "wait_ms": 0.5,
        "pipeline_ms": 1.0,
    }
    return {"t": float(at), **usual, **changes}


SLOW = {"max_ms": 200.0, "mean_ms": 40.0}


@pytest.mark.parametrize(
    ("changes", "around", "expected"),
    [
        ({}, {"ends": [49.8]}, "boundary"),
        ({"pause_ms": 90}, {}, "collector"),
        ({"partitions": {"t/0": [50, 90.0, 200.0], "t/1": [50, 2.0, 4.0]}}, {}, "hot"),
        ({"lags": {"t/0": 5000, "t/1": 3, "t/2": 4}}, {}, "hot"),
        ({"after_sent_ms": 35.0}, {}, "sink"),
        ({"wait_ms": 35.0}, {}, "source"),
        ({"wait_ms": 35.0}, {"mode": "micro-batch"}, "trigger"),
        ({"pipeline_ms": 35.0}, {}, "pipeline"),
        ({}, {"starved": ["t/3"]}, "starved"),
        ({}, {"starts": [44.0]}, "start"),
        ({}, {"starts": [20.0]}, "elsewhere"),
        ({}, {}, "elsewhere"),
    ],
)
def test_causes_are_told_apart(changes, around, expected):
    seconds = [second(at) for at in range(60)]
    seconds[50] |= {**SLOW, **changes}
    known = Around(**{"ends": [], "mode": "real-time", "starved": [], "starts": [], **around})
    [cause] = causes(seconds, known)
    assert (cause["id"], cause["seconds"], cause["worst_ms"]) == (expected, 1, 200.0)
    assert cause["evidence"]


def test_a_quiet_stream_has_no_cause():
    seconds = [second(at, pause_ms=3) for at in range(60)]
    assert causes(seconds, Around([30.0], "real-time", [], [5.0])) == []


def test_before_its_first_second_a_pipeline_has_no_causes():
    assert causes([], Around([], "real-time", [], [])) == []


def test_a_partition_that_nobody_reads_is_named_after_a_while(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("eagre.dashboard.view.time.monotonic", lambda: now[0])
    run = run_of(about={**ABOUT, "sink": {"kind": "redis", "name": "redis", "topics": []}})
    status = run.pipelines["score"]
    view = View(run, status)
    ends = {0: 5, 1: 5, 2: 0}
    near = SimpleNamespace(watch=lambda _: None, ends=lambda _: ends)
    clusters = SimpleNamespace(of=lambda _: near)

    def look(read, seconds):
        status.vitals = {**VITALS, "lag": read}
        view.follow(run, status, clusters)
        now[0] += seconds
        view.follow(run, status, clusters)
        return view.starved()

    assert look({"page-in/0": 0}, 5) == []
    assert look({"page-in/0": 0, "page-in/1": 0}, 60) == []
    assert look({"page-in/0": 0}, 11) == ["page-in/1"]
    assert look({}, 11) == []


@pytest.fixture
def tap(eagre_broker, request):
    topics = Topics(eagre_broker.address)
    name = f"tapped-{request.node.name[-12:]}".replace("[", "").replace("]", "")
    topics.create(name, 2)
    meter = Meter()
    reading = ResultSampler(topics.client_settings, {name: 2}, ["page-in"], meter)
    producer = Producer({"bootstrap.servers": eagre_broker.address, "linger.ms": 5})
    yield meter, producer, name
    reading.close()


def seen(meter):
    meter.second()
    total = meter.total()
    return total["records"] + total["unmeasured"]


def send(producer, name, behind_ms, header="eagre-origin", place="page-in/0/7"):
    origin = round(time.time() * 1000) - behind_ms
    words = f"id 1 {place}/0 {origin}" if header == "eagre" else f"{place} {origin}"
    producer.produce(name, b"{}", headers={header: words.encode()})


def settle(meter, producer, name):
    """Send until the tap is at the end of its topic, and has seen something."""

    def ready():
        send(producer, name, 0, place="page-in/0/0")
        producer.flush()
        return seen(meter) > 0

    wait_until(ready, 20, "the tap sees nothing")
    time.sleep(0.5)
    seen(meter)


@pytest.mark.parametrize("header", ["eagre-origin", "eagre"])
def test_the_tap_reads_both_headers(tap, header):
    meter, producer, name = tap
    began = time.monotonic()
    settle(meter, producer, name)
    before = meter.total()["records"]
    for _ in range(50):
        send(producer, name, 300, header)
    producer.produce(name, b"{}")
    producer.produce(name, b"{}", headers={"eagre-origin": b"garbage"})
    producer.produce(name, b"{}", headers={"eagre-fence": b"id 2"})
    send(producer, name, 300, place="others/0/7")
    producer.flush()
    took_ms = (time.monotonic() - began) * 1000
    wait_until(lambda: seen(meter) >= before + 52, 10, "not all were seen")
    total = meter.total()
    assert (total["records"], total["unmeasured"]) == (before + 50, 2)
    assert 290 <= total["p95_ms"] <= 1.1 * (300 + took_ms), "the broker stamps them by then"


class Flood:
    """Stands for a consumer of one partition, and for the clock: records come at a steady rate."""

    RATE = 8 * MOST_PER_SECOND
    SECONDS = 3

    def __init__(self, _):
        self.position = 0
        self.over = threading.Event()
        self.now = 0.0

    def monotonic(self):
        return self.now

    def assign(self, _):
        """Go to the end; the slice of the tap is over by then, as far as there was one before."""
        self.now += SLICE_SECONDS if self.now else 0
        self.position = round(self.now * self.RATE)

    def unassign(self):
        pass

    def poll(self, _):
        if self.now > self.SECONDS:
            self.over.set()
            time.sleep(0.01)
            return None
        self.now += 0.001
        return self.consume(1, 0)[0]

    def consume(self, number, _):
        there = min(number, round(self.now * self.RATE) - self.position)
        self.position += there
        return [self._record(self.position - n) for n in range(there, 0, -1)]

    def _record(self, offset):
        headers = [("eagre-origin", b"page-in/0/7 1")]
        return SimpleNamespace(
            error=lambda: None,
            headers=lambda: headers,
            timestamp=lambda: (1, 1),
            topic=lambda: "flood",
            partition=lambda: 0,
            offset=lambda: offset,
        )

    def close(self):
        pass


def test_above_its_rate_the_tap_samples_and_says_so(monkeypatch):
    """It reads a thousand records of each fifth of a second, and counts those in between."""
    flood, meter = Flood(None), Meter()
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: flood)
    clock = SimpleNamespace(monotonic=flood.monotonic, time_ns=time.time_ns)
    monkeypatch.setattr("eagre.dashboard.result_sampler.time", clock)
    reading = ResultSampler({}, {"flood": 1}, ["page-in"], meter)
    assert flood.over.wait(60)
    reading.close()
    looked, skipped = seen(meter), meter.total()["skipped"]
    assert 0 < looked <= flood.now * MOST_PER_SECOND * 1.5
    assert skipped > 4 * looked
    assert flood.position - flood.RATE * SLICE_SECONDS <= looked + skipped <= flood.position
