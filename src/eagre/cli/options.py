"""Options that several commands share."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from eagre.cli.commands import Option
from eagre.commit.location import located
from eagre.connectors import MODES
from eagre.errors import SettingsError
from eagre.session import NESTED_PRUNING, PROVIDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Decorator = Callable[[Callable[..., None]], Callable[..., None]]

SPARK, KAFKA = "Spark", "Kafka"

FIXED = {
    PROVIDERS: "Eagre loads Spark's extensions itself",
    NESTED_PRUNING: "with it Spark 4.3 reads the wrong fields of a struct",
}
"""Spark settings that Eagre fixes in every session, with the reason."""


def app_argument(metavar: str = "APP.py[:PIPELINE]", *, required: bool = True) -> Decorator:
    """Add the argument for the file of the pipelines; shells complete it as a file."""
    return click.argument("app", metavar=metavar, required=required, shell_complete=_files)


def together(*options: Decorator) -> Decorator:
    """Combine several options into one decorator; the help lists them in this order."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def execution_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add how a pipeline runs: ``--mode``, ``--every`` and ``--checkpoint``."""
    three = together(
        click.option(
            "--mode",
            type=click.Choice(MODES),
            default="real-time",
            show_default=True,
            help="The execution mode; available-now processes the backlog and stops.",
        ),
        click.option(
            "--every",
            metavar="INTERVAL",
            help="The commit interval in real time, the trigger in micro-batch. "
            "[default: 1 minute, 10 seconds with exactly once; 500 ms]",
        ),
        click.option(
            "--checkpoint",
            metavar="DIR|s3a://BUCKET/NAME",
            callback=lambda _, __, folder: folder and str(located(folder)),
            help="Where offsets and state are stored. [default: .eagre/checkpoints/PIPELINE]",
        ),
    )
    return three(command)


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the Spark session: ``--master`` and ``--conf``."""
    option = partial(click.option, cls=Option, group=SPARK)
    both = together(
        option("--master", help="Spark's master. [default: local[64]]"),
        option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            callback=lambda _, __, pairs: settings(pairs),
            help="A setting of the Spark session, as with spark-submit; repeatable.",
        ),
    )
    return both(command)


def brokers_option(fallback: str) -> Decorator:
    """Add the option for the Kafka cluster."""
    return click.option(
        "--brokers",
        cls=Option,
        group=KAFKA,
        envvar="EAGRE_BROKERS",
        metavar="HOST:PORT",
        help=f"The Kafka cluster. [env: EAGRE_BROKERS; default: {fallback}]",
    )


def pair(text: str) -> tuple[str, str]:
    """Parse a setting.

    >>> pair("spark.ui.enabled = true")
    ('spark.ui.enabled', 'true')

    Raises:
        SettingsError: It has no key or no equals sign.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SettingsError("SETTING_MALFORMED", f"a setting must be KEY=VALUE, not {text!r}.")
    return key.strip(), value.strip()


def settings(pairs: Iterable[str]) -> dict[str, str]:
    """Parse the Spark settings of ``--conf``; the last value of a repeated key is used.

    >>> settings(["spark.driver.memory=2g", "spark.driver.extraJavaOptions=-Da=b -Dc=d"])
    {'spark.driver.memory': '2g', 'spark.driver.extraJavaOptions': '-Da=b -Dc=d'}

    Raises:
        SettingsError: A pair is malformed, not a Spark setting, or fixed by Eagre.
    """
    conf = dict(map(pair, pairs))
    for key in conf:
        if not key.startswith("spark."):
            raise SettingsError(
                "CONF_NOT_SPARK",
                f"--conf {key}: Spark reads only settings that begin with spark.",
                hint=f"Hadoop's settings have a prefix: --conf spark.hadoop.{key}=...",
            )
        if key in FIXED:
            raise SettingsError(
                "CONF_FIXED",
                f"--conf {key}: Eagre fixes this setting, because {FIXED[key]}.",
                hint="remove it.",
            )
    return conf


def require_once(conf: dict[str, str], key: str, option: str, value: str | None) -> None:
    """Refuse a setting that has one value in its option and another in ``--conf``.

    Raises:
        SettingsError: The values differ.
    """
    if value is not None and conf.get(key, value) != value:
        raise SettingsError(
            "CONF_TWICE",
            f"{option} says {value} and --conf {key} says {conf[key]}.",
            hint="remove one of them.",
        )


def _files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]
