"""The options of ``eagre deploy``: those of ``eagre run``, of a service, and of each target."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagre.cli.commands import Option
from eagre.cli.deploy.manifests import KAFKA_CONFIG, SECRETS, TOKEN
from eagre.cli.options import (
    KAFKA,
    app_argument,
    brokers_option,
    execution_options,
    spark_options,
    together,
)
from eagre.config import LOOPBACK
from eagre.profile import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Callable

DASHBOARD_PORT = 9464
"""A fixed port, for probes and Prometheus."""

_service, _dashboard, _systemd, _image, _kubernetes, _executors = (
    partial(click.option, cls=Option, group=group)
    for group in ("Service", "Dashboard", "systemd", "Image", "Kubernetes", "Executors, not tested")
)


def service_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add what both targets have: the options of ``eagre run``, and those of a service."""
    return together(
        app_argument(),
        execution_options,
        click.option(
            "--from",
            "start",
            metavar="earliest|latest|TIME",
            help="Where a new checkpoint starts reading. [default: latest]",
        ),
        click.option(
            "--resume", is_flag=True, help="Do not start without a checkpoint to continue from."
        ),
        _service("--name", help="The service's name. [default: from the pipeline or the file]"),
        _service(
            "--memory",
            metavar="SIZE",
            help="Its memory limit. [default: 1.4 times spark.driver.memory, and 1g]",
        ),
        _service(
            "--output",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            help="Write files into DIR instead of printing.",
        ),
        _service("--force", is_flag=True, help="With --output, replace files that exist."),
        brokers_option("what the app names"),
        click.option(
            "--profile",
            cls=Option,
            group=KAFKA,
            type=click.Choice(list(CLIENTS)),
            help="What the Kafka clients are tuned for. [default: latency]",
        ),
        spark_options,
        _dashboard(
            "--dashboard-port",
            type=click.IntRange(1, 65535),
            default=DASHBOARD_PORT,
            show_default=True,
            metavar="PORT",
            help="Its port, for probes and Prometheus.",
        ),
        _dashboard("--no-payloads", is_flag=True, help="Do not show the content of records."),
    )(command)


def systemd_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a systemd unit."""
    return together(
        _dashboard(
            "--dashboard-host",
            default=LOOPBACK,
            show_default=True,
            metavar="HOST",
            help="The address to listen on; others on the network may reach any but loopback.",
        ),
        _systemd("--user", default="eagre", show_default=True, help="Who runs it."),
        _systemd(
            "--directory",
            type=click.Path(file_okay=False, path_type=Path),
            help="Its working directory: checkpoints, logs, jars. [default: /var/lib/NAME]",
        ),
        _systemd(
            "--env-file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Its environment, for secrets; it may be absent. [default: /etc/eagre/NAME.env]",
        ),
    )(command)


def kubernetes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the image, of the Kubernetes objects and of executors."""
    return together(image_options, object_options, executor_options)(command)


def image_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the image."""
    return together(
        _image("--image", help="Its name. [default: NAME:1]"),
        _image(
            "--containerfile",
            "only_image",
            is_flag=True,
            help="Print the Containerfile instead of the manifests.",
        ),
        _image(
            "--include",
            multiple=True,
            metavar="PATH",
            help="A file or folder beside the app that it needs, such as a model; repeatable. "
            "Python files beside the app are always included.",
        ),
    )(command)


def object_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the Kubernetes objects."""
    return together(
        _kubernetes("--namespace", help="The namespace. [default: that of kubectl]"),
        _kubernetes("--create-namespace", is_flag=True, help="Also print the namespace."),
        _kubernetes(
            "--secret",
            help=f"A Secret with the Kafka client's {KAFKA_CONFIG}, the PEM files that it names "
            f"in {SECRETS}, and optionally {TOKEN}.",
        ),
        _kubernetes(
            "--cpus",
            type=click.IntRange(1),
            default=2,
            show_default=True,
            metavar="N",
            help="The CPUs that the pod requests, and the cores that Spark and the JVM assume.",
        ),
        _kubernetes(
            "--storage",
            default="10Gi",
            show_default=True,
            metavar="SIZE",
            help="The size of the volume of checkpoints.",
        ),
        _kubernetes("--storage-class", help="Its class. [default: that of the cluster]"),
    )(command)


def executor_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of executors."""
    return together(
        _executors(
            "--executors",
            type=click.IntRange(0),
            default=0,
            metavar="N",
            help="Executor pods. [default: none; one pod does all the work]",
        ),
        _executors(
            "--executor-cores",
            type=click.IntRange(1),
            default=4,
            show_default=True,
            metavar="N",
            help="The task slots of each executor.",
        ),
        _executors(
            "--executor-memory",
            metavar="SIZE",
            help="The heap of each executor. [default: spark.executor.memory, or 2g]",
        ),
    )(command)
