"""The handle of a Spark child: starts its session of processes, reads its events, ends it."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from eagre.config import project_dir
from eagre.files import TemporaryFolder
from eagre.runtime.logs import RotatingLog
from eagre.runtime.process_session import kill_session
from eagre.session import TEMPORARY
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.runtime.spec import RunSpec

Event = dict[str, Any]
END_SECONDS = 20.0
DASHBOARD_TOKEN = "EAGRE_DASHBOARD_TOKEN"  # noqa: S105  (the name of a variable)


class SparkChild:
    """One Spark child and all processes of its session.

    Raises:
        OSError: The process, its log or its temporary folder cannot be made.
    """

    def __init__(
        self,
        spec: RunSpec,
        name: str,
        on_event: Callable[[SparkChild, Event], None],
        logs: Path | None = None,
    ) -> None:
        self.spec = spec
        self.name = name
        self._gone = False
        log = f"{name}.standby" if spec.standby else name
        self._log = RotatingLog(logs or project_dir() / "logs", log)
        try:
            self._folder = temporary_folder()
            events = self._start()
        finally:
            self._log.handed_over()
        self.tell(spec.to_json())
        self._reader = threading.Thread(target=self._read, args=(events, on_event), daemon=True)
        self._reader.start()
        threading.Thread(target=self._await_exit, args=(on_event,), daemon=True).start()

    def _start(self) -> IO[str]:
        """Start the process; return where its events arrive."""
        reader, writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "eagre.runtime.child", str(writer)],
                stdin=subprocess.PIPE,
                stdout=self._log.output,
                stderr=self._log.output,
                pass_fds=[writer, self._folder.lock],
                env=_environment(self._folder.path),
                start_new_session=True,
            )
        except OSError:
            os.close(reader)
            self._folder.remove()
            raise
        finally:
            os.close(writer)
        return os.fdopen(reader)

    @property
    def pid(self) -> int:
        """The id of the child's process and of its session."""
        return self._process.pid

    @property
    def log(self) -> Path:
        """The file of its output."""
        return self._log.path

    def take_over(self) -> None:
        """Let a standby run the query, and write its log as the process before it did."""
        if self.spec.standby:
            self._log.continue_as(self.name)
            self.tell("go")

    def tell(self, line: str) -> None:
        """Send a command; does nothing if the child has exited."""
        stdin: IO[bytes] | None = self._process.stdin
        if stdin and not stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(line.encode() + b"\n")
                stdin.flush()

    def drain(self) -> None:
        """Request the child to commit and then exit."""
        self.tell("drain")

    def kill(self) -> None:
        """Kill the whole session."""
        self._session_gone()

    def wait(self) -> int:
        """Wait until the child and all processes it started have exited."""
        code = self._process.wait()
        with contextlib.suppress(TimeoutError):
            wait_until(self._session_gone, END_SECONDS, "", interval=0.01)
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._reader.join(END_SECONDS)
        self._log.close(END_SECONDS)
        self._folder.remove()
        return code

    def _session_gone(self) -> bool:
        """Kill the remaining processes of the session; return whether none is left."""
        self._gone = self._gone or kill_session(self._process.pid)
        return self._gone

    def _read(self, events: IO[str], on_event: Callable[[SparkChild, Event], None]) -> None:
        with events, contextlib.suppress(ValueError):  # a child may be killed within a line
            for line in events:
                on_event(self, json.loads(line))

    def _await_exit(self, on_event: Callable[[SparkChild, Event], None]) -> None:
        """Report the exit of the child after its last event.

        The end of the events is no sign of it: a process that the app forked holds the pipe too.
        """
        self._process.wait()
        with contextlib.suppress(TimeoutError):
            wait_until(self._session_gone, END_SECONDS, "", interval=0.01)
        self._reader.join(END_SECONDS)
        on_event(self, {"event": "gone"})


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a child: its temporary folder, and no token of the dashboard."""
    inherited = {name: value for name, value in os.environ.items() if name != DASHBOARD_TOKEN}
    return {**inherited, "TMPDIR": str(folder), TEMPORARY: str(folder)}


def is_process_1() -> bool:
    """Return whether this is the first process of a container, which inherits all orphans."""
    return os.getpid() == 1


def reap_orphans() -> None:
    """Reap the zombies whose own parent has exited.

    As process 1 of a container this process inherits them, for example the workers of a JVM that
    was killed. Its own children are left to their handles, which need the exit codes: they are in
    its session, or lead one.
    """
    import psutil

    for process in psutil.Process().children():
        with contextlib.suppress(OSError, psutil.Error):
            is_orphan = os.getsid(process.pid) not in (os.getsid(0), process.pid)
            if is_orphan and process.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(process.pid, os.WNOHANG)


def temporary_folder() -> TemporaryFolder:
    """Make the folder for the temporary files of a Spark process, and sweep those of killed ones.

    The processes hold its lock. The folder above it belongs to this user alone.
    """
    base = Path(tempfile.gettempdir()) / f"eagre-{os.getuid()}"
    with contextlib.suppress(OSError):
        base.mkdir(mode=0o700)
    status = base.lstat() if base.exists() else None
    if not status or not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        base = Path(tempfile.mkdtemp(prefix="eagre-"))
    return TemporaryFolder(base, "spark-")
