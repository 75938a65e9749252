"""``eagre broker``: the embedded broker in the background."""

from __future__ import annotations

from pathlib import Path

import click

from eagre.broker import registry
from eagre.broker.server import EmbeddedBroker, stop_background
from eagre.cli.console import say, table
from eagre.config import project_dir
from eagre.errors import BrokerError


@click.group()
def broker() -> None:
    """The embedded Kafka broker, in the background, on 127.0.0.1."""


@broker.command()
@click.option("--port", default=9092, show_default=True, help="Where it listens; 0 for any.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Its data folder. [default: .eagre/broker in the current folder]",
)
def start(port: int, data: Path | None) -> None:
    """Start a broker that goes on after this command; topics and records stay in its folder."""
    started = EmbeddedBroker(port, data or project_dir() / "broker", background=True, say=say)
    click.echo(started.start().address)


@broker.command()
@click.option("--port", type=int, help="The one that listens there.")
@click.option("--all", "everything", is_flag=True, help="Every one of this user.")
def stop(port: int | None, everything: bool) -> None:
    """Stop a broker that was started in the background."""
    brokers = [b for b in registry.running() if b.background]
    if not everything:
        brokers = [_chosen(brokers, port)]
    for one in brokers:
        say(f"stopping the broker on {one.address}")
        stop_background(one)


@broker.command()
def status() -> None:
    """List the embedded brokers that run."""
    rows = [
        [b.address, str(b.pid), "background" if b.background else "of a run", b.data]
        for b in registry.running()
    ]
    click.echo(table(["broker", "pid", "kind", "data"], rows) if rows else "no broker is running")


def _chosen(brokers: list[registry.RunningBroker], port: int | None) -> registry.RunningBroker:
    fit = [b for b in brokers if port in (None, b.port)]
    if len(fit) == 1:
        return fit[0]
    addresses = ", ".join(b.address for b in brokers) or "none"
    raise BrokerError(
        "BROKER_NOT_FOUND" if not fit else "SEVERAL_BROKERS",
        f"no broker runs in the background on port {port}."
        if port
        else f"there must be exactly one broker in the background to stop it unnamed: {addresses}.",
        hint="see `eagre broker status`; choose with --port or --all.",
    )
