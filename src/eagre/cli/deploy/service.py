"""What is deployed: the pipelines of a file, checked without Spark, and how they run."""

from __future__ import annotations

import contextlib
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagre.cli.console import say
from eagre.cli.options import require_once
from eagre.config import interval_ms, megabytes
from eagre.errors import SettingsError
from eagre.profile import CHOICE
from eagre.runtime.app import App
from eagre.runtime.spec import RunSpec

if TYPE_CHECKING:
    from pathlib import Path

    from eagre.connectors import Mode

STOP_SECONDS = 150
"""The time to stop: a drain waits a minute for rows, another for results, then Spark stops."""
STOP_MARGIN_SECONDS = 90
"""What a stop takes besides the epoch that a pipeline with epoch boundaries finishes."""
DRIVER_HEAP, EXECUTOR_HEAP = "spark.driver.memory", "spark.executor.memory"
DEFAULT_HEAP = "1g"
OVERHEAD = 0.4
"""Memory of a JVM beside its heap, as a share of it: what Spark reserves for Python applications
on Kubernetes."""
BASE_MB = 1024
"""Memory that does not grow with the heap: metaspace, compiled code, threads, the Python
processes of the run."""
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def memory_mb(heap: str) -> int:
    """Return the memory that a JVM with this heap and its Python processes need.

    >>> memory_mb("1g"), memory_mb("4g")
    (2457, 6758)
    """
    return int(megabytes(heap) * (1 + OVERHEAD)) + BASE_MB


@dataclass(frozen=True)
class RunOptions:
    """The options of ``eagre run`` that a deployment passes on; only what differs is printed.

    >>> RunOptions(every="5 s", conf={"spark.ui.enabled": "true"}).arguments()
    ['--every=5 s', '--conf=spark.ui.enabled=true']
    """

    mode: Mode = "real-time"
    every: str | None = None
    checkpoint: str | None = None
    start: str | None = None
    resume: bool = False
    brokers: str | None = None
    profile: str | None = None
    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
    dashboard_host: str | None = None
    dashboard_port: int = 0
    no_payloads: bool = False

    def check(self) -> None:
        """Check the options as ``eagre run`` does.

        Raises:
            SettingsError: They are invalid, or contradict each other.
        """
        RunSpec("", mode=self.mode, every=self.every)
        require_once(self.conf, CHOICE, "--profile", self.profile)
        require_once(self.conf, "spark.master", "--master", self.master)

    def arguments(self) -> list[str]:
        """Return the arguments of ``eagre run`` after the file, one word for each option."""
        values = {
            "--mode": None if self.mode == "real-time" else self.mode,
            "--every": self.every,
            "--checkpoint": self.checkpoint,
            "--from": self.start,
            "--brokers": self.brokers,
            "--profile": self.profile,
            "--master": self.master,
            "--dashboard-host": self.dashboard_host,
            "--dashboard-port": str(self.dashboard_port) if self.dashboard_port else None,
        }
        flags = {"--resume": self.resume, "--no-payloads": self.no_payloads}
        return [
            *(f"{option}={value}" for option, value in values.items() if value),
            *(flag for flag, given in flags.items() if given),
            *(f"--conf={key}={value}" for key, value in self.conf.items()),
        ]

    @property
    def stop_seconds(self) -> int:
        """How long a stop may take; a pipeline with epoch boundaries finishes its epoch first."""
        epoch = interval_ms(self.every) / 1000 if self.every and self.mode == "real-time" else 0
        return max(STOP_SECONDS, round(epoch) + STOP_MARGIN_SECONDS)


