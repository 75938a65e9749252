"""The dashboard: starts and stops the recorder and the web server."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Self

from eagre.config import LOOPBACK
from eagre.dashboard.guard import in_url, new_token
from eagre.dashboard.recorder import Recorder
from eagre.dashboard.server import Server
from eagre.errors import SettingsError
from eagre.runtime import runs
from eagre.runtime.spark_child import DASHBOARD_TOKEN as TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.dashboard.view import View
    from eagre.runtime.runs import RunStatus

SHORTEST_TOKEN = 16
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104  (these are refused)


class Dashboard:
    """Serves the dashboard of runs, by default of all runs on this machine.

    >>> with Dashboard() as dashboard:  # doctest: +SKIP
    ...     print(dashboard.address)
    http://127.0.0.1:40123/?token=...

    Args:
        port: The port to listen on; 0 for a free port.
        host: The address to listen on; loopback, unless other machines need access.
        shown: Returns the runs to show.
        payloads: Whether to show the content of records.
        every: The update interval in seconds; shorter in tests.

    Raises:
        SettingsError: The port is in use, the host is a wildcard address, or the token in the
            environment is too short.
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
                f"the dashboard must listen on a single address, and {host!r} means all of them.",
                hint="give the address or host name under which you open the dashboard.",
            )
        self._recorder = Recorder(shown, payloads=payloads, every=every)
        self._token = _token()
        try:
            self._server = Server(host, port, self._token, self._recorder)
        except OSError as error:
            raise SettingsError(
                "PAGE_PORT",
                f"the dashboard cannot listen on {host}:{port}: {error.strerror}.",
                hint="choose another port with --dashboard-port, or 0 for a free one.",
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="eagre-http", daemon=True
        )

    @property
    def url(self) -> str:
        """The address of the dashboard, without the token."""
        host, port = self._server.server_address[:2]
        return f"http://{in_url(str(host))}:{port}/"

    @property
    def address(self) -> str:
        """The address of the dashboard, with the token; only for the user who started it."""
        return f"{self.url}?token={self._token}"

    @property
    def printed_address(self) -> str:
        """The address as commands print it: a token from the environment stays out of logs."""
        if os.environ.get(TOKEN):
            return f"{self.url} (append ?token= and the value of {TOKEN})"
        return self.address

    @property
    def views(self) -> list[View]:
        """The pipelines on the dashboard."""
        return list(self._recorder.views.values())

    def start(self) -> Self:
        """Start serving, in background threads."""
        self._recorder.start()
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop serving."""
        self._recorder.close()
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _token() -> str:
    token = os.environ.get(TOKEN, "")
    if token and len(token) < SHORTEST_TOKEN:
        raise SettingsError(
            "PAGE_TOKEN_SHORT",
            f"{TOKEN} must have at least {SHORTEST_TOKEN} characters.",
            hint="unset it to generate a token, or use `openssl rand -hex 16`.",
        )
    return token or new_token()
