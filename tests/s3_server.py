"""A real S3 server for the tests, from PyPI, on loopback: moto, which honours If-None-Match."""

import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError

import pytest

from database_servers import free_port
from eagre.waiting import wait_until

BUCKET = "checkpoints"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "word-that-nobody-may-see"}


class S3Server:
    """The server; what it holds is in its memory."""

    def __init__(self):
        self.port = free_port()
        self.process = None

    def start(self):
        program = Path(sys.executable).with_name("moto_server")
        self.process = subprocess.Popen(
            [program, "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers, 60, "the S3 server does not answer")
        self.request("PUT", BUCKET)

    def request(self, method, path):
        asked = urllib.request.Request(f"{self.endpoint}/{path}", method=method)  # noqa: S310
        with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310  (loopback)
            return answer.read().decode()

    def _answers(self):
        with suppress(URLError, OSError):
            return bool(self.request("GET", ""))
        return False

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self):
        """What the session needs to know; credentials are in the environment."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }

    def options(self, name):
        """Return the options of ``eagre run`` for a checkpoint."""
        confs = [word for pair in self.settings.items() for word in ("--conf", "=".join(pair))]
        return ("--checkpoint", f"s3a://{BUCKET}/{name}", *confs)

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def s3():
    server = S3Server()
    server.start()
    yield server
    server.close()
