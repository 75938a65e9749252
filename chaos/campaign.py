"""Run rounds of faults against a pipeline and report the result."""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from itertools import cycle
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from .faults import Broker, Faults, Run
from .late_writes import write_late
from .load import Load
from .verify import SOURCE, Verdict, verify

HERE = Path(__file__).parent
PIPELINES = ("stateless", "counts")
RESUME = {
    "spark": "Spark starts",
    "fence": "the previous run is fenced",
    "running": "the query runs",
    "seconds": "results appear",
}
CONTROLS = ("none", "off", "maximum", "late")
CONTROLS_HELP = """break exactly-once delivery; the verifier must notice. off: no replay filter
(duplicates). maximum: everything up to the highest position is skipped (losses). late: records of a
dead run arrive late (duplicates for readers that ignore fences)"""
QUIET_SECONDS = 8
"""After so long without a new result, the output is complete."""


def campaign(  # noqa: PLR0913  (an option of the command line each)
    pipeline: str,
    kinds: list[str],
    *,
    seed: int,
    rate: float,
    every: str,
    pause: float,
    control: str,
    folder: Path,
    conf: list[str],
) -> dict:
    """Run a pipeline under load, inject the faults, and verify the output."""
    pick = random.Random(seed)
    shutil.copy(HERE / "app.py", folder / "app.py")
    env = {**os.environ, "EAGRE_STATE": str(folder / "state")}
    env.pop("EAGRE_BROKERS", None)
    settings = ["spark.sql.shuffle.partitions=2", *conf]
    env["PYSPARK_SUBMIT_ARGS"] = " ".join(
        [*(f"--conf {setting}" for setting in settings), "pyspark-shell"]
    )
    if control in ("off", "maximum"):
        env["EAGRE_DELIVERY_CONTROL"] = control
    broker = Broker(folder, env)
    broker.start()
    run = Run(
        folder, env, f"app.py:{pipeline}", "--every", every, "--brokers", broker.address,
        "--from", "earliest", "--checkpoint", "checkpoint", "--restarts", "1000",
    )  # fmt: skip
    load = Load(broker.address, SOURCE, rate, seed)
    faults = Faults(run, broker, folder / "checkpoint" / pipeline, pick)
    resumes = []
    try:
        run.wait_for("running in real-time", 0)
        load.start()
        time.sleep(3)
        for number, kind in enumerate(kinds, 1):
            time.sleep(pick.uniform(1, pause))
            faults.inject(kind)
            seconds = _resumed(run, broker.address, f"chaos-{pipeline}", faults.injected_at)
            resumes.append({"kind": kind, "seconds": seconds, **_phases(run, faults.injected_at)})
            print(
                f"{pipeline} {number}/{len(kinds)} {kind}: resumed after {seconds:.1f} s",
                flush=True,
            )
        if control == "late":
            write_late(broker.address, pipeline, pick)
        acknowledged = load.finish()
        _settle(broker.address, f"chaos-{pipeline}")
        run.end()
        verdict = verify(broker.address, pipeline, acknowledged)
    finally:
        run.kill("parent", "python", "jvm")
        run.process.wait(60)
        broker.stop()
    return {"pipeline": pipeline, "faults": Counter(kinds), "resumes": resumes, **asdict(verdict)}


