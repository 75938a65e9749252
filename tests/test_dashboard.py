"""The dashboard's server without Spark: access, probes and metrics."""

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
from urllib.parse import urlsplit

import pytest

from eagre.dashboard import Dashboard, metrics, server
from eagre.dashboard.cluster import Clusters, decoded
from eagre.dashboard.guard import Guard
from eagre.dashboard.metrics import FAMILIES
from eagre.dashboard.server import ASSETS, MOST_CONNECTIONS
from eagre.errors import SettingsError
from eagre.runtime.runs import PipelineStatus, RunStatus
from eagre.runtime.supervisor import Supervisor
from eagre.waiting import wait_until

TOKEN = "a-token-for-the-tests-long-enough"  # noqa: S105


def run_of(**changes):
    status = PipelineStatus("score", "running", "real-time", **changes)
    return RunStatus(4711, 0.0, "score.py", pipelines={"score": status})


ABOUT = {
    "sources": [{"topic": "metered-in", "partitions": 2}],
    "dead_letters": ["metered-in.dlq"],
    "sink": {"kind": "kafka", "name": "metered-out", "topics": ["metered-out"]},
    "clusters": {"source": {"brokers": "127.0.0.1:1"}, "sink": {"brokers": "127.0.0.1:1"}},
    "delivery": "at-least-once",
    "slots": 64,
    "settings": {},
    "slo": "p99 < 100ms",
}
JVM_METRICS = {
    "pauses": 2,
    "paused_ms": 30,
    "longest_pause_ms": 20,
    "heap_mb": 100,
    "lag": {"metered-in/0": 3, "metered-in/1": 0},
    "consumed": 10,
    "waits": {"metered-in/0": [10, 25, 4]},
    "at": 1.0,
}


@pytest.fixture(scope="module")
def dashboard():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EAGRE_DASHBOARD_TOKEN", TOKEN)
        started = Dashboard(shown=lambda: [run_of(about={}, metrics=JVM_METRICS)])
    with started:
        yield started


def port_of(dashboard):
    return int(dashboard.url.rsplit(":", 1)[1].strip("/"))


def ask(dashboard, path, method="GET", **headers):
    """Send one request exactly as given, without the headers that a client adds."""
    port = port_of(dashboard)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Host": f"127.0.0.1:{port}", **headers}.items():
        for line in [value] if isinstance(value, str) else value:
            connection.putheader(name, line)
    connection.endheaders()
    answer = connection.getresponse()
    answer.body = answer.read() if "event-stream" not in str(answer.headers) else b""
    connection.close()
    return answer


def bearer(token=TOKEN):
    return {"Authorization": f"Bearer {token}"}


EVERYTHING = [*ASSETS, "/api/state", "/api/events", "/api/records?topic=x", "/metrics", "/none"]


@pytest.mark.parametrize("path", EVERYTHING)
def test_every_request_needs_the_token(dashboard, path):
    assert ask(dashboard, path).status == 401
    assert ask(dashboard, path, **bearer("wrong")).status == 401
    assert ask(dashboard, path, **bearer(TOKEN[:-1])).status == 401
    assert ask(dashboard, path, **bearer(TOKEN + "x")).status == 401
    assert ask(dashboard, path, Cookie=f"eagre_{port_of(dashboard)}=wrong").status == 401
    assert ask(dashboard, path + ("&" if "?" in path else "?") + "token=wrong").status == 401
    assert TOKEN.encode() not in ask(dashboard, path).body


def test_the_address_sets_a_cookie_and_drops_the_token(dashboard):
    answer = ask(dashboard, "/?token=" + TOKEN)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    inside = ask(dashboard, "/", Cookie=cookie.split(";")[0])
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
def test_an_unknown_host_name_is_refused_as_dns_rebinding(dashboard, host):
    name = host.format(port=port_of(dashboard))
    assert ask(dashboard, "/api/state", Host=name, **bearer()).status == 421
    assert ask(dashboard, "/healthz", Host=name).status == 421


def test_two_host_headers_are_refused(dashboard):
    host = f"127.0.0.1:{port_of(dashboard)}"
    assert ask(dashboard, "/api/state", Host=[host, "evil.example"], **bearer()).status == 421
    assert (
        ask(dashboard, "/api/state", Host=f"localhost:{port_of(dashboard)}", **bearer()).status
        == 200
    )


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_requests_from_other_origins_are_refused_even_with_the_cookie(dashboard, origin):
    cookie = f"eagre_{port_of(dashboard)}={TOKEN}"
    foreign = origin.format(port=port_of(dashboard))
    assert ask(dashboard, "/api/state", Origin=foreign, Cookie=cookie).status == 403
    same = f"http://127.0.0.1:{port_of(dashboard)}"
    assert ask(dashboard, "/api/state", Origin=same, Cookie=cookie).status == 200


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "FOO"]
)
def test_only_get_and_head_are_allowed(dashboard, method):
    for path in ("/api/state", "/healthz"):
        assert ask(dashboard, path, method).status == 401
        assert ask(dashboard, path, method, **bearer()).status == 405


