"""Options that several commands have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from eagre.cli.commands import Option
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
"""Spark settings that every session of Eagre has; each with the reason."""


def app_argument(metavar: str = "APP.py[:PIPELINE]", *, required: bool = True) -> Decorator:
    """Name the file of the pipelines; a shell completes it as a file."""
    return click.argument("app", metavar=metavar, required=required, shell_complete=_files)


def together(*options: Decorator) -> Decorator:
    """Make one decorator of several options; the help lists them in this order."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command what its Spark session is made with: ``master`` and ``conf``."""
    option = partial(click.option, cls=Option, group=SPARK)
    both = together(
        option("--master", help="Spark's master. [default: local[64]]"),
        option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            callback=lambda _, __, given: settings(given),
            help="A setting of the Spark session, as with spark-submit; repeatable.",
        ),
    )
    return both(command)


def brokers_option(fallback: str) -> Decorator:
    """Give a command the option that names the Kafka cluster."""
    return click.option(
        "--brokers",
        cls=Option,
        group=KAFKA,
        envvar="EAGRE_BROKERS",
        metavar="HOST:PORT",
        help=f"The Kafka cluster. [env: EAGRE_BROKERS; default: {fallback}]",
    )


def pair(text: str) -> tuple[str, str]:
    """Read one setting.

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
    """Read the Spark settings of ``--conf``; of a key given twice the last counts.

    >>> settings(["spark.driver.memory=2g", "spark.driver.extraJavaOptions=-Da=b -Dc=d"])
    {'spark.driver.memory': '2g', 'spark.driver.extraJavaOptions': '-Da=b -Dc=d'}

    Raises:
        SettingsError: A pair is malformed, not Spark's, or fixed by Eagre.
    """
    found = dict(map(pair, pairs))
    for key in found:
        if not key.startswith("spark."):
            raise SettingsError(
                "CONF_NOT_SPARK",
                f"--conf {key}: Spark reads settings that begin with spark. only.",
                hint=f"Hadoop's settings have a prefix: --conf spark.hadoop.{key}=...",
            )
        if key in FIXED:
            raise SettingsError(
                "CONF_FIXED",
                f"--conf {key}: Eagre fixes this setting, because {FIXED[key]}.",
                hint="leave it out.",
            )
    return found


def require_once(conf: dict[str, str], key: str, option: str, value: str | None) -> None:
    """Refuse a setting that an option of its own and ``--conf`` name differently.

    Raises:
        SettingsError: They do.
    """
    if value is not None and conf.get(key, value) != value:
        raise SettingsError(
            "CONF_TWICE",
            f"{option} says {value} and --conf {key} says {conf[key]}.",
            hint="leave one of them out.",
        )


def _files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]