def _ends(brokers: str, topic: str) -> tuple[int, int]:
    """Return the number of records and of partitions."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "chaos-look", "log_level": 0})
    try:
        partitions = consumer.list_topics(topic, 20).topics[topic].partitions
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, p), 20)[1] for p in partitions]
        return sum(ends), len(ends)
    finally:
        consumer.close()


def _resumed(run: Run, brokers: str, topic: str, begin: float) -> float:
    """Wait until a live JVM writes results again; return how long that took.

    Fence records, one per partition, do not count.
    """
    deadline = time.monotonic() + 180
    known, moves = None, 0
    while time.monotonic() < deadline:
        if run.process.poll() is not None:
            raise SystemExit(
                "the run ended unexpectedly:\n" + "\n".join(t for _, t in run.output[-10:])
            )
        try:
            now, partitions = _ends(brokers, topic)
        except Exception:  # noqa: BLE001  (the broker may be down)
            time.sleep(0.1)
            continue
        moves = moves + 1 if known is not None and now > known + partitions else 0
        known = now
        if moves >= 2 and "jvm" in run.parts():
            return time.monotonic() - begin
        time.sleep(0.1)
    raise SystemExit("the run did not resume within 180 s")


def _phases(run: Run, begin: float) -> dict[str, float]:
    """Return when the new run started Spark, fenced and ran, in seconds after the fault."""
    words = {"spark": "starting Spark", "fence": "fencing", "running": "running in real-time"}
    phases = {}
    for name, word in words.items():
        times = [at - begin for at, line in list(run.output) if at >= begin and word in line]
        if times:
            phases[name] = round(times[-1], 2)
    return phases


def _settle(brokers: str, topic: str) -> None:
    """Wait until no more results arrive."""
    since, known = time.monotonic(), -1
    while time.monotonic() - since < QUIET_SECONDS:
        now, _ = _ends(brokers, topic)
        if now != known:
            since, known = time.monotonic(), now
        time.sleep(0.5)


def chosen(rounds: int, seed: int) -> list[str]:
    """Return every kind in turn, in an order given by the seed."""
    pick = random.Random(seed)
    turns = [cycle(pick.sample(kind, len(kind))) for kind in Faults.KINDS]
    kinds: list[str] = []
    while len(kinds) < rounds:
        block = [next(turn) for turn in turns]
        pick.shuffle(block)
        kinds += block
    return kinds[:rounds]


def main() -> None:
    """Run the campaigns of all pipelines, print and write the report."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=20, help="number of faults, over all pipelines"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--every", default="10 seconds")
    parser.add_argument("--pause", type=float, default=12, help="maximum seconds before each fault")
    parser.add_argument("--control", choices=CONTROLS, default="none", help=CONTROLS_HELP)
    parser.add_argument("--pipeline", choices=PIPELINES, action="append")
    parser.add_argument("--kinds", help="comma-separated faults to inject instead of all in turn")
    parser.add_argument("--conf", action="append", default=[], help="a Spark setting: KEY=VALUE")
    parser.add_argument("--out", type=Path, help="write the report to this file, as JSON")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    print(f"seed {options.seed}", flush=True)
    pipelines = options.pipeline or PIPELINES
    results = []
    for number, pipeline in enumerate(pipelines):
        rounds = len(range(number, options.rounds, len(pipelines)))
        kinds = options.kinds.split(",") if options.kinds else chosen(rounds, options.seed + number)
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            results.append(
                campaign(
                    pipeline,
                    kinds,
                    seed=options.seed,
                    rate=options.rate,
                    every=options.every,
                    pause=options.pause,
                    control=options.control,
                    folder=Path(folder),
                    conf=options.conf,
                )
            )
        print(summary(results[-1]), flush=True)
    if options.out:
        options.out.write_text(json.dumps({"seed": options.seed, "results": results}, indent=2))
    raise SystemExit(0 if all(as_expected(result, options.control) for result in results) else 1)


def as_expected(result: dict, control: str) -> bool:
    """Return whether the verdict is as it must be: clean, or broken in the way of the control."""
    match control:
        case "off":
            return result["repeated"] > 0
        case "maximum":
            return result["lost"] > 0
        case "late":
            return result["repeated_plain"] > 0 and Verdict(**_figures(result)).clean
        case _:
            return Verdict(**_figures(result)).clean


def _figures(result: dict) -> dict:
    return {name: result[name] for name in Verdict.__dataclass_fields__}


def summary(result: dict) -> str:
    """Summarise the verdict of a campaign in a few lines."""
    return (
        f"{result['pipeline']}: {result['checked']:,} results checked, "
        f"{sum(result['faults'].values())} faults, {result['lost']} lost, "
        f"{result['repeated']} repeated ({result['repeated_plain']} for a plain reader), "
        f"{result['wrong']} wrong, {result['disordered']} keys out of order, "
        f"{result['void']} rejected by fences"
        + _resume_times(result["resumes"])
        + "".join(f"\n  {example}" for example in result["examples"][:6])
    )


def _resume_times(resumes: list[dict]) -> str:
    """Format when each phase of the recovery was reached: median and 95th percentile."""
    text = ""
    for name, words in RESUME.items():
        times = sorted(resume[name] for resume in resumes if name in resume)
        if times:
            p95 = times[math.ceil(len(times) * 0.95) - 1]
            text += f"\n  {words} after {statistics.median(times):.1f} s (p95 {p95:.1f} s)"
    return text


if __name__ == "__main__":
    main()
