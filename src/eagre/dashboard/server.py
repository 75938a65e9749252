"""The server: a page, its events, and what machines ask. Small enough for the standard library."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from eagre.dashboard import metrics
from eagre.dashboard.guard import HEADERS, Guard, Refusal
from eagre.errors import BrokerError, EagreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.dashboard.recorder import Recorder

MOST_CONNECTIONS = 64
REQUEST_SECONDS = 15
QUIET_SECONDS = 10
"""How long an event stream may be silent before a comment keeps it open."""

ASSETS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/panels.js": ("panels.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
log = logging.getLogger("eagre")

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


class Server(ThreadingHTTPServer):
    """Listens in threads; more connections than it will serve are closed at once."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, host: str, port: int, token: str, recorder: Recorder) -> None:
        super().__init__((host, port), Handler)
        self.recorder = recorder
        self.guard = Guard(host, self.server_address[1], token)
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Take a place, or close the connection."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer, and leave the place again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """A client that goes away is no news."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "eagre"
    sys_version = ""
    timeout = REQUEST_SECONDS

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Every method, known or not, is judged by the same guard."""
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401
        """Say nothing: addresses may hold the token."""

    def _answer(self) -> None:
        refusal = self.server.guard.judge(self.command, self.path, dict(self._named()))
        if refusal:
            self._refuse(refusal)
            return
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        try:
            self._route(path, {key: values[0] for key, values in query.items()})
        except EagreError as error:
            told = {"code": error.code, "problem": error.problem, "hint": error.hint}
            self._send(404, _json(told), JSON)
        except OSError:
            self.close_connection = True  # the client went away: no news
        except Exception:
            log.exception("the page cannot answer %s", path)
            self.close_connection = True
            self._send(500, b"eagre: this failed; the log says why\n", TEXT)

    def _named(self) -> list[tuple[str, str]]:
        """The headers by their usual names; one that comes twice is no header."""
        names = ("Host", "Origin", "Cookie", "Authorization")
        found = [(name, self.headers.get_all(name) or []) for name in names]
        return [(name, values[0] if len(values) == 1 else "\0") for name, values in found if values]

    def _route(self, path: str, query: dict[str, str]) -> None:
        if path in ASSETS:
            self._asset(path, query)
        elif path in self.ROUTES:
            self.ROUTES[path](self, query)
        else:
            self._send(404, b"there is no such page\n", TEXT)

    def _asset(self, path: str, query: dict[str, str]) -> None:
        if path == "/" and "token" in query:
            self._send(
                303, b"", TEXT, {"Location": "/", "Set-Cookie": self.server.guard.set_cookie()}
            )
            return
        name, kind = ASSETS[path]
        self._send(200, (files("eagre.dashboard") / "static" / name).read_bytes(), kind)

    def _state(self, _: dict[str, str]) -> None:
        self._send(200, _json(self.server.recorder.everything()), JSON)

    def _metrics(self, _: dict[str, str]) -> None:
        text = metrics.exposition(self.server.recorder)
        self._send(200, text.encode(), metrics.CONTENT_TYPE)

    def _healthz(self, _: dict[str, str]) -> None:
        self._probe(*metrics.healthy(self.server.recorder))

    def _readyz(self, _: dict[str, str]) -> None:
        self._probe(*metrics.ready(self.server.recorder))

    def _probe(self, ok: bool, reasons: list[str]) -> None:  # noqa: FBT001
        self._send(200 if ok else 503, _json({"ok": ok, "reasons": reasons}), JSON)

    def _records(self, query: dict[str, str]) -> None:
        topic = query.get("topic", "")
        recorder = self.server.recorder
        payloads = recorder.payloads and query.get("payloads") != "0"
        cluster = recorder.clusters.find(topic)
        read = cluster.letters if query.get("letters") == "1" else cluster.newest
        told: dict[str, Any] = {"topic": topic, "payloads": payloads, "records": [], "problem": ""}
        try:
            told["records"] = read(topic, payloads=payloads)
        except BrokerError as error:
            told["problem"] = error.problem
        self._send(200, _json(told), JSON)

    def _events(self, _: dict[str, str]) -> None:
        """Send everything, then each second as it ends."""
        self.close_connection = True
        self._head(200, "text/event-stream; charset=utf-8", {"Connection": "close"})
        if self.command == "HEAD":
            return
        recorder = self.server.recorder
        number = recorder.number
        with contextlib.suppress(OSError):
            self._event("everything", _json(recorder.everything()))
            while not recorder.closed:
                number, latest = recorder.news(number, QUIET_SECONDS)
                if latest:
                    self._event("second", latest)
                else:
                    self.wfile.write(b": still here\n\n")

    def _event(self, name: str, data: bytes) -> None:
        self.wfile.write(b"event: " + name.encode() + b"\ndata: " + data + b"\n\n")
        self.wfile.flush()

    def _refuse(self, refusal: Refusal) -> None:
        self.close_connection = True
        more = {"Connection": "close"}
        if refusal.code == 401:  # noqa: PLR2004
            more["WWW-Authenticate"] = "Bearer"
        elif refusal.code == 405:  # noqa: PLR2004
            more["Allow"] = "GET, HEAD"
        self._send(refusal.code, f"eagre: {refusal.reason}\n".encode(), TEXT, more)

    def _head(self, code: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {**HEADERS, "Content-Type": kind, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, code: int, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self._head(code, kind, {"Content-Length": str(len(body)), **(more or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    ROUTES: ClassVar[dict[str, Callable[[Handler, dict[str, str]], None]]] = {
        "/api/state": _state,
        "/api/events": _events,
        "/api/records": _records,
        "/metrics": _metrics,
        "/healthz": _healthz,
        "/readyz": _readyz,
    }


def _json(value: Any) -> bytes:  # noqa: ANN401  (JSON)
    return json.dumps(value, separators=(",", ":")).encode()
