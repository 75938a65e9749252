"""Run trials of faults against pipelines, and report whether their promises held."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import broker_faults, disk_faults  # noqa: F401  (they register their faults)
from .faults import ACCESS, FAULTS, LINKS, SLOW_DISK, SMALL_DISK, THREE
from .shapes import ALL, SHAPES
from .table import Line, summary, write_table
from .trial import Plan, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .verify import Verdict

CONTROLS = ("none", "off", "maximum", "late")
CONTROLS_HELP = """break exactly-once delivery; the verifier must notice. off: no replay filter
(duplicates). maximum: everything up to the highest position is skipped (losses). late: records of a
dead run arrive late (duplicates for readers that ignore fences)"""
ENVIRONMENTS = {
    frozenset[str](): 5,
    frozenset({LINKS}): 2,
    frozenset({LINKS, THREE}): 3,
    frozenset({ACCESS}): 1,
    frozenset({SMALL_DISK}): 1,
    frozenset({SLOW_DISK}): 1,
}
"""What a trial has, and how often; beside the faults for it, it gets others."""


class Turns:
    """Draws what came least often so far, by its weight; chance decides among equals."""

    def __init__(self, pick: random.Random) -> None:
        self._pick, self._drawn = pick, Counter[Any]()

    def draw(self, weights: Mapping[Any, float]) -> Any:  # noqa: ANN401  (any choice)
        """Draw one of the choices, given with their weights."""
        turns = {choice: (self._drawn[choice] + 1) / weight for choice, weight in weights.items()}
        first = min(turns.values())
        drawn = self._pick.choice([choice for choice, turn in turns.items() if turn == first])
        self._drawn[drawn] += 1
        return drawn


def plans(seed: int, batch: int, shapes: list[str], **options: Any) -> Iterator[Plan]:  # noqa: ANN401
    """Yield the endless trials of a campaign: shapes in turn, each with faults that suit it.

    Every other fault is one that needs what the trial has, if there is any; none comes twice.
    """
    pick = random.Random(seed)
    shape_turns, places, turns = Turns(pick), Turns(pick), Turns(pick)
    while True:
        shape = SHAPES[shape_turns.draw(dict.fromkeys(shapes, 1.0))]
        needs = places.draw(ENVIRONMENTS) if shape.output == "kafka" else frozenset()
        suitable = {
            f.name: f.weight for f in FAULTS.values() if f.needs <= needs and f.suits(shape)
        }
        chosen: list[str] = []
        while len(chosen) < min(batch, len(suitable)):
            left = {name: weight for name, weight in suitable.items() if name not in chosen}
            special = {name: weight for name, weight in left.items() if FAULTS[name].needs}
            chosen.append(turns.draw(special if special and len(chosen) % 2 == 0 else left))
        yield Plan(shape, tuple(chosen), needs, pick.randrange(1 << 31), **options)


def chosen_plan(kinds: list[str], shape: str, seed: int, **options: Any) -> Plan:  # noqa: ANN401
    """Return a trial with these faults and all that they need."""
    needs = frozenset[str]().union(*(FAULTS[kind].needs for kind in kinds))
    return Plan(SHAPES[shape], tuple(kinds), needs, seed, **options)


def conduct(plan: Plan, *, keep: bool) -> dict[str, Any]:
    """Run a trial in a folder of its own, and return its line of the results."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.chmod(0o711)  # PostgreSQL runs under another account
    os.environ["EAGRE_STATE"] = str(folder / "state")
    begin = time.monotonic()
    trial = Trial(plan, folder)
    try:
        outcome = trial.run_through()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    line = trial.outcome_line(outcome)
    line["minutes"] = round((time.monotonic() - begin) / 60, 1)
    line["as_expected"] = as_expected(line, outcome.verdict)
    if line["as_expected"] or not keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"  its files: {folder}", flush=True)
    return line


