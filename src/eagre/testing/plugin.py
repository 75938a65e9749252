"""The pytest plugin: ``eagre_broker``, ``eagre_spark``, ``run_pipeline``, ``run_in_both_modes``.

It imports nothing heavy until a test uses one of them.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from eagre.broker import EmbeddedBroker
    from eagre.connectors import Mode
    from eagre.jvm.jars import JarSet
    from eagre.testing.harness import Harness, RunPipeline

SLOTS = 8
SHORTEST_EPOCH = "100ms"
QUICK_TO_START = "-XX:TieredStopAtLevel=1"
"""Only the JVM's first compiler: a test ends before code of the second has paid for itself."""


@pytest.fixture(scope="session")
def _say(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Show progress although pytest captures output."""
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            sys.stderr.write(f"\neagre: {text}")
            sys.stderr.flush()

    return say


@pytest.fixture(scope="session")
def _fetch(_say: Callable[[str], None]) -> Callable[[JarSet], None]:
    """Fetch a set of jars the first time."""

    def fetch(jar_set: JarSet) -> None:
        from eagre.jvm.jars import class_path

        class_path(jar_set, _say)

    return fetch


@pytest.fixture(scope="session")
def eagre_broker(
    _fetch: Callable[[JarSet], None], _say: Callable[[str], None]
) -> Iterator[EmbeddedBroker]:
    """An embedded broker for the whole test session."""
    from eagre.broker import EmbeddedBroker

    _fetch("broker")
    with EmbeddedBroker(say=_say) as broker:
        yield broker


@pytest.fixture(scope="session")
def eagre_spark(_fetch: Callable[[JarSet], None]) -> Iterator[SparkSession]:
    """A Spark session with the latency profile, and epochs short enough for tests."""
    from eagre.session import session

    _fetch("spark")
    spark = session(
        "eagre-tests",
        f"local[{SLOTS}]",
        spark__sql__streaming__realTimeMode__minBatchDuration=SHORTEST_EPOCH,
        spark__driver__extraJavaOptions=QUICK_TO_START,
    )
    yield spark
    spark.sparkContext.setLogLevel("ERROR")  # its producers outlive it, and would miss the broker
    spark.stop()


@pytest.fixture
def eagre_harness(
    eagre_broker: EmbeddedBroker,
    eagre_spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Harness:
    """A broker and a session that run pipelines."""
    from eagre.testing.harness import Harness

    return Harness(eagre_spark, eagre_broker.address, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture
def run_pipeline(eagre_harness: Harness) -> RunPipeline:
    """``run_pipeline(pipeline, rows, mode="real-time") -> rows``."""
    return eagre_harness.run


@pytest.fixture(params=["micro-batch", "real-time"])
def run_in_both_modes(request: pytest.FixtureRequest, eagre_harness: Harness) -> RunPipeline:
    """``run_pipeline`` in both modes: the test runs twice."""
    mode: Mode = request.param
    return partial(eagre_harness.run, mode=mode)
