"""``eagre dashboard``, and the dashboard of ``eagre run`` and ``eagre demo``."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any

import click

from eagre.cli.commands import Command, Option
from eagre.cli.console import say, warn
from eagre.cli.exit_codes import ExitCode
from eagre.config import LOOPBACK
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eagre.dashboard import Dashboard
    from eagre.runtime.runs import RunStatus

DASHBOARD = "Dashboard"
SETTLE_SECONDS = 5


def dashboard_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that serves the dashboard while it runs."""
    options = [
        click.option(
            "--no-dashboard", cls=Option, group=DASHBOARD, is_flag=True, help="No dashboard."
        ),
        click.option(
            "--dashboard-port",
            cls=Option,
            group=DASHBOARD,
            type=click.IntRange(0, 65535),
            default=0,
            metavar="PORT",
            help="Its port. [default: a free port]",
        ),
        click.option(
            "--no-payloads",
            cls=Option,
            group=DASHBOARD,
            is_flag=True,
            help="Do not show the content of records.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command(
    cls=Command,
    examples=("eagre dashboard", "eagre dashboard --port 8080 --no-payloads"),
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="The port to listen on. [default: a free port]",
)
@click.option(
    "--host",
    default=LOOPBACK,
    show_default=True,
    help="The address to listen on; others on the network may reach any but loopback.",
)
@click.option("--no-payloads", is_flag=True, help="Do not show the content of records.")
def dashboard(port: int, host: str, no_payloads: bool) -> None:
    """Serve a dashboard of the pipelines that run on this machine, until Ctrl-C.

    The address contains a token: anyone who has the address can look. EAGRE_DASHBOARD_TOKEN sets
    a token of your own, for Prometheus.
    """
    from eagre.dashboard import Dashboard

    stopped = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: stopped.set())
    with Dashboard(port, host, payloads=not no_payloads) as served:
        warn(f"dashboard: {served.printed_address}")
        while not stopped.wait(1):
            pass


@contextlib.contextmanager
def served_dashboard(
    enabled: bool,
    port: int,
    shown: Callable[[], list[RunStatus]],
    *,
    payloads: bool,
    host: str = LOOPBACK,
) -> Iterator[Dashboard | None]:
    """Serve the dashboard during the ``with`` block; yield None if it is not enabled."""
    if not enabled:
        yield None
        return
    from eagre.dashboard import Dashboard

    with Dashboard(port, host, shown=shown, payloads=payloads) as served:
        say(f"dashboard: {served.printed_address}")
        yield served


def judge_slo(served: Dashboard) -> int:
    """Report whether each SLO was met, and return the exit code."""
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: all(view.settled for view in served.views), SETTLE_SECONDS, "")
    code = ExitCode.OK
    with_slo = [view for view in served.views if view.slo]
    if not with_slo:
        warn('--slo-check: no pipeline has an SLO; write @eg.pipeline(..., slo="p99 < 100ms")')
        return ExitCode.SLO_BROKEN
    for view in with_slo:
        burn = view.burn() or {}
        if not burn["records"]:
            warn(f"{view.status.name}: SLO {burn['text']}: nothing was measured")
            code = ExitCode.SLO_BROKEN
            continue
        verdict = "met" if burn["met"] else "missed"
        warn(
            f"{view.status.name}: SLO {burn['text']} {verdict}: p{burn['percentile']:g} was "
            f"{burn['actual_ms']:,.1f} ms over {burn['records']:,} records, "
            f"{burn['slow']:,} of them slower; burn rate {burn['burn']:g}"
        )
        code = code if burn["met"] else ExitCode.SLO_BROKEN
    return code