def test_head_has_no_body(dashboard):
    answer = ask(dashboard, "/api/state", "HEAD", **bearer())
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
def test_other_files_are_not_served(dashboard, path):
    answer = ask(dashboard, path, **bearer())
    assert answer.status == 404
    assert b"import" not in answer.body


@pytest.mark.parametrize("path", [*ASSETS, "/api/state", "/metrics", "/healthz", "/none"])
def test_every_response_has_security_headers(dashboard, path):
    headers = ask(dashboard, path, **bearer()).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


def test_the_dashboard_loads_nothing_from_outside():
    for name, _ in ASSETS.values():
        text = (files("eagre.dashboard") / "static" / name).read_text()
        addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
        assert "innerHTML" not in text


def test_it_listens_on_loopback_only(dashboard):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        outside = probe.getsockname()[0]
    if outside.startswith("127."):
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((outside, port_of(dashboard)), 2)


@pytest.mark.parametrize(
    ("path", "headers", "allowed"),
    [
        ("/healthz", {}, True),
        ("/readyz", {}, True),
        ("/metrics", bearer(), True),
        ("/api/state", bearer(), True),
        ("/metrics", {}, False),
        ("/metrics", bearer("wrong"), False),
        ("/api/state", {"Cookie": f"eagre_9464={TOKEN}"}, False),
        (f"/?token={TOKEN}", {}, False),
    ],
)
def test_on_a_network_programs_may_use_any_name_of_the_machine(path, headers, allowed):
    """Kubelets and scrapers use the name of a service; browsers are held to the address."""
    asked = {"Host": "score.default.svc:9464", **headers}
    refusal = Guard("10.0.0.7", 9464, TOKEN).judge("GET", path, asked)
    assert (refusal is None) == allowed
    assert Guard("127.0.0.1", 9464, TOKEN).judge("GET", path, asked).code == 421


def test_a_run_serves_on_another_address_with_the_token(monkeypatch, call, tmp_path):
    monkeypatch.setenv("EAGRE_DASHBOARD_TOKEN", TOKEN)
    answers = {}

    def look(_, page):
        url = urlsplit(page)
        for path, headers in (("/metrics", {}), ("/metrics", bearer()), ("/readyz", {})):
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=10)
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answers[path, *headers] = answer.status
            answer.read()
            connection.close()
        answers["host"] = url.hostname

    monkeypatch.setattr(Supervisor, "run", look)
    (tmp_path / "app.py").touch()
    done = call("run", "app.py", "--dashboard-host", "127.0.0.2")
    assert done.code == 0
    assert "dashboard: http://127.0.0.2:" in done.err
    assert TOKEN not in done.err, "a fixed token would stay in the log of the service"
    assert answers == {
        "host": "127.0.0.2",
        ("/metrics",): 401,
        ("/metrics", "Authorization"): 200,
        ("/readyz",): 503,
    }


def test_the_server_recovers_from_too_many_connections(dashboard):
    held = [
        socket.create_connection(("127.0.0.1", port_of(dashboard)), 5)
        for _ in range(MOST_CONNECTIONS + 10)
    ]
    wait_until(lambda: _closed(held[-1]), 5, "a connection above the limit stayed open")
    for connection in held:
        connection.close()
    wait_until(lambda: _status(dashboard) == 200, 10, "it never answered again")


def _status(dashboard):
    try:
        return ask(dashboard, "/healthz").status
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
def test_listening_on_all_addresses_is_refused(host):
    with pytest.raises(SettingsError, match="PAGE_HOST"):
        Dashboard(host=host)


def test_a_port_in_use_is_named(dashboard):
    with pytest.raises(SettingsError, match="PAGE_PORT"):
        Dashboard(port_of(dashboard))


def test_topics_of_no_pipeline_are_not_read(dashboard):
    answer = ask(dashboard, "/api/records?topic=__consumer_offsets", **bearer())
    assert answer.status == 404
    assert json.loads(answer.body)["code"] == "TOPIC_NOT_SHOWN"


