"""The web server of the dashboard: its files, events, metrics and probes."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from io import BufferedReader, RawIOBase
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
"""How long a client may take to send a request, and to receive an answer."""
QUIET_SECONDS = 10
"""How long an event stream may be silent before a comment keeps it open."""

ASSETS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/dashboard.css": ("dashboard.css", "text/css; charset=utf-8"),
    "/dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/panels.js": ("panels.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
log = logging.getLogger("eagre")

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


class Server(ThreadingHTTPServer):
    """Serves each connection in a thread; closes connections beyond the limit immediately."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, host: str, port: int, token: str, recorder: Recorder) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)
        self.recorder = recorder
        self.guard = Guard(host, self.server_address[1], token)
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Acquire a slot, or close the connection."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Serve the request, then release the slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Ignore clients that disconnect."""


class TimedReader(RawIOBase):
    """Reads from a socket until a deadline, however slowly the bytes arrive.

    A timeout of the socket would begin again with each byte.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._socket = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  (a buffer)
        """Read what has arrived.

        Raises:
            TimeoutError: The deadline has passed.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._socket.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "eagre"
    sys_version = ""
    timeout = REQUEST_SECONDS
    error_content_type = TEXT
    error_message_format = "eagre: %(message)s\n"

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Route every HTTP method, known or not, through the guard."""
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401
        """Log nothing: addresses may contain the token."""

    def setup(self) -> None:
        """Prepare the connection: a request must arrive as a whole within the time limit."""
        super().setup()
        self.rfile.close()
        self._reader = TimedReader(self.connection)
        self.rfile = BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Serve one request."""
        self._reader.deadline = time.monotonic() + REQUEST_SECONDS
        super().handle_one_request()

    def end_headers(self) -> None:
        """Add the headers of every response, also to those that report a malformed request."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def _answer(self) -> None:
        headers = dict(self._checked_headers())
        refusal = self._refusal(headers)
        if refusal:
            self._refuse(refusal)
            return
        self._trusted = self.server.guard.has_token(self.path, headers)
        if not self._trusted:
            self.close_connection = True  # or clients without the token could hold every place
        self.connection.settimeout(REQUEST_SECONDS)
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        try:
            self._route(path, {key: values[0] for key, values in query.items()})
        except EagreError as error:
            body = {"code": error.code, "problem": error.problem, "hint": error.hint}
            self._send(404, _json(body), JSON)
        except OSError:
            self.close_connection = True  # the client disconnected
        except Exception:
            log.exception("the dashboard failed to serve %s", path)
            self.close_connection = True
            self._send(500, b"eagre: internal error; see the log\n", TEXT)

    def _refusal(self, headers: dict[str, str]) -> Refusal | None:
        try:
            return self.server.guard.judge(self.command, self.path, headers)
        except ValueError:
            return Refusal(400, "the address or the origin is malformed")

    def _checked_headers(self) -> list[tuple[str, str]]:
        """Return the headers that the guard checks; a duplicate header is made invalid."""
        names = ("Host", "Origin", "Cookie", "Authorization")
        headers = [(name, self.headers.get_all(name) or []) for name in names]
        return [
            (name, values[0] if len(values) == 1 else "\0") for name, values in headers if values
        ]

    def _route(self, path: str, query: dict[str, str]) -> None:
        if path in ASSETS:
            self._asset(path, query)
        elif path in self.ROUTES:
            self.ROUTES[path](self, query)
        else:
            self._send(404, b"not found\n", TEXT)

    def _asset(self, path: str, query: dict[str, str]) -> None:
        if path == "/" and "token" in query:
            self._send(
                303, b"", TEXT, {"Location": "/", "Set-Cookie": self.server.guard.set_cookie()}
            )
            return
        name, kind = ASSETS[path]
        self._send(200, (files("eagre.dashboard") / "static" / name).read_bytes(), kind)

    def _state(self, _: dict[str, str]) -> None:
        self._send(200, _json(self.server.recorder.full_state()), JSON)

    def _metrics(self, _: dict[str, str]) -> None:
        text = metrics.exposition(self.server.recorder)
        self._send(200, text.encode(), metrics.CONTENT_TYPE)

    def _healthz(self, _: dict[str, str]) -> None:
        self._probe(*metrics.healthy(self.server.recorder, details=self._trusted))

    def _readyz(self, _: dict[str, str]) -> None:
        self._probe(*metrics.ready(self.server.recorder, details=self._trusted))

    def _probe(self, ok: bool, reasons: list[str]) -> None:  # noqa: FBT001
        self._send(200 if ok else 503, _json({"ok": ok, "reasons": reasons}), JSON)

    def _records(self, query: dict[str, str]) -> None:
        topic = query.get("topic", "")
        recorder = self.server.recorder
        payloads = recorder.payloads and query.get("payloads") != "0"
        cluster = recorder.clusters.find(topic)
        dead_letters = query.get("dead_letters", query.get("letters"))  # its name until 0.2
        read = cluster.dead_letters if dead_letters == "1" else cluster.newest
        body: dict[str, Any] = {"topic": topic, "payloads": payloads, "records": [], "problem": ""}
        try:
            body["records"] = read(topic, payloads=payloads)
        except BrokerError as error:
            body["problem"] = error.problem
        self._send(200, _json(body), JSON)

    def _events(self, _: dict[str, str]) -> None:
        """Send the full state, then an update every second."""
        self.close_connection = True
        self._head(200, "text/event-stream; charset=utf-8", {"Connection": "close"})
        if self.command == "HEAD":
            return
        recorder = self.server.recorder
        number = recorder.number
        with contextlib.suppress(OSError):
            self._event("everything", _json(recorder.full_state()))
            while not recorder.closed:
                number, latest = recorder.wait_for_update(number, QUIET_SECONDS)
                if latest:
                    self._event("second", latest)
                else:
                    self.wfile.write(b": keep-alive\n\n")

    def _event(self, name: str, data: bytes) -> None:
        self.wfile.write(b"event: " + name.encode() + b"\ndata: " + data + b"\n\n")
        self.wfile.flush()

    def _refuse(self, refusal: Refusal) -> None:
        self.close_connection = True
        headers = {"Connection": "close"}
        if refusal.code == 401:  # noqa: PLR2004
            headers["WWW-Authenticate"] = "Bearer"
        elif refusal.code == 405:  # noqa: PLR2004
            headers["Allow"] = "GET, HEAD"
        self._send(refusal.code, f"eagre: {refusal.reason}\n".encode(), TEXT, headers)

    def _head(self, code: int, kind: str, headers: dict[str, str]) -> None:
        self.send_response(code)
        closing = {"Connection": "close"} if self.close_connection else {}
        for name, value in {"Content-Type": kind, **closing, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(
        self, code: int, body: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self._head(code, kind, {"Content-Length": str(len(body)), **(headers or {})})
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
