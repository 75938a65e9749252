"""``eagre deploy``: prints a systemd unit, or a Containerfile and Kubernetes manifests."""

from __future__ import annotations

import re
from dataclasses import replace
from os.path import normpath
from pathlib import Path
from typing import Any

import click

from eagre.cli.commands import Group
from eagre.cli.console import say
from eagre.cli.deploy.executors import MASTER, Executors
from eagre.cli.deploy.image import WHEEL, containerfile
from eagre.cli.deploy.manifests import DATA, Pod, manifests
from eagre.cli.deploy.options import kubernetes_options, service_options, systemd_options
from eagre.cli.deploy.service import EXECUTOR_HEAP, RunOptions, Service, write_files
from eagre.cli.deploy.systemd import Unit, unit
from eagre.cli.options import require_once
from eagre.commit.location import located
from eagre.commit.store import StorePath
from eagre.config import LOOPBACK, megabytes
from eagre.errors import SettingsError
from eagre.session import THREADS

_NAMES = {
    "--user": re.compile(r"[A-Za-z_][\w.-]{0,30}", re.ASCII),
    "--image": re.compile(r"[\w.:/@-]+", re.ASCII),
    "--namespace": re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"),
    "--secret": re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"),
    "--storage-class": re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"),
    "--storage": re.compile(r"[1-9]\d*([KMGTPE]i?)?"),
}


@click.group(cls=Group)
def deploy() -> None:
    """Print what runs pipelines as a service: a systemd unit, or Kubernetes manifests.

    The file is loaded as `eagre run` loads it before Spark, so that a broken one is refused.
    Nothing is installed, and no JVM starts.
    """


@deploy.command(
    examples=(
        "eagre deploy systemd score.py --brokers kafka:9092",
        "eagre deploy systemd score.py:fraud --user score --conf spark.driver.memory=4g",
        "eagre deploy systemd score.py --brokers kafka:9092 --output /etc/systemd/system",
    )
)
@service_options
@systemd_options
def systemd(
    app: str,
    name: str | None,
    memory: str | None,
    output: Path | None,
    force: bool,
    user: str,
    directory: Path | None,
    env_file: Path | None,
    **options: Any,  # noqa: ANN401  (the fields of RunOptions)
) -> None:
    """Print a systemd unit that runs the pipelines of a file.

    Paths are those of this machine: of this installation of Eagre and of the file.
    """
    _check_names(user=user)
    run = RunOptions(**options)
    if run.dashboard_host == LOOPBACK:
        run = replace(run, dashboard_host=None)
    if run.checkpoint:
        run = replace(run, checkpoint=_absolute(run.checkpoint))
    service = Service.of(app, name, memory, run)
    text = unit(service, Unit(user, directory, env_file, memory_given=memory is not None))
    if output:
        write_files(output, {f"{service.name}.service": text}, force=force)
    else:
        click.echo(text, nl=False)
    say(
        f"next: the user {user} must exist; install it as /etc/systemd/system/{service.name}"
        f".service, then: systemctl daemon-reload && systemctl enable --now {service.name}"
    )


@deploy.command(
    examples=(
        "eagre deploy kubernetes score.py --brokers kafka:9092 --output deploy",
        "eagre deploy kubernetes score.py --brokers kafka:9092 --secret score-kafka",
        "eagre deploy kubernetes score.py --brokers kafka:9092 --containerfile",
        "eagre deploy kubernetes score.py --brokers kafka:9092 --executors 3 --executor-cores 8",
    )
)
@service_options
@kubernetes_options
def kubernetes(
    app: str,
    name: str | None,
    memory: str | None,
    output: Path | None,
    force: bool,
    only_image: bool,
    include: tuple[str, ...],
    image: str | None,
    executors: int,
    executor_cores: int,
    executor_memory: str | None,
    **options: Any,  # noqa: ANN401  (the fields of Pod and of RunOptions)
) -> None:
    """Print Kubernetes manifests that run the pipelines of a file.

    Manifests go to stdout, ready for `kubectl apply -f -`; with --containerfile the Containerfile
    does. --output writes both. Executors on Kubernetes have not been run by Eagre's tests.
    """
    if output and only_image:
        raise click.UsageError("--output writes the Containerfile, too: drop --containerfile.")
    place = _place(options)
    _check_names(image=image, **place)
    run = _in_a_pod(RunOptions(**options), executors)
    service = Service.of(app, name, memory, run)
    workers = _executors(executors, executor_cores, executor_memory, run.conf)
    pod = Pod(image or f"{service.name}:1", **place, executors=workers)
    built = containerfile(service, pod.image, include, executors=bool(executors))
    if output:
        files = {"Containerfile": built, "kubernetes.yaml": manifests(service, pod)}
        write_files(output, files, force=force)
    else:
        click.echo(built if only_image else manifests(service, pod), nl=False)
    _say_next(service, pod)


