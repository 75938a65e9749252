"""``eagre run``: runs the pipelines of a file, each in a separate Spark process."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import click

from eagre.broker import EmbeddedBroker, registry
from eagre.cli.commands import Command, Option
from eagre.cli.console import Verbosity, detail, live, rewrite_line, say, verbosity, warn
from eagre.cli.exit_codes import ExitCode
from eagre.cli.options import (
    app_argument,
    brokers_option,
    execution_options,
    require_once,
    spark_options,
)
from eagre.cli.pipelines.dashboard import dashboard_options, judge_slo, served_dashboard
from eagre.cli.signals import stop_signals
from eagre.config import LOOPBACK, counted, project_dir
from eagre.profile import CHOICE, CLIENTS
from eagre.runtime.app import App
from eagre.runtime.spec import RunSpec
from eagre.runtime.supervisor import RESTARTS, Supervisor
from eagre.session import LOG_LEVEL, THREADS, stated_master

if TYPE_CHECKING:
    from eagre.runtime.spark_child import Event

_PLAIN_EVERY_SECONDS = 10
_URGENT = frozenset({"restarting", "stalled"})
"""Events that are printed even with ``--quiet``."""


@click.command(
    cls=Command,
    examples=(
        "eagre run score.py",
        "eagre run score.py:fraud --brokers kafka:9092 --every '1 minute'",
        "eagre run score.py --mode available-now --from earliest",
        "eagre run score.py --conf spark.driver.memory=4g --conf spark.ui.enabled=true",
    ),
)
@app_argument()
@execution_options
@click.option(
    "--from",
    "start",
    metavar="earliest|latest|TIME",
    help="Where a new checkpoint starts reading. [default: latest; earliest in available-now]",
)
@click.option("--resume", is_flag=True, help="Do not start without a checkpoint to continue from.")
@click.option("--no-check", is_flag=True, help="Start even if the check finds errors.")
@click.option(
    "--restarts",
    type=click.IntRange(0),
    metavar="N",
    default=RESTARTS,
    show_default=True,
    help="Failures in a row, each without a commit since its start, before the run gives up.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Hold a second Spark process ready, which takes over when the first one fails: some "
    "seconds instead of a whole start, for about as much memory again. Local mode only.",
)
@brokers_option("what the app names, else an embedded broker")
@click.option(
    "--profile",
    cls=Option,
    group="Kafka",
    type=click.Choice(list(CLIENTS)),
    help="What the Kafka clients are tuned for. [default: latency]",
)
@spark_options
@dashboard_options
@click.option(
    "--dashboard-host",
    cls=Option,
    group="Dashboard",
    default=LOOPBACK,
    show_default=True,
    metavar="HOST",
    help="The address to listen on; others on the network may reach any but loopback.",
)
@click.option(
    "--slo-check",
    is_flag=True,
    cls=Option,
    group="Dashboard",
    help=f"At the end, exit with {ExitCode.SLO_BROKEN:d} if a pipeline missed its SLO.",
)
def run(
    app: str,
    no_check: bool,
    restarts: int,
    standby: bool,
    profile: str | None,
    conf: dict[str, str],
    no_dashboard: bool,
    dashboard_port: int,
    dashboard_host: str,
    no_payloads: bool,
    slo_check: bool,
    **options: Any,  # noqa: ANN401  (the fields of RunSpec with these names)
) -> None:
    """Run the pipelines of a file until Ctrl-C or SIGTERM drains them.

    A pipeline that fails is restarted: immediately, then after 1, 2, 4 ... 30 s.

    A drain finishes and commits the rows in flight, so that the next start repeats nothing; a
    second Ctrl-C stops immediately. Before the query runs there is nothing to drain.
    """
    if slo_check and no_dashboard:
        raise click.UsageError("--slo-check needs the dashboard's meter: drop --no-dashboard.")
    parsed = App.parse(app)
    parsed.check_readable()
    settings = _settings(conf, profile, options["master"])
    spec = RunSpec(
        str(parsed.path), parsed.chosen, settings=settings, check=not no_check, **options
    )
    if standby:
        _require_standby_possible(spec, restarts)
    detail(f"Spark logs to {project_dir() / 'logs'}")
    display, cluster = Display(), ProjectBroker()
    supervisor = Supervisor(spec, cluster.address, display.show, restarts=restarts, standby=standby)
    with (
        stop_signals(supervisor.stop),
        contextlib.closing(display),
        contextlib.closing(cluster),
        served_dashboard(
            not no_dashboard,
            dashboard_port,
            supervisor.shown,
            payloads=not no_payloads,
            host=dashboard_host,
        ) as dashboard,
    ):
        supervisor.run(dashboard.url if dashboard else "")
        if slo_check and dashboard:
            click.get_current_context().exit(judge_slo(dashboard))


def _require_standby_possible(spec: RunSpec, restarts: int) -> None:
    """Refuse a standby where it would hold executors, or could never take over."""
    master = stated_master(spec.master, spec.settings)
    if not THREADS.fullmatch(master):
        raise click.UsageError(
            f"--standby works in local mode only, not with --master {master}: a second driver "
            "would hold executors that it does not use."
        )
    if spec.mode == "available-now" or not restarts:
        never = "--mode available-now" if restarts else "--restarts 0"
        raise click.UsageError(f"--standby needs a pipeline that is restarted: drop {never}.")


def _settings(conf: dict[str, str], profile: str | None, master: str | None) -> dict[str, str]:
    """Return the settings of the Spark session."""
    require_once(conf, CHOICE, "--profile", profile)
    require_once(conf, "spark.master", "--master", master)
    tuning = {CHOICE: profile} if profile else {}
    logging = {LOG_LEVEL: "INFO"} if verbosity() is Verbosity.VERBOSE else {}
    return {**logging, **conf, **tuning}


class ProjectBroker:
    """The embedded broker of the current folder: a running one, or one for this run only."""

    def __init__(self) -> None:
        self._broker: EmbeddedBroker | None = None
        self._address = ""

    def address(self) -> str:
        """Return the address; the first call starts a broker if none is running."""
        if not self._address:
            self._address = self._running() or self._start()
        return self._address

    def close(self) -> None:
        """Stop the broker if it was started for this run; its data stays."""
        if self._broker:
            self._broker.stop()

    def _running(self) -> str:
        running = registry.serving(project_dir() / "broker")
        if running:
            say(f"using the embedded broker on {running.bootstrap}")
        return running.bootstrap if running else ""

    def _start(self) -> str:
        self._broker = EmbeddedBroker(data=project_dir() / "broker", say=say)
        return self._broker.start().address


class Display:
    """Shows a run: a line that is rewritten on a terminal, or a line every ten seconds."""

    def __init__(self) -> None:
        self._live = live()
        self._runs: dict[str, dict[str, Any]] = {}
        self._line = ""

    def show(self, name: str, event: Event) -> None:
        """Show an event."""
        text = getattr(self, f"_{event['event']}", lambda *_: "")(name, event)
        if text:
            self._clear()
            echo = warn if event["event"] in _URGENT else say
            echo(f"{name}: {text}")

    def close(self) -> None:
        """Clear the line."""
        self._clear()

    def _phase(self, _: str, event: Event) -> str:
        return str(event["text"])

    _note = _phase

    def _checked(self, _: str, event: Event) -> str:
        """Return the findings that do not stop the run, in one line."""
        findings = [
            f"{f['level']} {f['id']}: {f['problem']} {f['remedy']}"
            for f in event["findings"]
            if f["level"] != "advice"
        ]
        advice = sum(f["level"] == "advice" for f in event["findings"])
        if advice:
            findings.append(f"{advice} more: see `eagre check`")
        return "; ".join(findings)

    def _running(self, name: str, event: Event) -> str:
        self._runs[name] = {"since": time.monotonic(), "printed_at": 0.0, "written": None, **event}
        pace = {"real-time": "commits every", "micro-batch": "trigger of"}.get(event["mode"])
        every = f", {pace} {event['every_ms'] / 1000:g} s" if pace else ""
        resumed = f", resumed after batch {event['resumed']}" if event["resumed"] >= 0 else ""
        return f"running in {event['mode']}{every}{resumed}; Ctrl-C drains"

    def _restarting(self, _: str, event: Event) -> str:
        tries = f"{event['attempt']} of {event['most']}"
        return f"{event['reason']} Starting again {event['when']} ({tries})"

    def _stalled(self, _: str, event: Event) -> str:
        return f"stalled: {event['reason']}"

    def _flows(self, _: str, __: Event) -> str:
        return "records flow again"

    def _draining(self, name: str, event: Event) -> str:
        within = event["within_ms"] / 1000
        self._runs[name]["until"] = time.monotonic() + within
        return f"draining, within {within:g} s; a second Ctrl-C stops immediately"

    def _status(self, name: str, event: Event) -> str:
        text = self._figures(self._runs[name], event)
        if self._live:
            self._rewrite(f"{name}: {text}")
            return ""
        if time.monotonic() - self._runs[name]["printed_at"] < _PLAIN_EVERY_SECONDS:
            return ""
        self._runs[name]["printed_at"] = time.monotonic()
        return text

    def _ended(self, name: str, event: Event) -> str:
        outcome = "drained" if event["drained"] else "backlog processed"
        first = self._runs[name].get("first") if event["written"] is not None else None
        rows = (
            f", {counted(event['written'] - first, 'record')} written" if first is not None else ""
        )
        return f"{outcome}{rows}"

    def _figures(self, run: dict[str, Any], event: Event) -> str:
        now, written = time.monotonic(), event["written"]
        parts = []
        if written is not None:
            run.setdefault("first", written)
            if run["written"] is not None:
                rate = (written - run["written"]) / (now - run["at"])
                parts.append(f"{rate:,.0f} records/s out")
            run["written"], run["at"] = written, now
        if event["lag"] is not None:
            parts.append(f"lag {event['lag']:,}")
        parts.append(counted(event["epochs"], "commit"))
        if "until" in run:
            parts.append(f"draining {max(0.0, run['until'] - now):.0f} s")
        return " · ".join(parts)

    def _rewrite(self, line: str) -> None:
        self._line = line
        rewrite_line(line)

    def _clear(self) -> None:
        if self._line:
            rewrite_line()
            self._line = ""
