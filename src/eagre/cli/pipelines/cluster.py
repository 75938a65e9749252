"""``eagre cluster``: a Spark standalone cluster on this machine, in the background."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagre import cluster as clusters
from eagre.cli.commands import Group
from eagre.cli.console import json_option, result, say, table, write_json
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
@json_option
def start(
    workers: int, cores: int, memory: str, port: int, data: Path | None, target: str | None
) -> None:
    """Start a master and workers in the background and print the master's URL.

    Anyone who can log in to this machine can submit work to it: use it for development and tests.
    """
    folder = data or project_dir() / "cluster"
    running = clusters.start(
        folder, workers=workers, cores=cores, memory=memory, port=port, say=say
    )
    say(f"web UI: {_web_ui(running)}")
    started = {
        "url": running.url,
        "web_ui": _web_ui(running),
        "workers": workers,
        "cores": workers * cores,
        "data": running.folder,
    }
    result(target, started, running.url)


@cluster.command(examples=("eagre cluster stop", "eagre cluster stop --port 7077"))
@click.option("--port", type=int, help="The cluster whose master listens on this port.")
@click.option("--all", "everything", is_flag=True, help="Every cluster of this user.")
@json_option
def stop(port: int | None, everything: bool, target: str | None) -> None:
    """Stop a cluster; its executors end at once, and so do the runs on it."""
    running = clusters.running()
    chosen = running if everything else [_chosen(running, port)]
    for stopped in chosen:
        say(f"stopping {stopped.url}")
        clusters.stop(stopped)
    if target:
        write_json(target, {"stopped": [stopped.url for stopped in chosen]})


@cluster.command(examples=("eagre cluster status", "eagre cluster status --json -"))
@json_option
def status(target: str | None) -> None:
    """List the running clusters with their workers and applications."""
    described = [_described(running) for running in clusters.running()]
    rows = [
        [
            entry["url"],
            f"{entry['workers_alive']} of {entry['workers']}",
            f"{entry['cores_used']} of {entry['cores']}",
            f"{entry['memory_used_mb']} of {entry['memory_mb']}",
            ", ".join(entry["applications"]) or "-",
            entry["web_ui"],
        ]
        for entry in described
    ]
    headings = ["cluster", "workers", "cores used", "MB used", "applications", "web UI"]
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
        "web_ui": _web_ui(running),
        "page": _web_ui(running),  # the name until 0.2
        "workers": len(running.workers),
        "workers_alive": state.get("aliveworkers", 0),
        "cores": state.get("cores", 0),
        "cores_used": state.get("coresused", 0),
        "memory_mb": state.get("memory", 0),
        "memory_used_mb": state.get("memoryused", 0),
        "applications": [app["name"] for app in state.get("activeapps", [])],
        "data": running.folder,
    }


def _web_ui(running: RunningCluster) -> str:
    return f"http://{LOOPBACK}:{running.web_port}"


def _chosen(running: list[RunningCluster], port: int | None) -> RunningCluster:
    matches = [cluster for cluster in running if port in (None, cluster.port)]
    if len(matches) == 1:
        return matches[0]
    known = ", ".join(cluster.url for cluster in matches or running) or "none"
    raise ClusterError(
        "SEVERAL_CLUSTERS" if matches else "CLUSTER_NOT_FOUND",
        f"{counted(len(matches), 'cluster')} match; running: {known}.",
        hint="see `eagre cluster status`; choose with --port or --all.",
    )