def _place(options: dict[str, Any]) -> dict[str, Any]:
    """Take the fields of a pod out of the options of the command."""
    fields = ("namespace", "create_namespace", "cpus", "storage", "storage_class", "secret")
    place = {key: options.pop(key) for key in fields}
    if place["create_namespace"] and not place["namespace"]:
        raise click.UsageError("--create-namespace needs --namespace.")
    return place


def _check_names(**values: Any) -> None:  # noqa: ANN401  (options of the command)
    """Refuse names that systemd, a registry or Kubernetes would refuse, or read otherwise."""
    for key, value in values.items():
        option = f"--{key.replace('_', '-')}"
        allowed = _NAMES.get(option)
        if allowed and value is not None and not allowed.fullmatch(value):
            raise click.BadParameter(f"{value!r} is not valid.", param_hint=option)


def _executors(
    count: int, cores: int, memory: str | None, conf: dict[str, str]
) -> Executors | None:
    """Return the executors, if any."""
    require_once(conf, EXECUTOR_HEAP, "--executor-memory", memory)
    heap = memory or conf.get(EXECUTOR_HEAP, "2g")
    megabytes(heap)
    return Executors(count, cores, heap) if count else None


def _in_a_pod(run: RunOptions, executors: int) -> RunOptions:
    """Check what a pod changes, and set the master.

    Raises:
        SettingsError: The run would end by itself, lose its checkpoint, or has another cluster.
    """
    if run.mode == "available-now":
        raise SettingsError(
            "MODE_ENDS",
            "--mode available-now ends when the backlog is empty, and a Deployment would start it "
            "again.",
            hint="run it from a CronJob, or choose another mode.",
        )
    master = run.master or run.conf.get("spark.master")
    if executors and master:
        raise click.UsageError("--executors sets the master: drop the other one.")
    if master and not THREADS.fullmatch(master):
        raise SettingsError(
            "MASTER_NOT_LOCAL",
            f"--master {master}: a pod runs the pipeline itself, or on executors of its own.",
            hint="pass --executors N instead.",
        )
    if run.checkpoint and not _on_volume(run.checkpoint):
        raise SettingsError(
            "CHECKPOINT_NOT_ON_VOLUME",
            f"--checkpoint {run.checkpoint} is not below {DATA}, and is lost with the pod.",
            hint=f"choose a folder below {DATA}, where the volume is.",
        )
    return replace(run, master=MASTER) if executors else run


def _absolute(checkpoint: str) -> str:
    place = located(checkpoint)
    return str(place.absolute() if isinstance(place, Path) else place)


def _on_volume(checkpoint: str) -> bool:
    if isinstance(located(checkpoint), StorePath):
        return True
    return Path(normpath(Path(DATA) / checkpoint)).is_relative_to(DATA)


def _say_next(service: Service, pod: Pod) -> None:
    say(
        f"next: put {WHEEL} beside {service.file}, build the Containerfile as {pod.image}, and "
        "push it to where the cluster pulls from"
    )
    if pod.executors:
        say("executors on Kubernetes have not been run by Eagre's tests, only validated")
