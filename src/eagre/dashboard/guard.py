"""Access control: requests need the dashboard's host name, the same origin and the token."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN_BYTES = 24
OPEN = ("/healthz", "/readyz")
"""The paths that probes may request without the token."""
READING = ("GET", "HEAD")
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every response."""


@dataclass(frozen=True)
class Refusal:
    """Why a request is rejected."""

    code: int
    reason: str


def in_url(host: str) -> str:
    """Return a host as a URL has it.

    >>> in_url("10.0.0.7"), in_url("fd00::7")
    ('10.0.0.7', '[fd00::7]')
    """
    return f"[{host}]" if ":" in host else host


def new_token() -> str:
    """Generate an unguessable token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True)
class Guard:
    """Checks requests by their headers before they are processed.

    Probes are open to all; they say more to those who have the token.

    Attributes:
        host: The address that the server listens on.
        port: The port.
        token: The token that requests must carry.
    """

    host: str
    port: int
    token: str = field(repr=False)

    @property
    def cookie(self) -> str:
        """The name of the cookie; it contains the port, as several dashboards may share a host."""
        return f"eagre_{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """The allowed host names; any other name indicates a DNS rebinding attack."""
        names = {in_url(self.host.lower()), "127.0.0.1", "localhost"}
        return frozenset(f"{name}:{self.port}" for name in names)

    def judge(self, method: str, target: str, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request is rejected; None if it is allowed."""
        known = headers.get("Host", "").lower() in self.hosts
        if not known and not self._is_program(target, headers):
            return Refusal(
                421, "the dashboard answers only to its own host name, 127.0.0.1 or localhost"
            )
        origin = headers.get("Origin")
        if origin is not None and not self._is_same_origin(origin):
            return Refusal(403, "cross-origin requests are not allowed")
        has_token = self.has_token(target, headers)
        if method not in READING:
            return Refusal(405, "only GET and HEAD are allowed") if has_token else self._no_token()
        if has_token or urlsplit(target).path in OPEN:
            return None
        return self._no_token()

    def _is_same_origin(self, origin: str) -> bool:
        parts = urlsplit(origin)
        return parts.scheme == "http" and parts.netloc.lower() in self.hosts

    def _no_token(self) -> Refusal:
        return Refusal(401, "open the address that eagre printed: it contains the token")

    def _is_program(self, target: str, headers: Mapping[str, str]) -> bool:
        """Return whether a request over a network is a probe, or has the token in a header.

        Such a request may use any name of the machine, for example that of a Kubernetes service: a
        page that rebinds a name learns nothing from a probe and cannot send the token.
        """
        if self.host in LOOPBACK_NAMES:
            return False
        return urlsplit(target).path in OPEN or self.matches(_bearer(headers))

    def has_token(self, target: str, headers: Mapping[str, str]) -> bool:
        """Return whether a request carries the token: in its URL, a cookie or a header."""
        tokens = [self.in_target(target), self._in_cookie(headers), _bearer(headers)]
        return any(self.matches(token) for token in tokens if token)

    def matches(self, token: str) -> bool:
        """Compare a token in constant time."""
        return secrets.compare_digest(token.encode(), self.token.encode())

    def in_target(self, target: str) -> str:
        """Return the token in a URL; empty if there is none."""
        from urllib.parse import parse_qs

        return parse_qs(urlsplit(target).query).get("token", [""])[0]

    def _in_cookie(self, headers: Mapping[str, str]) -> str:
        try:
            jar = SimpleCookie(headers.get("Cookie", ""))
        except CookieError:
            return ""
        cookie = jar.get(self.cookie)
        return cookie.value if cookie else ""

    def set_cookie(self) -> str:
        """Return the header that stores the token in the browser."""
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"


def _bearer(headers: Mapping[str, str]) -> str:
    kind, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
