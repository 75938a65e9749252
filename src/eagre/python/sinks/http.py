"""``eg.Http``: sends rows as HTTP requests.

Workers get this module's code by value (see ``eagre.python.sinks.base``).
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

from eagre.python.sinks.base import Refused, Sink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

AGAIN = frozenset({408, 421, 425, 429, 500, 502, 503, 504})
"""Status codes after which the request is sent again."""
OK = range(200, 300)
SHOWN = 200
"""How many characters of an answer a message quotes."""
LONGEST = 1 << 16
"""How many bytes of an answer are read; after a longer one the connection is closed."""
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
UNUSABLE_IN_URL = re.compile(r"[^\x21-\x7e]")
PORTS = {"http": 80, "https": 443}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
SLOWEST = 0.1
"""The lowest rate: a request waits for its turn, within the time limit of ``write``."""


class Http(Sink):
    """Sends a request for each row.

    >>> alerts = Http("https://pager.example/alerts/{card}", body={"text": "{card} spent {total}"})
    >>> str(alerts)
    "eg.Http('https://pager.example/alerts/{card}')"

    ``{column}`` in the URL, the headers and the body is the row's value; in the URL it is
    percent-encoded. Requests of a task follow each other on one connection, which stays open.

    A status from 200 to 299 acknowledges the row. After 408, 421, 425, 429, 500, 502, 503, 504 or a
    lost connection the request is sent again, at the earliest after ``Retry-After``. Every other
    status refuses the row, which becomes a dead letter.

    Each request has an ``Idempotency-Key``, which stays the same when the row is sent again.

    Attributes:
        url: The URL.
        method: The method.
        body: A string, or a JSON value whose strings are templates. Default: the row as JSON.
        headers: More headers.
        credentials: A file with lines ``Name: value``: headers with secrets. The workers read it,
            on each executor, so that they are in no plan and in no log.
        rate: How many requests per second each task sends at most.
        request_timeout: How many seconds an answer may take.
        idempotency_key: The name of that header; None for none.
        ca: A file with the certificates of authorities to trust. Default: those of the system.
    """

    batch_rows = 1
    _next = 0.0

    def __init__(  # noqa: PLR0913  (each has a default)
        self,
        url: str,
        *,
        method: str = "POST",
        body: Any = None,  # noqa: ANN401  (any JSON)
        headers: Mapping[str, str] | None = None,
        credentials: str | None = None,
        rate: float | None = None,
        request_timeout: float = 10.0,
        idempotency_key: str | None = "Idempotency-Key",
        ca: str | None = None,
        retry_for: str = "1 minute",
        on_refused: str = "dead-letter",
    ) -> None:
        self.url = url
        self.method = method
        self.body = body
        self.headers = dict(headers or {})
        self.credentials = str(Path(credentials).absolute()) if credentials else None
        self.rate = rate
        self.request_timeout = request_timeout
        self.idempotency_key = idempotency_key
        self.ca = str(Path(ca).absolute()) if ca else None
        self.retry_for = retry_for
        self.on_refused = on_refused
        self.timeout = f"{2 * request_timeout + 15:g} seconds"
        self._check()

    def __str__(self) -> str:
        return f"eg.Http({self.url!r})"

    def open(self) -> None:
        """Read the credentials; the first request connects."""
        parts = urlsplit(self.url)
        self._host = (str(parts.hostname), parts.port or PORTS[parts.scheme])
        self._tls = ssl.create_default_context(cafile=self.ca) if parts.scheme == "https" else None
        self._secrets = dict(_secret_headers(self.credentials))
        self._link: Any = None

    def write(self, rows: Sequence[Any]) -> list[Refused]:
        """Send a request for each row."""
        return [refused for row in rows if (refused := self._send(row))]

    def close(self) -> None:
        """Close the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _send(self, row: Any) -> Refused | None:  # noqa: ANN401  (a row)
        try:
            target, body, headers = self._request(row)
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            return Refused(row, f"its request cannot be made: {type(error).__name__}: {error}")
        self._wait_for_turn()
        status, answer, retry_after = self._exchange(target, body, headers)
        if status in OK:
            return None
        where = f"{self._host[0]} answered {status} {http.client.responses.get(status, '')}".strip()
        if status in AGAIN:
            raise Unavailable(where, retry_after)
        return Refused(row, f"{where}: {answer}" if answer else where)

    def _exchange(self, target: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, Any]:
        """Send a request; on a connection that was idle and is closed, once more on a new one."""
        reused = self._link is not None
        try:
            return self._once(target, body, headers)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.close()
            if not reused:
                raise
            return self._once(target, body, headers)
        except BaseException:
            self.close()
            raise

    def _once(self, target: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, Any]:
        if self._link is None:
            host, port = self._host
            if self._tls is not None:
                self._link = http.client.HTTPSConnection(
                    host, port, timeout=self.request_timeout, context=self._tls
                )
            else:
                self._link = http.client.HTTPConnection(host, port, timeout=self.request_timeout)
            self._link.response_class = _FinalResponse
        self._link.request(self.method, target, body, headers)
        response = self._link.getresponse()
        answer = self._start_of(response)
        return response.status, answer, _seconds(response.headers.get("Retry-After"))

    def _start_of(self, response: http.client.HTTPResponse) -> str:
        """Read an answer without its secrets; its status counts even if the rest never comes."""
        end = time.monotonic() + self.request_timeout
        content = b""
        try:
            while len(content) < LONGEST and time.monotonic() < end:
                part = response.read1(LONGEST - len(content))
                content += part
                if not part or response.length == 0:
                    response.close()
                    break
        except (OSError, http.client.HTTPException):
            pass
        if not response.isclosed():
            self.close()
        answer = content.decode(errors="replace")
        for secret in self._secrets.values():
            answer = answer.replace(secret, "***").replace(secret.rpartition(" ")[2], "***")
        return answer.strip()[:SHOWN]

    def _request(self, row: Any) -> tuple[str, bytes, dict[str, str]]:  # noqa: ANN401  (a row)
        values = row.asDict(recursive=True)
        parts = urlsplit(self.url)
        safe = {name: quote(_as_text(value), safe="") for name, value in values.items()}
        target = parts.path.format_map(safe) or "/"
        if parts.query:
            target += "?" + parts.query.format_map(safe)
        texts = {name: _as_text(value) for name, value in values.items()}
        headers = {name: text.format_map(texts) for name, text in self.headers.items()}
        typed = any(name.lower() == "content-type" for name in headers)
        if self.body is None or not isinstance(self.body, str):
            kind = "application/json"
            content = values if self.body is None else _filled(self.body, texts)
            body = json.dumps(content, default=_as_text).encode()
        else:
            kind = "text/plain; charset=utf-8"
            body = self.body.format_map(texts).encode()
        if not typed:
            headers["Content-Type"] = kind
        if self.idempotency_key and row._id:  # noqa: SLF001  (a column of each row)
            headers[self.idempotency_key] = row._id  # noqa: SLF001  (as above)
        if any("\n" in text or "\r" in text for text in headers.values()):
            raise ValueError("a header contains a line break")
        for text in headers.values():
            text.encode("latin-1")
        return target, body, {**headers, **self._secrets}

    def _wait_for_turn(self) -> None:
        if not self.rate:
            return
        now = time.monotonic()
        if now < self._next:
            time.sleep(self._next - now)
        self._next = max(now, self._next) + 1 / self.rate

    def _check(self) -> None:
        from eagre.errors import SettingsError

        problem, hint = self._problem()
        if problem:
            raise SettingsError("HTTP_SINK", f"{self} {problem}.", hint=hint)

    def _problem(self) -> tuple[str, str]:
        parts = urlsplit(self.url)
        if parts.password or parts.username:
            return "has credentials in its URL", "put a header into credentials='FILE'."
        host = parts.hostname and "{" not in parts.netloc and _has_port(parts)
        if parts.scheme not in PORTS or not host or UNUSABLE_IN_URL.search(self.url):
            return (
                "needs a URL such as https://host/path",
                "only path and query may have columns; percent-encode blanks and non-ASCII text.",
            )
        if self.rate is not None and not self.rate >= SLOWEST:
            return (
                f"has the rate {self.rate}",
                f"a task sends {SLOWEST} a second or more.",
            )
        if any(name.lower() in {"authorization", "cookie"} for name in self.headers):
            return (
                "has a header with a secret in the program",
                "put the line 'Authorization: ...' into a file, and pass credentials='FILE'.",
            )
        if self.credentials and parts.scheme == "http" and parts.hostname not in LOOPBACK:
            return "would send its credentials unencrypted", "use https://."
        return "", ""


