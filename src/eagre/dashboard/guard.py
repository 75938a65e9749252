"""Who may ask: this machine by its own name, pages of this origin, and those who have the token."""

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
"""What probes may ask without the token."""
READING = ("GET", "HEAD")

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
"""What every answer carries."""


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered."""

    code: int
    reason: str


def new_token() -> str:
    """Make a token that nobody guesses."""
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True)
class Guard:
    """Judges requests by their headers, before anything is looked at.

    Attributes:
        host: The address that is listened on.
        port: The port.
        token: What those who ask must know.
    """

    host: str
    port: int
    token: str = field(repr=False)

    @property
    def cookie(self) -> str:
        """The cookie's name; other pages of this machine have other ports."""
        return f"eagre_{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """The names under which the page may be asked for: others are a rebinding attack."""
        names = {self.host.lower(), "127.0.0.1", "localhost"}
        return frozenset(f"{name}:{self.port}" for name in names)

    def judge(self, method: str, target: str, headers: Mapping[str, str]) -> Refusal | None:
        """Give the reason to refuse a request, if there is one."""
        if headers.get("Host", "").lower() not in self.hosts:
            return Refusal(421, "this page answers only to its own name, 127.0.0.1 or localhost")
        origin = headers.get("Origin")
        if origin is not None and not self._own(origin):
            return Refusal(403, "pages of other origins may not ask here")
        known = self._knows(target, headers)
        if method not in READING:
            return Refusal(405, "only GET and HEAD") if known else self._unknown()
        if known or urlsplit(target).path in OPEN:
            return None
        return self._unknown()

    def _own(self, origin: str) -> bool:
        parts = urlsplit(origin)
        return parts.scheme == "http" and parts.netloc.lower() in self.hosts

    def _unknown(self) -> Refusal:
        return Refusal(401, "open the address that eagre printed: it has the token")

    def _knows(self, target: str, headers: Mapping[str, str]) -> bool:
        given = [self.in_target(target), self._in_cookie(headers), _bearer(headers)]
        return any(self.fits(one) for one in given if one)

    def fits(self, given: str) -> bool:
        """Compare a token in constant time."""
        return secrets.compare_digest(given.encode(), self.token.encode())

    def in_target(self, target: str) -> str:
        """Give the token in an address; empty if there is none."""
        from urllib.parse import parse_qs

        return parse_qs(urlsplit(target).query).get("token", [""])[0]

    def _in_cookie(self, headers: Mapping[str, str]) -> str:
        try:
            jar = SimpleCookie(headers.get("Cookie", ""))
        except CookieError:
            return ""
        found = jar.get(self.cookie)
        return found.value if found else ""

    def set_cookie(self) -> str:
        """Give the header that lets a browser in from now on."""
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"


def _bearer(headers: Mapping[str, str]) -> str:
    kind, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
