"""The page as one thing: started, asked for its address, ended."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Self

from eagre.config import LOOPBACK
from eagre.dashboard.guard import new_token
from eagre.dashboard.recorder import Recorder
from eagre.dashboard.server import Server
from eagre.errors import SettingsError
from eagre.runtime import runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.dashboard.view import View
    from eagre.runtime.runs import RunStatus

TOKEN = "EAGRE_DASHBOARD_TOKEN"  # noqa: S105  (the name of a variable)
SHORTEST_TOKEN = 16
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104  (these are refused)


class Dashboard:
    """Serves the page of some runs, all of this machine if not told which.

    >>> with Dashboard() as page:  # doctest: +SKIP
    ...     print(page.address)
    http://127.0.0.1:40123/?token=...

    Args:
        port: Where it listens; 0 takes a free port.
        host: The address it listens on: loopback, unless it must be seen from outside.
        shown: Gives the runs to show.
        payloads: Whether the content of records may be shown.
        every: The length of a second, for tests in a hurry.

    Raises:
        SettingsError: The port is taken, the host is no single one, or the token of the environment
            is too short.
    """

    def __init__(
        self,
        port: int = 0,
        host: str = LOOPBACK,
        *,
        shown: Callable[[], list[RunStatus]] = runs.running,
        payloads: bool = True,
        every: float = 1.0,
    ) -> None:
        if host in EVERYWHERE:
            raise SettingsError(
                "PAGE_HOST",
                f"the page answers to one name only, and {host} is every address at once.",
                hint="name the address or host name by which it is to be opened.",
            )
        self._recorder = Recorder(shown, payloads=payloads, every=every)
        self._token = _token()
        try:
            self._server = Server(host, port, self._token, self._recorder)
        except OSError as error:
            raise SettingsError(
                "PAGE_PORT",
                f"the page cannot listen on {host}:{port}: {error.strerror}.",
                hint="name another port with --dashboard-port, or 0 for a free one.",
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="eagre-http", daemon=True
        )

    @property
    def url(self) -> str:
        """Where the page is, without the token."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/"

    @property
    def address(self) -> str:
        """Where the page is, with the token: for the one who started it."""
        return f"{self.url}?token={self._token}"

    @property
    def views(self) -> list[View]:
        """The pipelines that are followed."""
        return list(self._recorder.views.values())

    def start(self) -> Self:
        """Serve, in threads of its own."""
        self._recorder.start()
        self._thread.start()
        return self

    def close(self) -> None:
        """End it."""
        self._recorder.close()
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _token() -> str:
    given = os.environ.get(TOKEN, "")
    if given and len(given) < SHORTEST_TOKEN:
        raise SettingsError(
            "PAGE_TOKEN_SHORT",
            f"{TOKEN} must have {SHORTEST_TOKEN} characters or more.",
            hint="leave it out to have one made, or use `openssl rand -hex 16`.",
        )
    return given or new_token()