class _FinalResponse(http.client.HTTPResponse):
    """A response that skips all interim ones, such as 103; ``http.client`` skips only 100."""

    def _read_status(self) -> tuple[str, int, str]:
        version, status, reason = super()._read_status()  # type: ignore[misc]
        interim = http.client.CONTINUE < status < OK.start
        interim = interim and status != http.client.SWITCHING_PROTOCOLS
        return version, http.client.CONTINUE if interim else status, reason


class Unavailable(Exception):  # noqa: N818  (its message is what users see)
    """The server asks to try again later."""

    def __init__(self, reason: str, retry_after: float | None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def _filled(template: Any, texts: dict[str, str]) -> Any:  # noqa: ANN401  (any JSON)
    """Fill in the strings of a JSON value."""
    if isinstance(template, str):
        return template.format_map(texts)
    if isinstance(template, dict):
        return {key: _filled(value, texts) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, texts) for value in template]
    return template


def _as_text(value: Any) -> str:  # noqa: ANN401  (any column)
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, dict)):
        return json.dumps(value, default=_as_text)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds of a ``Retry-After``; None for a date or none."""
    text = (retry_after or "").strip()
    return float(text) if text.isdecimal() else None


def _has_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _secret_headers(path: str | None) -> Iterator[tuple[str, str]]:
    """Yield the headers of a file; an error must not quote it."""
    lines = Path(path).read_text("utf-8-sig").splitlines() if path else ()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, separator, value = (part.strip() for part in line.partition(":"))
        if not separator or not HEADER_NAME.fullmatch(name) or not value.isascii():
            raise ValueError(f"line {number} of the credentials in {path} is not 'Name: value'")
        yield name, value
