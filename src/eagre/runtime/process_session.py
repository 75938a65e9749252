"""Ends all processes of a session, also those that have left its first process group.

The daemons of Python workers lead groups of their own. They end with their JVM, unless one is
stopped or hangs: then it would outlive every restart.
"""

from __future__ import annotations

import contextlib
import os
import signal

from eagre.broker.registry import born


def kill_session(leader: int) -> bool:
    """Kill the other processes of a session, and return whether none is left.

    Zombies do not count: if the init process of a container reaps none, they stay forever.
    """
    import psutil

    alive = [pid for pid in psutil.pids() if pid != os.getpid() and _is_in(leader, pid)]
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not alive


def end_own_session() -> None:
    """Kill this process, the leader of its session, and all others in it."""
    with contextlib.suppress(Exception):
        kill_session(os.getpid())
    os.killpg(0, signal.SIGKILL)


def _is_in(session: int, pid: int) -> bool:
    try:
        return os.getsid(pid) == session and born(pid) is not None
    except (ProcessLookupError, PermissionError):
        return False
