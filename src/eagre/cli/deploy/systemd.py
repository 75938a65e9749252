"""The systemd unit of a service."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eagre.cli.deploy.service import require_printable
from eagre.cli.exit_codes import ExitCode
from eagre.commit.location import located

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eagre.cli.deploy.service import Service

STATE = Path("/var/lib")
"""Where ``StateDirectory=`` creates folders."""
HOMES = tuple(map(Path, ("/home", "/root", "/run/user")))
"""What ``ProtectHome=`` covers."""
SYSTEM = tuple(map(Path, ("/usr", "/boot", "/efi", "/etc")))
"""What ``ProtectSystem=full`` makes read-only."""
_PLAIN = re.compile(r"[\w@%+=:,./$\[\]-]+", re.ASCII)

TEMPLATE = """\
# Written by `eagre deploy systemd`, for {file}. docs/how-to/deploy.md explains each choice.
# Tests check this file with `systemd-analyze verify`; no test runs it under systemd.
[Unit]
Description=Eagre: {description}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
{resume}
ExecStart={command}
User={user}
WorkingDirectory={directory}
{state}\
Environment={environment}
# Secrets, such as EAGRE_KAFKA_CONFIG=/etc/eagre/client.properties and EAGRE_DASHBOARD_TOKEN=...;
# the file may be absent.
EnvironmentFile=-{env_file}
# Checkpoints hold keys and state.
UMask=0077

# SIGTERM, to the main process only, drains: the next start repeats nothing. The time must be longer
# than a drain; {terminated} means that no query had started.
KillMode=mixed
TimeoutStopSec={stop_seconds}
SuccessExitStatus={terminated}

# `eagre run` restarts pipelines itself; this is for when it gives up. A wrong command line
# (exit code {usage}) fails in the same way each time.
Restart=on-failure
RestartSec=30
RestartPreventExitStatus={usage}

# {memory_reason}
MemoryMax={memory}M
# A process that runs out of memory is restarted by `eagre run`, not with the whole service.
OOMPolicy=continue
LimitNOFILE=65536

# Not MemoryDenyWriteExecute=, which stops the JVM's compiler, and not PrivateDevices=, which hides
# GPUs.
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=full
{home}\
{writable}\
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes

[Install]
WantedBy=multi-user.target
"""
RESUME = """\
# --resume: this service starts only from a checkpoint. Remove it for the first start."""
NO_RESUME = """\
# After the first start, add --resume: a start that finds no checkpoint (a lost disk, a wrong
# directory) then fails instead of beginning at the newest records."""


@dataclass(frozen=True)
class Unit:
    """What only systemd needs to know of a service.

    Attributes:
        user: Who runs it.
        directory: Its working directory: checkpoints, logs, state. None: below ``/var/lib``.
        env_file: Its environment file. None: in ``/etc/eagre``.
        memory_given: Whether the memory limit was given, and not derived from the heap.
    """

    user: str
    directory: Path | None = None
    env_file: Path | None = None
    memory_given: bool = False


def unit(service: Service, settings: Unit) -> str:
    """Return the text of the unit file."""
    directory = (settings.directory or STATE / service.name).absolute()
    env_file = (settings.env_file or _env_file(service)).absolute()
    require_printable(directory)
    require_printable(env_file)
    installed = [Path(sys.prefix), Path(sys.base_prefix)]
    paths = [*installed, service.app.path, directory, *_checkpoint(service, directory)]
    return TEMPLATE.format(
        file=service.file,
        description=_specifiers(service.target(service.file)),
        resume=RESUME if service.options.resume else NO_RESUME,
        command=command([*eagre(), "run"], service.target(str(service.app.path)), service),
        user=settings.user,
        directory=_specifiers(str(directory)),
        state=_state_directory(directory),
        environment=" ".join(
            quoted(_specifiers(f"{name}={directory / folder}"))
            for name, folder in (("EAGRE_STATE", "state"), ("EAGRE_CACHE", "cache"))
        ),
        env_file=_specifiers(str(env_file)),
        stop_seconds=service.options.stop_seconds,
        terminated=f"{ExitCode.TERMINATED:d}",
        usage=f"{ExitCode.USAGE:d}",
        memory=service.memory_mb,
        memory_reason=_memory_reason(given=settings.memory_given),
        home=_protect_home(paths),
        writable=_writable([directory, *_checkpoint(service, directory)]),
    )


def eagre() -> list[str]:
    """Return the command of this installation, by its absolute path."""
    script = Path(sys.executable).parent / "eagre"
    return [str(script)] if script.exists() else [sys.executable, "-m", "eagre"]


def command(program: Sequence[str], target: str, service: Service) -> str:
    """Return the command of the service, one option to a line."""
    first, *rest = program
    head = " ".join([quoted(_specifiers(first)), *map(argument, [*rest, target])])
    return " \\\n    ".join([head, *map(argument, service.options.arguments())])


def argument(text: str) -> str:
    """Return an argument by systemd's rules: nothing in it is a variable or a specifier.

    >>> argument("5 minutes"), argument("100%"), argument("$HOME")
    ('"5 minutes"', '100%%', '$$HOME')
    """
    return quoted(_specifiers(text).replace("$", "$$"))


def quoted(text: str) -> str:
    """Quote a word by systemd's rules, if it needs quotes."""
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\x{ord(c[0]):02x}", escaped) + '"'


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _env_file(service: Service) -> Path:
    return Path("/etc/eagre") / f"{service.name}.env"


def _checkpoint(service: Service, directory: Path) -> list[Path]:
    """Return the checkpoint's folder, if it is outside of the working directory."""
    chosen = service.options.checkpoint
    place = located(chosen) if chosen else directory
    return [place] if isinstance(place, Path) and not place.is_relative_to(directory) else []


def _state_directory(directory: Path) -> str:
    """Let systemd create the working directory, if it is one of those that it manages."""
    if not directory.is_relative_to(STATE) or directory == STATE:
        return ""
    return (
        "# systemd creates it for the user.\n"
        f"StateDirectory={quoted(_specifiers(str(directory.relative_to(STATE))))}\n"
        "StateDirectoryMode=0700\n"
    )


def _protect_home(paths: Iterable[Path]) -> str:
    """Hide the homes, or only protect them if the service needs one."""
    needed = any(path.is_relative_to(home) for path in paths for home in HOMES)
    return f"ProtectHome={'read-only' if needed else 'yes'}\n"


def _writable(folders: Iterable[Path]) -> str:
    """Return the exceptions from ``ProtectSystem=`` and ``ProtectHome=``."""
    exceptions = [
        folder
        for folder in sorted(set(folders))
        if any(folder.is_relative_to(place) for place in (*SYSTEM, *HOMES))
    ]
    return "".join(f"ReadWritePaths={quoted(_specifiers(str(f)))}\n" for f in exceptions)


def _memory_reason(*, given: bool) -> str:
    if given:
        return "As given: heap, native memory and Python processes."
    return (
        "The heap, 40 % of it and 1 GB: native memory, Python processes. Add state, see the docs."
    )
