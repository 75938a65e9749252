"""``eagre cluster``: a Spark standalone cluster on this machine, in the background."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagre import cluster as clusters
from eagre.cli.commands import Group
from eagre.cli.console import json_option, result, say, table
from eagre.config import LOOPBACK, counted, project_dir
from eagre.errors import ClusterError

if TYPE_CHECKING:
    from eagre.cluster import RunningCluster


@click.group(cls=Group)
def cluster() -> None:
    """Start and stop a Spark standalone cluster on 127.0.0.1, for development and tests."""


@cluster.command(
    examples=("eagre cluster start", "eagre cluster start --workers 3 --cores 4 --memory 4g")
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="How many workers."
)
@click.option(
    "--cores",
    type=click.IntRange(1, 1024),
    default=2,
    show_default=True,
    help="The task slots of each worker; there may be more than real cores.",
)
@click.option("--memory", default="2g", show_default=True, help="The memory of each worker.")
@click.option("--port", default=7077, show_default=True, help="The master's port; 0: any.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of logs and executors' files. [default: .eagre/cluster in this folder]",
)
def start(workers: int, cores: int, memory: str, port: int, data: Path | None) -> None:
    """Start a master and workers in the background and print the master's URL.

    Anyone who can log in to this machine can submit work to it: use it for development and tests.
    """
    folder = data or project_dir() / "cluster"
    running = clusters.start(
        folder, workers=workers, cores=cores, memory=memory, port=port, say=say
    )
    say(f"its page: http://{LOOPBACK}:{running.page}")
    click.echo(running.url)


@cluster.command(examples=("eagre cluster stop", "eagre cluster stop --port 7077"))
@click.option("--port", type=int, help="The cluster whose master listens on this port.")
@click.option("--all", "everything", is_flag=True, help="Every cluster of this user.")
def stop(port: int | None, everything: bool) -> None:
    """Stop a cluster; its executors end at once, and so do the runs on it."""
    running = clusters.running()
    for one in running if everything else [_chosen(running, port)]:
        say(f"stopping {one.url}")
        clusters.stop(one)


@cluster.command(examples=("eagre cluster status", "eagre cluster status --json -"))
@json_option
def status(target: str | None) -> None:
    """List the running clusters with their workers and applications."""
    described = [_described(one) for one in clusters.running()]
    rows = [
        [
            one["url"],
            f"{one['workers_alive']} of {one['workers']}",
            f"{one['cores_used']} of {one['cores']}",
            f"{one['memory_used_mb']} of {one['memory_mb']}",
            ", ".join(one["applications"]) or "-",
            one["page"],
        ]
        for one in described
    ]
    headings = ["cluster", "workers", "cores used", "MB used", "applications", "page"]
    result(
        target,
        {"clusters": described},
        table(headings, rows) if rows else "no cluster is running",
    )


def _described(running: RunningCluster) -> dict[str, Any]:
    """Describe a cluster; without its use if its master does not answer."""
    try:
        state = clusters.status(running)
    except ClusterError as error:
        say(str(error))
        state = {}
    return {
        "url": running.url,
        "page": f"http://{LOOPBACK}:{running.page}",
        "workers": len(running.workers),
        "workers_alive": state.get("aliveworkers", 0),
        "cores": state.get("cores", 0),
        "cores_used": state.get("coresused", 0),
        "memory_mb": state.get("memory", 0),
        "memory_used_mb": state.get("memoryused", 0),
        "applications": [app["name"] for app in state.get("activeapps", [])],
        "data": running.folder,
    }


def _chosen(running: list[RunningCluster], port: int | None) -> RunningCluster:
    matches = [one for one in running if port in (None, one.port)]
    if len(matches) == 1:
        return matches[0]
    known = ", ".join(one.url for one in matches or running) or "none"
    raise ClusterError(
        "SEVERAL_CLUSTERS" if matches else "CLUSTER_NOT_FOUND",
        f"{counted(len(matches), 'cluster')} match; running: {known}.",
        hint="see `eagre cluster status`; choose with --port or --all.",
    )