@pytest.mark.parametrize(
    ("query", "reader"),
    [("", "newest"), ("&dead_letters=1", "dead"), ("&letters=1", "dead"), ("&letters=0", "newest")],
)
def test_dead_letters_are_read_by_their_name_and_by_the_old_one(
    dashboard, monkeypatch, query, reader
):
    cluster = SimpleNamespace(
        newest=lambda *_, **__: ["newest"], dead_letters=lambda *_, **__: ["dead"]
    )
    monkeypatch.setattr(Clusters, "find", lambda *_: cluster)
    answer = ask(dashboard, f"/api/records?topic=t{query}", **bearer())
    assert json.loads(answer.body)["records"] == [reader]


def served(status, path):
    with Dashboard(shown=lambda: [status]) as dashboard:
        wait_until(lambda: dashboard.views, 5, "no pipeline is followed")
        token = dashboard.address.split("token=")[1]
        return ask(dashboard, path, **bearer(token))


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
        (
            {"overdue_seconds": 7.0, "overdue_reason": "3 rows are in flight"},
            "/readyz",
            503,
            "score: a commit is overdue by 7 s: 3 rows are in flight",
        ),
        (
            {"overdue_seconds": 7.0, "overdue_reason": "3 rows are in flight"},
            "/healthz",
            200,
            "",
        ),
        ({"phase": "failed", "failure": "QUERY_FAILED: no"}, "/healthz", 503, "QUERY_FAILED: no"),
    ],
)
def test_probes_have_reasons(changes, path, code, reason):
    run = run_of()
    for name, value in changes.items():
        setattr(run.pipelines["score"], name, value)
    answer = served(run, path)
    body = json.loads(answer.body)
    assert (answer.status, body["ok"]) == (code, code == 200)
    assert reason in " ".join(body["reasons"])


@pytest.mark.parametrize(
    ("path", "reasons"), [("/healthz", ["score: failed"]), ("/readyz", ["score: failed"])]
)
def test_probes_without_the_token_show_no_texts(path, reasons):
    run = run_of()
    status = run.pipelines["score"]
    status.phase, status.failure, status.reason = "failed", "QUERY_FAILED: card 4711", "at k:9092"
    with Dashboard(shown=lambda: [run]) as dashboard:
        wait_until(lambda: dashboard.views, 5, "no pipeline is followed")
        answer = ask(dashboard, path)
    assert answer.status == 503
    assert json.loads(answer.body) == {"ok": False, "reasons": reasons}


def test_deeply_nested_json_is_shown_as_it_is():
    deep = b"[" * 100_000
    assert decoded(deep) == "[" * 600 + "…"


