"""The command: ``python -m soak --hours 2``."""

from __future__ import annotations

import argparse
import signal
import subprocess
import threading
import time
import traceback
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from eagre.files import write_atomically

from .campaign import Campaign, Options
from .figure import draw
from .record import SAMPLES, Record, read
from .report import report
from .use_cases import USE_CASES
from .verdict import judge

PASSED, FAILED = 0, 1


def main() -> None:
    """Run a soak and report, or report on the record of an earlier one."""
    parsed = _parser().parse_args()
    if parsed.report:
        raise SystemExit(_report(parsed.report))
    seed = parsed.seed if parsed.seed is not None else int(time.time()) % 100_000
    folder = parsed.folder or Path(f"soak-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    if (folder / SAMPLES).exists():
        raise SystemExit(f"{folder} has a soak already; --report {folder} reports on it")
    options = Options(
        folder=str(folder),
        hours=parsed.hours,
        pipelines=tuple(parsed.pipeline or USE_CASES),
        rate=parsed.rate,
        every=parsed.every,
        seed=seed,
        faults_minutes=parsed.faults,
        sample_seconds=parsed.sample,
        inspect_minutes=parsed.inspect,
    )
    _run(options)
    raise SystemExit(_report(folder))


def _run(options: Options) -> None:
    """Run until the end, Ctrl-C or SIGTERM; the record is complete in each case."""
    stop = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: stop.set())
    record = Record(Path(options.folder))
    print(f"soak: seed {options.seed}; everything is in {options.folder}", flush=True)
    record.add("begin", 0.0, options=asdict(options), at=time.time(), commit=_commit())
    campaign = Campaign(options, record, stop)
    try:
        campaign.run()
    except Exception as error:  # noqa: BLE001  (what was recorded until then is reported)
        traceback.print_exc()
        record.add("problem", campaign.hours, text=f"the soak ended early: {error!r}")
    finally:
        record.close()


def _report(folder: Path) -> int:
    """Write and print the report of a record; return the exit code."""
    lines = list(read(folder))
    verdict = judge(lines)
    text = report(verdict)
    write_atomically(folder / "report.md", text)
    for file in draw(lines, folder):
        print(f"soak: {file}")
    print(text, end="", flush=True)
    return FAILED if verdict.problems else PASSED


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607  (the user's git)
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="soak", description="Run the use cases for hours.")
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, help="a new folder for everything that is written")
    parser.add_argument("--pipeline", action="append", choices=USE_CASES, help="default: all six")
    parser.add_argument("--rate", type=float, default=20.0, help="events per second of each")
    parser.add_argument("--every", default="10 seconds", help="the interval of the commits")
    parser.add_argument("--seed", type=int, help="of the events and the faults")
    parser.add_argument("--faults", type=float, default=10.0, help="minutes between two; 0: none")
    parser.add_argument("--sample", type=float, default=60.0, help="seconds between two samples")
    parser.add_argument("--inspect", type=float, default=5.0, help="minutes between two looks")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="report on it, run nothing")
    return parser


if __name__ == "__main__":
    main()
