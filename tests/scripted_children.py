"""A supervisor whose Spark children are small scripts: processes and pipes, without Spark."""

import contextlib
import json
import sys
import threading
from pathlib import Path

from eagre.errors import PipelineFailed
from eagre.runtime.spec import RunSpec
from eagre.runtime.supervisor import Supervisor
from eagre.waiting import wait_until

PROGRAM = """#!{python} -S
import json, os, signal, subprocess, sys, time
from pathlib import Path

events, folder = os.fdopen(int(sys.argv[-1]), "w"), Path({folder!r})

def tell(event, **data):
    events.write(json.dumps({{"event": event, **data}}) + "\\n")
    events.flush()

def introduce(*names, needs_brokers=False, has_run=False):
    tell("pipelines", names=names or [name], chosen=name, needs_brokers=needs_brokers,
         has_run=has_run)
    if sys.stdin.readline() == "drain\\n":
        tell("ended", drained=True, written=None, epochs=0)
        sys.exit(0)

def running(resumed=-1):
    tell("running", mode="real-time", every_ms=1000, checkpoint="", resumed=resumed, about={{}})

def status(epochs):
    tell("status", lag=0, written=0, epochs=epochs, late=0, metrics={{}},
         overdue_seconds=0.0, overdue_reason="")

def fail(code):
    tell("failed", code=code, problem=code.lower() + ".", hint="")
    sys.exit(1)

def crash():
    os.kill(os.getpid(), signal.SIGKILL)

def until_drained():
    while sys.stdin.readline() not in ("drain\\n", ""):
        pass
    tell("ended", drained=True, written=None, epochs=0)
    sys.exit(0)

spec = json.loads(sys.stdin.readline())
name = spec["pipeline"] or "score"
scripts = json.loads((folder / "scripts.json").read_text())[name]
number = len(list(folder.glob(name + ".start.*")))
(folder / f"{{name}}.start.{{number}}").write_text(json.dumps({{**spec, "pid": os.getpid()}}))
exec(scripts[min(number, len(scripts) - 1)])
"""


class Supervised:
    """A run of scripted children, in a thread.

    Args:
        folder: A folder of its own.
        scripts: For each pipeline the scripts of its starts; the last one repeats.
        options: Arguments of the supervisor, and fields of the specification.
    """

    def __init__(self, folder, scripts, *, restarts=2, standby=False, brokers=lambda: "", **spec):
        self.folder = folder
        self.events = []
        self.outcome = None
        (folder / "scripts.json").write_text(json.dumps(scripts))
        self.supervisor = Supervisor(
            RunSpec(app=str(folder / "score.py"), **spec),
            brokers,
            lambda name, event: self.events.append((name, event)),
            restarts=restarts,
            standby=standby,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()
        return self

    def _run(self):
        try:
            self.supervisor.run()
            self.outcome = "ended"
        except (PipelineFailed, KeyboardInterrupt) as error:
            self.outcome = getattr(error, "code", type(error).__name__)
        except Exception as error:  # noqa: BLE001  (shown by the test)
            self.outcome = repr(error)

    def stop(self):
        """Stop as the signal handler does, which may raise in the thread that runs."""
        with contextlib.suppress(KeyboardInterrupt):
            self.supervisor.stop()

    def wait(self, timeout=20):
        wait_until(lambda: not self._thread.is_alive(), timeout, f"it does not end: {self.events}")
        return self.outcome

    def has(self, kind, name="score", **data):
        wanted = {"event": kind, **data}
        return any(at == name and wanted.items() <= event.items() for at, event in self.events)

    def wait_for(self, kind, name="score", **data):
        def reported():
            assert self.outcome is None or self.has(kind, name, **data), self.outcome
            return self.has(kind, name, **data)

        wait_until(reported, 20, f"no {kind} of {name}")
        return self

    def wait_for_starts(self, number, name="score"):
        wait_until(lambda: len(self.starts(name)) >= number or self.outcome, 20, "it never started")
        assert len(self.starts(name)) >= number, self.outcome
        return self

    def starts(self, name="score"):
        """Return the specification of each start of a pipeline, with the child's process id."""
        files = sorted(
            self.folder.glob(f"{name}.start.*"), key=lambda path: int(path.suffix.strip("."))
        )
        return [json.loads(path.read_text() or "{}") for path in files]


def install(folder, monkeypatch):
    """Make every Spark child of this process a scripted one."""
    program = Path(folder) / "child"
    program.write_text(PROGRAM.format(python=sys.executable, folder=str(folder)))
    program.chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EAGRE_STATE", str(Path(folder) / "state"))
    monkeypatch.setattr(sys, "executable", str(program))
