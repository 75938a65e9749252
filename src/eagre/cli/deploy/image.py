"""The Containerfile of a service."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import TYPE_CHECKING

from eagre import __version__
from eagre.commit.location import session_settings
from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from eagre.cli.deploy.service import Service

APP_FOLDER = "/app"
USER_ID = 10001
WHEEL = f"eagre-{__version__}-py3-none-any.whl"
TEMPLATE = """\
# syntax=docker/dockerfile:1
# Written by `eagre deploy kubernetes --containerfile`, for {file}. No test builds it.
# Put {wheel} (make wheel) beside {file}; that folder is the context:
#   docker build -t {image} -f Containerfile FOLDER        (or podman)
FROM python:3.11-slim-bookworm
RUN apt-get update \\
 && apt-get install -y --no-install-recommends openjdk-17-jdk-headless \\
 && rm -rf /var/lib/apt/lists/*

# Hadoop needs the user's name.
RUN useradd --system --user-group --uid {user} --home-dir /data --shell /usr/sbin/nologin eagre

COPY {wheel} /tmp/
RUN pip install --no-cache-dir /tmp/{wheel} && rm /tmp/{wheel}
{dependencies}\
# The jars, and the archive with which Spark starts faster: nothing is fetched when a pod starts.
ENV EAGRE_CACHE=/opt/eagre/cache
RUN eagre jars fetch{stores}

{files}
{entrypoint}\
USER {user}:{user}
WORKDIR /data
"""
LOCAL = """\
ENTRYPOINT ["eagre"]
"""
WITH_EXECUTORS = """\
# The same image runs executors: Spark starts its pods with the argument `executor`.
# Executors on Kubernetes have not been run by Eagre's tests.
COPY --chmod=755 <<'SCRIPT' /opt/eagre/entrypoint.sh
{script}SCRIPT
ENTRYPOINT ["/opt/eagre/entrypoint.sh"]
"""
ENTRYPOINT = """\
#!/bin/bash
set -eu
if [ "${1:-}" != executor ]; then
  exec eagre "$@"
fi
# SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 ...: one option of the JVM each.
options=()
number=0
while name="SPARK_JAVA_OPT_$number"; [ -n "${!name+set}" ]; do
  options+=("${!name}")
  number=$((number + 1))
done
spark=$(python -c 'import pyspark, os; print(os.path.dirname(pyspark.__file__))')
exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \\
  -cp "${SPARK_CONF_DIR:-$spark/conf}:${SPARK_CLASSPATH:-}:$spark/jars/*" \\
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \\
  --driver-url "$SPARK_DRIVER_URL" \\
  --executor-id "$SPARK_EXECUTOR_ID" \\
  --cores "$SPARK_EXECUTOR_CORES" \\
  --app-id "$SPARK_APPLICATION_ID" \\
  --hostname "$SPARK_EXECUTOR_POD_IP" \\
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \\
  --podName "$SPARK_EXECUTOR_POD_NAME"
"""
"""What Spark's own entry point does for executors, without its image."""


def containerfile(
    service: Service, image: str, include: Sequence[str], *, executors: bool = False
) -> str:
    """Return the Containerfile; its context is the folder of the app.

    Args:
        service: The service.
        image: The name of the image.
        include: Files and folders beside the app that it needs, besides its Python files.
        executors: Whether the image also runs executors.

    Raises:
        SettingsError: A file to include is not in the folder of the app.
    """
    folder = service.app.path.parent
    sets = session_settings(service.options.checkpoint).values()
    return TEMPLATE.format(
        file=service.file,
        image=image,
        wheel=WHEEL,
        user=USER_ID,
        stores="".join(f" && eagre jars fetch {name}" for name in sets),
        dependencies=_dependencies(folder),
        files="".join(f"{line}\n" for line in _copies(folder, include)),
        entrypoint=WITH_EXECUTORS.format(script=ENTRYPOINT) if executors else LOCAL,
    )


def _copies(folder: Path, include: Sequence[str]) -> list[str]:
    """Return the lines that copy the app: the Python files of its folder, and what is named."""
    lines = [f"COPY *.py {APP_FOLDER}/"]
    for name in include:
        path = (folder / name).resolve()
        if not path.exists() or not path.is_relative_to(folder.resolve()):
            raise SettingsError(
                "INCLUDE_NOT_FOUND",
                f"--include {name}: there is no such file in {folder}.",
                hint="name a file or a folder beside the app, relative to it.",
            )
        inside = path.relative_to(folder.resolve()).as_posix()
        lines.append(f"COPY {json.dumps([inside, f'{APP_FOLDER}/{inside}'])}")
    return lines


def _dependencies(folder: Path) -> str:
    """Return the lines that install what the app needs besides Eagre, if its folder says so."""
    if (folder / "requirements.txt").exists():
        return (
            "COPY requirements.txt /tmp/\nRUN pip install --no-cache-dir -r /tmp/requirements.txt\n"
        )
    stated = _project_dependencies(folder / "pyproject.toml")
    others = [line for line in stated if not re.match(r"eagre\b(?!-)", line, re.IGNORECASE)]
    return f"RUN pip install --no-cache-dir {shlex.join(others)}\n" if others else ""


def _project_dependencies(file: Path) -> list[str]:
    try:
        project = tomllib.loads(file.read_text()).get("project", {})
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise SettingsError("PROJECT_UNREADABLE", f"{file} cannot be read: {error}.") from None
    return [str(line) for line in project.get("dependencies", [])]
