"""``eagre broker``: an embedded broker in the background."""

from __future__ import annotations

from pathlib import Path

import click

from eagre.broker import registry
from eagre.broker.cluster import EmbeddedCluster
from eagre.broker.server import EmbeddedBroker, stop_background
from eagre.cli.commands import Group
from eagre.cli.console import detail, json_option, result, say, table, write_json
from eagre.config import project_dir
from eagre.errors import BrokerError


@click.group(cls=Group)
def broker() -> None:
    """Start and stop an embedded Kafka broker on 127.0.0.1."""


@broker.command(
    examples=(
        "eagre broker start",
        "eagre broker start --port 0 --data /tmp/kafka",
        "eagre broker start --brokers 3",
    )
)
@click.option("--port", default=9092, show_default=True, help="The port to listen on; 0: any.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="The data folder. [default: .eagre/broker in the current folder]",
)
@click.option(
    "--brokers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many brokers form the cluster, on this port and the next ones.",
)
@json_option
def start(port: int, data: Path | None, brokers: int, target: str | None) -> None:
    """Start a broker in the background and print its address.

    Topics and records stay in its data folder when it stops. Of several brokers, each is a process
    of its own, with about 700 MB of memory; a topic has three copies, and a record is acknowledged
    when two brokers have it.
    """
    folder = data or project_dir() / "broker"
    detail(f"the broker logs to {folder / 'log' if brokers == 1 else folder}")
    embedded = (
        EmbeddedBroker(port, folder, background=True, say=say)
        if brokers == 1
        else EmbeddedCluster(brokers, port, folder, background=True, say=say)
    )
    address = embedded.start().address
    result(target, {"address": address, "data": str(folder)}, address)


@broker.command(examples=("eagre broker stop", "eagre broker stop --port 9092"))
@click.option("--port", type=int, help="The broker that listens on this port.")
@click.option("--all", "everything", is_flag=True, help="Every background broker of this user.")
@json_option
def stop(port: int | None, everything: bool, target: str | None) -> None:
    """Stop a broker that was started in the background, with the others of its cluster."""
    brokers = [b for b in registry.running() if b.background]
    if not everything:
        home = _chosen(brokers, port).home
        brokers = [b for b in brokers if b.home == home]
    for running in brokers:
        say(f"stopping the broker on {running.address}")
        stop_background(running)
    if target:
        write_json(target, {"stopped": [running.address for running in brokers]})


@broker.command(examples=("eagre broker status", "eagre broker status --json -"))
@json_option
def status(target: str | None) -> None:
    """List the running embedded brokers."""
    running = registry.running()
    described = [
        {
            "address": b.address,
            "pid": b.pid,
            "background": b.background,
            "data": b.data,
            "cluster": b.bootstrap,
        }
        for b in running
    ]
    rows = [
        [b.address, str(b.pid), "background" if b.background else "of a run", b.data]
        for b in running
    ]
    text = table(["broker", "pid", "kind", "data"], rows) if rows else "no broker is running"
    result(target, {"brokers": described}, text)


def _chosen(brokers: list[registry.RunningBroker], port: int | None) -> registry.RunningBroker:
    matches = [b for b in brokers if port in (None, b.port)]
    if len({b.home for b in matches}) == 1:
        return matches[0]
    addresses = ", ".join(b.address for b in brokers) or "none"
    raise BrokerError(
        "BROKER_NOT_FOUND" if not matches else "SEVERAL_BROKERS",
        f"no background broker listens on port {port}."
        if port
        else f"without --port there must be exactly one background broker; running: {addresses}.",
        hint="see `eagre broker status`; choose with --port or --all.",
    )