def as_expected(line: dict[str, Any], verdict: Verdict) -> bool:
    """Return whether a trial went as it must: clean, or broken in the way of its control."""
    if line["failure"]:
        return False
    clean = verdict.clean(exactly_once=SHAPES[line["shape"]].exactly_once)
    match line["control"]:
        case "off":
            return verdict.repeated > 0
        case "maximum":
            return verdict.lost > 0
        case "late":
            return verdict.repeated_plain > 0 and clean
        case _:
            return clean


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    number: dict[str, Any] = {"type": int, "metavar": "N"}
    parser.add_argument("--rounds", **number, default=20, help="number of faults, over all trials")
    parser.add_argument("--batch", **number, default=6, help="faults of each trial")
    parser.add_argument("--seed", **number, help="repeats a campaign")
    parser.add_argument("--minutes", type=float, help="begin no new trial after so long")
    parser.add_argument("--rate", type=float, default=300, help="records per second")
    parser.add_argument("--every", default="10 seconds", help="the commit interval")
    parser.add_argument("--pause", type=float, default=8, help="maximum seconds before each fault")
    parser.add_argument("--control", choices=CONTROLS, default="none", help=CONTROLS_HELP)
    shapes: dict[str, Any] = {"action": "append", "choices": tuple(SHAPES), "metavar": "SHAPE"}
    parser.add_argument("--pipeline", **shapes, help=f"one of {', '.join(SHAPES)}; repeatable")
    parser.add_argument("--kinds", help="one trial with these faults, separated by commas")
    parser.add_argument("--standby", action="store_true", help="hold a second process ready")
    parser.add_argument("--conf", action="append", default=[], help="a Spark setting: KEY=VALUE")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="append the results of each "
                        "trial to this file; if it has some, continue its campaign")  # fmt: skip
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table of the results "
                        "file into this page, and run nothing")  # fmt: skip
    return parser.parse_args()


def stored(path: Path | None) -> list[dict[str, Any]]:
    """Return the lines of a results file."""
    if not path or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> None:
    """Run a campaign, or continue one; exit with 1 if a promise was broken."""
    options = parsed()
    lines = stored(options.resume)
    if options.table:
        write_table(options.table, lines)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    drawn = [line for line in lines if line["trial"] is not None]
    seed = options.seed or (drawn[0]["campaign"] if drawn else int(time.time()) % 100_000)
    print(f"seed {seed}", flush=True)
    done = 0 if options.kinds else sum(line["campaign"] == seed for line in drawn)
    trials = itertools.islice(enumerate(_plans(options, seed)), done, None)
    deadline = time.monotonic() + 60 * (options.minutes or 1e9)
    fresh: list[Line] = []
    for number, plan in trials:
        if sum(len(line["faults"]) for line in [*lines, *fresh]) >= options.rounds:
            break
        if time.monotonic() > deadline:
            break
        needs = f" with {', '.join(sorted(plan.needs))}" if plan.needs else ""
        print(f"trial {number}: {plan.shape.name}{needs}: {', '.join(plan.faults)}", flush=True)
        place = {"campaign": seed, "trial": None if options.kinds else number}
        fresh.append({**place, **conduct(plan, keep=True)})
        print(summary(fresh[-1]), flush=True)
        if options.resume:
            with options.resume.open("a") as file:
                file.write(json.dumps(fresh[-1]) + "\n")
    raise SystemExit(0 if all(line["as_expected"] for line in fresh) else 1)


def _plans(options: argparse.Namespace, seed: int) -> Iterator[Plan]:
    common = {
        name: getattr(options, name) for name in ("rate", "every", "pause", "control", "standby")
    }
    common["conf"] = tuple(options.conf)
    names = options.pipeline or [
        shape.name for shape in ALL if shape.exactly_once or options.control == "none"
    ]
    if options.kinds:
        kinds = options.kinds.split(",")
        options.rounds = sys.maxsize
        return (chosen_plan(kinds, name, seed, **common) for name in names)
    return plans(seed, min(options.batch, options.rounds), names, **common)


if __name__ == "__main__":
    main()
