"""``eg.Http`` against a real HTTP server."""

import itertools
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer
from urllib.parse import unquote

import pytest
from pyspark.sql import Row

import eagre as eg
from eagre.errors import SettingsError
from test_dead_letters import DeadLetterTopic

ROWS = [{"card": f"c {i % 3}/ü", "n": i} for i in range(20)]


class Server:
    """Records requests, and answers as ``answer`` says: a status and headers for each path."""

    def __init__(self):
        self.requests = []
        self.connections = set()
        self.answer = lambda _: (200, {})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                size = int(self.headers.get("Content-Length", 0))
                request = {
                    "method": self.command,
                    "path": self.path,
                    "headers": dict(self.headers),
                    "body": self.rfile.read(size),
                    "at": time.monotonic(),
                }
                outer.connections.add(self.client_address)
                outer.requests.append(request)
                status, headers = outer.answer(request)
                self.send_response(status)
                for name, value in {"Content-Length": "2", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"ok")

            do_POST = do_PUT = do_GET = handle_any  # noqa: N815  (as http.server calls them)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def bodies(self):
        return [json.loads(request["body"]) for request in self.requests]


@pytest.fixture
def server():
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def opened():
    """Open a sink, and close it at the end of the test."""
    sinks = []

    def enter(url, **options):
        sink = eg.Http(url, **options)
        sink.open()
        sinks.append(sink)
        return sink

    yield enter
    for sink in sinks:
        sink.close()


@pytest.fixture
def raw():
    """A server that sends each request the next of several answers, byte by byte as given."""
    servers = []

    def serve(*answers):
        rest = iter(answers)

        class Handler(StreamRequestHandler):
            def handle(self):
                while line := self.rfile.readline():
                    size = 0
                    while line.strip():
                        name, _, value = line.partition(b":")
                        size = int(value) if name.lower() == b"content-length" else size
                        line = self.rfile.readline()
                    self.rfile.read(size)
                    for part in next(rest):
                        self.wfile.write(part)

        server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield serve
    for server in servers:
        server.shutdown()
        server.socket.close()


def source(name):
    return eg.Kafka(name, schema="card STRING, n INT", partitions=1)


def row(**values):
    made = Row(**values)
    made.__dict__["_id"] = "p/t/0/7/0"
    return made


def test_each_row_is_a_request_on_one_open_connection(run_in_both_modes, server):
    url = f"{server.url}/cards/{{card}}?n={{n}}"

    @eg.pipeline(source=source("http-in"), sink=eg.Http(url, headers={"X-Card": "{n}"}))
    def sent(df):
        return df

    run_in_both_modes(sent, ROWS)
    assert sorted(server.bodies(), key=lambda b: b["n"]) == ROWS
    first = server.requests[0]
    assert first["method"] == "POST"
    assert unquote(first["path"]) == "/cards/c 0/ü?n=0"
    assert "%2F" in first["path"]
    assert first["headers"]["X-Card"] == "0"
    assert first["headers"]["Content-Type"] == "application/json"
    keys = {request["headers"]["Idempotency-Key"] for request in server.requests}
    assert len(keys) == len(ROWS)
    assert all(key.startswith("sent/http-in/0/") for key in keys)
    assert len(server.connections) <= 3


def test_a_body_is_a_template(server, opened):
    body = {"text": "{card} spent {n}", "tags": ["{card}", 3]}
    assert opened(server.url, body=body, method="PUT").write([row(card='a"b', n=2)]) == []
    assert server.bodies() == [{"text": 'a"b spent 2', "tags": ['a"b', 3]}]
    assert server.requests[0]["method"] == "PUT"
    opened(server.url, body="card={card}").write([row(card="x", n=2)])
    assert server.requests[1]["body"] == b"card=x"


def test_a_busy_server_is_asked_again_after_its_pause(run_in_both_modes, server):
    seen = Counter()

    def answer(request):
        seen[request["headers"]["Idempotency-Key"]] += 1
        first = seen[request["headers"]["Idempotency-Key"]] == 1
        busy = first and json.loads(request["body"])["n"] == 3
        return (503, {"Retry-After": "1"}) if busy else (200, {})

    server.answer = answer

    @eg.pipeline(source=source("http-busy"), sink=eg.Http(server.url))
    def again(df):
        return df

    run_in_both_modes(again, ROWS)
    tries = [r for r in server.requests if json.loads(r["body"])["n"] == 3]
    assert len(tries) == 2
    assert tries[1]["at"] - tries[0]["at"] >= 1
    assert tries[0]["headers"]["Idempotency-Key"] == tries[1]["headers"]["Idempotency-Key"]
    assert sorted({body["n"] for body in server.bodies()}) == list(range(20))


def test_a_refused_request_is_a_dead_letter(run_in_both_modes, server, eagre_harness):
    server.answer = lambda request: (422 if json.loads(request["body"])["n"] == 4 else 204, {})
    dead_letters = DeadLetterTopic(eagre_harness, "http-refused")

    @eg.pipeline(source=source("http-refused"), sink=eg.Http(server.url))
    def refused(df):
        return df

    run_in_both_modes(refused, ROWS)
    assert [json.loads(record.value())["n"] for record in dead_letters.records()] == [4]
    assert dead_letters.reasons()[0].endswith(
        "refuses the row: 127.0.0.1 answered 422 Unprocessable Entity: ok"
    )


