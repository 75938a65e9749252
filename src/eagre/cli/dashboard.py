"""``eagre dashboard``, and the page that ``run`` and ``demo`` bring along."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any

import click

from eagre.cli.console import say
from eagre.config import LOOPBACK
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eagre.dashboard import Dashboard
    from eagre.runtime.runs import RunStatus

SLO_BROKEN = 3
"""The exit code of ``eagre run --slo-check`` where a promise was not kept, or nothing measured."""
SETTLE_SECONDS = 5


def page_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that brings the page."""
    options = [
        click.option("--no-dashboard", is_flag=True, help="Without the page."),
        click.option(
            "--dashboard-port",
            type=click.IntRange(0, 65535),
            default=0,
            metavar="PORT",
            help="Where the page is, on 127.0.0.1. [default: a free port]",
        ),
        click.option("--no-payloads", is_flag=True, help="The page shows no record's content."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Where. [default: a free port]"
)
@click.option(
    "--host",
    default=LOOPBACK,
    show_default=True,
    help="The address to listen on; mind who can see it.",
)
@click.option("--no-payloads", is_flag=True, help="Show no record's content.")
def dashboard(port: int, host: str, no_payloads: bool) -> None:
    """Show the pipelines that run on this machine on a page, until Ctrl-C.

    The address has a token in it: who has the address can look. EAGRE_DASHBOARD_TOKEN names a
    token of your own, for Prometheus.
    """
    from eagre.dashboard import Dashboard

    over = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: over.set())
    with Dashboard(port, host, payloads=not no_payloads) as page:
        announce(page)
        while not over.wait(1):
            pass


def announce(page: Dashboard) -> None:
    """Say where the page is."""
    say(f"the page: {page.address}")


@contextlib.contextmanager
def beside(
    wanted: bool, port: int, shown: Callable[[], list[RunStatus]], *, payloads: bool
) -> Iterator[Dashboard | None]:
    """Serve the page while something runs; None where it is not wanted."""
    if not wanted:
        yield None
        return
    from eagre.dashboard import Dashboard

    with Dashboard(port, shown=shown, payloads=payloads) as page:
        announce(page)
        yield page


def judge_slo(page: Dashboard) -> int:
    """Say of each promise whether it was kept, and give the exit code."""
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: all(view.settled for view in page.views), SETTLE_SECONDS, "")
    code = 0
    promised = [view for view in page.views if view.slo]
    if not promised:
        say('--slo-check: no pipeline has an SLO; write @eg.pipeline(..., slo="p99 < 100ms")')
        return SLO_BROKEN
    for view in promised:
        burn = view.burn() or {}
        if not burn["records"]:
            say(f"{view.status.name}: SLO {burn['text']}: nothing was measured")
            code = SLO_BROKEN
            continue
        kept = "kept" if burn["kept"] else "broken"
        say(
            f"{view.status.name}: SLO {burn['text']} {kept}: p{burn['percentile']:g} was "
            f"{burn['actual_ms']:,.1f} ms over {burn['records']:,} records, "
            f"{burn['slow']:,} of them slower; burn rate {burn['burn']:g}"
        )
        code = code if burn["kept"] else SLO_BROKEN
    return code
