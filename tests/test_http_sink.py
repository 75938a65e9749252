"""``eg.Http`` against a real HTTP server."""

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
        sinks.append(eg.Http(url, **options))
        sinks[-1].open()
        return sinks[-1]

    yield enter
    for sink in sinks:
        sink.close()


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
    assert "s3cret" not in str(eg.Http(server.url, credentials=str(file)).__dict__)
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