def test_credentials_are_read_by_the_worker_and_named_nowhere(server, opened, tmp_path):
    file = tmp_path / "pager"
    file.write_text("Authorization: Bearer s3cret\n")
    assert "s3cr" not in str(eg.Http(server.url, credentials=str(file)).__dict__)
    opened(server.url, credentials=str(file)).write([row(card="a", n=1)])
    assert server.requests[0]["headers"]["Authorization"] == "Bearer s3cret"


def test_a_lost_idle_connection_is_opened_again(server, opened):
    server.answer = lambda _: (200, {"Connection": "close"})
    sink = opened(server.url)
    for n in range(3):
        assert sink.write([row(card="a", n=n)]) == []
    assert [body["n"] for body in server.bodies()] == [0, 1, 2]


def test_the_rate_limits_requests(server, opened):
    sink = opened(server.url, rate=20)
    began = time.monotonic()
    for n in range(5):
        sink.write([row(card="a", n=n)])
    assert time.monotonic() - began >= 4 / 20


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("ftp://host/x", {}, "needs a URL"),
        ("https://{card}.host/x", {}, "needs a URL"),
        ("https://user:pass@host/x", {}, "credentials in its URL"),
        ("https://host/x", {"rate": 0.01}, "has the rate"),
        ("https://host/x", {"headers": {"authorization": "x"}}, "a secret in the program"),
        ("http://host/x", {"credentials": "f"}, "unencrypted"),
        ("http://host:99999/x", {}, "needs a URL"),
        ("http://host/x y", {}, "needs a URL"),
        ("http://host/ü", {}, "needs a URL"),
        ("http://host/x", {"rate": float("nan")}, "has the rate"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(url, options, said):
    with pytest.raises(SettingsError, match=said):
        eg.Http(url, **options)


def test_a_row_without_the_column_of_a_template_is_refused(server, opened):
    [refused] = opened(server.url + "/{missing}").write([row(card="a", n=1)])
    assert "KeyError" in refused.reason
    injected = opened(server.url, headers={"X": "{card}"})
    [refused] = injected.write([row(card="a\r\nX-Evil: 1", n=1)])
    assert "line break" in refused.reason
    assert server.requests == []


NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
REFUSAL = b"HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("headers", [{"X": "{card}"}, {"X": "{card.name}"}, {"X": "{card[name]}"}])
def test_a_row_that_fits_into_no_request_is_refused(server, opened, headers):
    [refused] = opened(server.url, headers=headers).write([row(card="日本", n=1)])
    assert "cannot be made" in refused.reason
    assert server.requests == []


def test_the_final_answer_counts_after_interim_ones(raw, opened):
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    sink = opened(raw([interim, interim, NO_CONTENT], [REFUSAL], [interim, NO_CONTENT]))
    assert [len(sink.write([row(n=n)])) for n in range(3)] == [0, 1, 0]


def test_an_acknowledged_row_needs_no_end_of_the_answer(raw, opened):
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    endless = itertools.chain([head], itertools.repeat(chunk, 100))
    cut = [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"half"]
    sink = opened(raw(endless, cut, [REFUSAL]), request_timeout=1)
    assert [len(sink.write([row(n=n)])) for n in range(3)] == [0, 0, 1]


def test_the_rate_limits_requests_that_are_sent_again(server, opened):
    server.answer = lambda _: (503, {})
    sink = opened(server.url, rate=10)
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(Exception, match="answered 503"):
            sink.write([row(n=1)])
        sink.close()
        sink.open()
    assert time.monotonic() - began >= 2 / 10


def test_the_users_content_type_is_the_only_one(opened, server):
    headers = {"content-type": "text/xml"}
    opened(server.url, headers=headers, body="<a/>").write([row(n=1)])
    sent = server.requests[0]["headers"]
    assert [v for name, v in sent.items() if name.lower() == "content-type"] == ["text/xml"]


def test_an_ipv6_address_needs_no_port(opened):
    assert opened("http://[::1]/x")._host == ("::1", 80)  # noqa: SLF001  (nothing listens there)


@pytest.mark.parametrize("line", ["Bearer s3cret", "Bearer s3cret:x", "Authorization: s3crét"])
def test_a_wrong_line_of_credentials_is_refused_and_not_quoted(server, opened, tmp_path, line):
    file = tmp_path / "pager"
    file.write_text(f"X-Fine: yes\n{line}\n", "utf-8")
    with pytest.raises(ValueError, match="line 2 of the credentials") as caught:
        opened(server.url, credentials=str(file))
    assert "s3cr" not in str(caught.value)


def test_an_answer_that_repeats_the_credentials_is_not_quoted_with_them(raw, opened, tmp_path):
    file = tmp_path / "pager"
    file.write_text("Authorization: Bearer s3cret\n")
    echo = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 13\r\n\r\nbad s3cret :("
    [refused] = opened(raw([echo]), credentials=str(file)).write([row(n=1)])
    assert refused.reason == "127.0.0.1 answered 400 Bad Request: bad *** :("