@dataclass(frozen=True)
class Service:
    """The pipelines of a file under a service manager.

    Attributes:
        name: The name of the unit or of the Kubernetes objects.
        app: The file, with an absolute path, and the chosen pipeline.
        options: How ``eagre run`` runs it.
        memory_mb: The memory limit of the run: its Spark driver and Python processes.
    """

    name: str
    app: App
    options: RunOptions
    memory_mb: int

    @classmethod
    def of(cls, app: str, name: str | None, memory: str | None, options: RunOptions) -> Service:
        """Check the file and the options, and describe the service.

        Raises:
            AppError: The file has no such pipeline, or cannot be loaded.
            SettingsError: An option is invalid.
        """
        options.check()
        parsed = App.parse(app)
        require_printable(parsed.path.absolute())
        loaded = App(parsed.path.absolute(), parsed.chosen)
        _check(loaded, options.brokers)
        heap = options.conf.get(DRIVER_HEAP, DEFAULT_HEAP)
        return cls(
            name=service_name(name, parsed),
            app=loaded,
            options=options,
            memory_mb=_limit(memory, heap),
        )

    @property
    def file(self) -> str:
        """The name of the app file, without its folder."""
        return self.app.path.name

    def target(self, path: str) -> str:
        """Return the argument of ``eagre run`` for the app at a path."""
        return f"{path}:{self.app.chosen}" if self.app.chosen else path


def require_printable(path: Path) -> None:
    """Refuse a path that would break the lines of a file.

    Raises:
        SettingsError: It has a control character.
    """
    if not str(path).isprintable():
        raise SettingsError(
            "PATH_UNPRINTABLE", f"{str(path)!r} has a character that no service file can hold."
        )


def service_name(name: str | None, app: App) -> str:
    """Return the name of the service: as given, or from the pipeline or file.

    >>> service_name(None, App.parse("Card_scores.py"))
    'card-scores'

    Raises:
        SettingsError: It is no name of a Kubernetes service, which is also valid for systemd.
    """
    words = re.findall(r"[a-z0-9]+", (app.chosen or app.path.stem).lower())
    result = name or "-".join(words)
    if not _NAME.fullmatch(result):
        raise SettingsError(
            "SERVICE_NAME_INVALID",
            f"a service's name must be up to 40 lower-case letters, digits and hyphens, beginning "
            f"with a letter, not {result!r}.",
            hint="choose one with --name.",
        )
    return result


def _check(app: App, brokers: str | None) -> None:
    """Load the file as ``eagre run`` does before it starts Spark."""
    app.check_readable()
    with contextlib.redirect_stdout(sys.stderr):  # output of the app is no result of the command
        declared = app.pipelines_before_spark()
    if declared is None:
        say(
            f"{app.path.name} needs a Spark session while it is loaded, so its pipelines were not "
            "looked at; `eagre check` does that"
        )
        return
    without = [p.name for p in app.choose(declared) if p.needs_brokers and not brokers]
    if without:
        raise SettingsError(
            "BROKERS_MISSING",
            f"pipeline {without[0]!r} names no Kafka cluster, and a service must not depend on an "
            "embedded broker.",
            hint="pass --brokers HOST:PORT, or set EAGRE_BROKERS.",
        )


def _limit(memory: str | None, heap: str) -> int:
    """Return the memory limit in MB: as given, or derived from the heap."""
    if memory is None:
        return memory_mb(heap)
    if megabytes(memory) <= megabytes(heap):
        raise SettingsError(
            "MEMORY_BELOW_HEAP",
            f"--memory {memory} leaves nothing beside the heap of {heap}.",
            hint=f"pass at least {memory_mb(heap)}m, or a smaller --conf {DRIVER_HEAP}.",
        )
    return megabytes(memory)


def write_files(folder: Path, files: dict[str, str], *, force: bool) -> None:
    """Write files into a folder, which is created if it does not exist.

    Raises:
        SettingsError: A file exists with other content, or cannot be written.
    """
    try:
        changed = [
            path
            for name, text in files.items()
            if (path := folder / name).exists() and path.read_bytes() != text.encode()
        ]
        if changed and not force:
            raise SettingsError(
                "FILE_EXISTS",
                f"{changed[0]} exists with other content, and nothing was written.",
                hint="compare them, then pass --force to replace it.",
            )
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
            say(f"wrote {folder / name}")
    except OSError as error:
        raise SettingsError(
            "OUTPUT_UNWRITABLE", f"--output {folder} cannot be written: {error.strerror}."
        ) from None