def _is_cut_off(connection, seconds):
    """Send one byte after another; return whether the other side closes the connection."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            connection.sendall(b"G")
        except OSError:
            return True
        if _closed(connection):
            return True
    return False


def test_a_slow_request_is_cut_off_as_a_whole(dashboard, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_SECONDS", 1)
    with socket.create_connection(("127.0.0.1", port_of(dashboard)), 5) as slow:
        assert _is_cut_off(slow, 8)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("http://[::1/", {}, 400),
        ("/healthz", {"Origin": "http://[::1"}, 400),
        ("/" + "a" * 70_000, {}, 414),
        ("/healthz", {"X": "a" * 70_000}, 431),
        ("/healthz", {f"X{n}": "a" for n in range(200)}, 431),
    ],
)
def test_malformed_requests_get_a_plain_answer(dashboard, path, headers, status):
    answer = ask(dashboard, path, **headers)
    assert answer.status == status
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.body.startswith(b"eagre: ")


@pytest.mark.parametrize(("headers", "closed"), [({}, True), (bearer(), False)])
def test_clients_without_the_token_do_not_keep_their_place(dashboard, headers, closed):
    """64 of them that ask a probe now and then would hold every place."""
    port = port_of(dashboard)
    lines = {"Host": f"127.0.0.1:{port}", **headers}
    request = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        client.sendall(f"GET /healthz HTTP/1.1\r\n{request}\r\n".encode())
        answer = http.client.HTTPResponse(client)
        answer.begin()
        answer.read()
        client.settimeout(2)
        assert (answer.headers["Connection"] == "close") == closed
        assert _closed(client) == closed


def test_without_a_pipeline_the_dashboard_is_not_ready():
    with Dashboard(shown=list) as dashboard:
        assert json.loads(ask(dashboard, "/readyz").body)["reasons"] == ["no pipeline is running"]


LINE = re.compile(r'([a-z_:]+)\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\} (-?[0-9.e+-]+|NaN|\+Inf)')


def test_metrics_are_in_the_prometheus_format():
    epoch = {
        "batch": 3,
        "ended": 1.0,
        "phases": {"addBatch": 900, "walCommit": 5},
        "state": {"operators": 1, "keys": 7, "memory_bytes": 10, "disk_bytes": 20},
    }
    run = run_of(metrics=JVM_METRICS, epochs=[epoch], about={"slo": ""}, written=5, lag=3)
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
    score = 'pipeline="score",mode="real-time",pid="4711"'
    assert f'eagre_source_lag_records{{{score},topic="metered-in",partition="0"}} 3' in body
    assert f'eagre_source_records_total{{{score},topic="metered-in",partition="0"}} 10' in body
    assert f"eagre_heap_used_bytes{{{score}}} " in body, "a JVM has no partition"
    buckets = [int(s[3]) for s in samples if s[1] == "eagre_latency_seconds_bucket"]
    assert buckets == sorted(buckets)
    assert 'le="+Inf"' in body
    assert f"eagre_state_keys{{{score}}} 7" in body


def test_counters_have_their_full_precision():
    """``rate()`` needs the small differences of large numbers."""
    metrics = {**JVM_METRICS, "paused_ms": 1_234_567_891, "waits": {"in/0": [10, 9876543217, 4]}}
    run = run_of(metrics=metrics, about={}, written=123_456_789_012)
    body = served(run, "/metrics").body.decode()
    assert re.search(r"eagre_gc_pause_seconds_total\{.*\} 1234567\.891$", body, re.MULTILINE)
    assert re.search(r"eagre_source_wait_seconds_total\{.*\} 9876543\.217$", body, re.MULTILINE)
    assert re.search(r"eagre_sink_records_total\{.*\} 123456789012$", body, re.MULTILINE)


def test_a_topic_on_two_clusters_has_two_samples():
    """Prometheus discards samples that repeat a name and its labels."""
    topic = {"topic": "payments", "dead_letters": False, "records": 3}
    seen = [{**topic, "brokers": address} for address in ("a:1", "b:1", "b:1")]
    recorder = SimpleNamespace(views={}, clusters=SimpleNamespace(describe=lambda: seen))
    lines = metrics.exposition(recorder).splitlines()
    samples = [line.rsplit(" ", 1)[0] for line in lines if line.startswith("eagre_topic_records")]
    assert len(samples) == len(set(samples)) == 2


def test_the_grafana_dashboard_uses_existing_metrics():
    text = (Path(__file__).parent.parent / "docs" / "grafana" / "eagre.json").read_text()
    board = json.loads(text)
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    for expression in queries:
        for name in re.findall(r"eagre_\w+", expression):
            family = re.sub(r"_bucket$", "", name)
            assert family in FAMILIES, expression
    assert {re.sub(r"_bucket$", "", n) for n in re.findall(r"eagre_\w+", " ".join(queries))} >= {
        "eagre_latency_seconds",
        "eagre_slo_burn_rate",
        "eagre_source_lag_records",
    }


def test_the_state_equals_the_status(dashboard):
    wait_until(lambda: dashboard.views, 5, "no pipeline is followed")
    state = json.loads(ask(dashboard, "/api/state", **bearer()).body)
    [view] = state["pipelines"]
    expected = run_of(about={}, metrics=JVM_METRICS).as_dict()["pipelines"]["score"]
    assert {**view["status"], "since": 0} == {**expected, "since": 0}
    assert view["waiting"]


@pytest.mark.long
def test_many_seconds_for_ten_clients_leave_memory_flat():
    """Simulate ten minutes with short seconds; docs/how-to/dashboard.md has a real run."""
    run = run_of(metrics=JVM_METRICS)
    tracemalloc.start()
    with Dashboard(shown=lambda: [run], every=0.005) as dashboard:
        token = dashboard.address.split("token=")[1]
        over = threading.Event()
        readers = [
            threading.Thread(target=_listen, args=(dashboard, token, over)) for _ in range(10)
        ]
        for reader in readers:
            reader.start()
        _pass(dashboard, 1000)
        before = _memory()
        _pass(dashboard, 600)
        grown = _memory() - before
        tracemalloc.stop()
        over.set()
        for reader in readers:
            reader.join()
    assert grown < 1_500_000


def _memory():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _pass(dashboard, seconds):
    until = dashboard._recorder.number + seconds  # noqa: SLF001
    wait_until(lambda: dashboard._recorder.number >= until, 60, "the seconds do not pass")  # noqa: SLF001


def _listen(dashboard, token, over):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(dashboard), timeout=10)
    connection.request("GET", "/api/events", headers=bearer(token))
    answer = connection.getresponse()
    while not over.is_set():
        answer.read1(65536)
    connection.close()
