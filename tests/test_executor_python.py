"""The Python of a cluster's executors: what is reported of it, and on a cluster of two workers."""

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from confluent_kafka import Producer

from eagre import cluster as clusters
from eagre.errors import ClusterError
from eagre.jvm import gateway
from eagre.jvm.gateway import Interpreter
from eagre.runtime.executor_python import require_python, require_usable
from eagre.waiting import wait_until
from test_run import run  # noqa: F401  (a fixture)

HERE = "{}.{}".format(*sys.version_info)
NEEDED = {"numpy": ["inference", "score"], "pyspark": ["inference", "score"]}
SPARK = SimpleNamespace(
    sparkContext=SimpleNamespace(master="spark://there:7077"),
    conf=SimpleNamespace(get=lambda *_: "/there/python"),
)
APP = """
import eagre as eg
import helper
import psutil
from psutil import Process

@eg.udf("int")
def doubled(n):
    return helper.doubled(n)

@eg.udf("string")
def where(n):
    import sys
    {body}
    return sys.prefix

@eg.pipeline(source=eg.Kafka("{name}-in", schema="n INT", partitions=2),
             sink=eg.Kafka("{name}-out"))
def {name}(df):
    return df.select(doubled("n").alias("n"), where("n").alias("where"))
"""
SETTINGS = ("spark.executor.memory=600m", "spark.executor.cores=2")


def reported(*, others=(), **report):
    executors = [Interpreter("0", "b", **report), *others]
    with pytest.raises(ClusterError) as caught:
        require_usable(executors, "/there/python", NEEDED)
    return caught.value


def test_a_missing_interpreter_comes_before_all_else():
    lacking = Interpreter("1", "a", version="2.7", missing=("numpy",))
    error = reported(problem="error=2, No such file or directory", others=[lacking])
    assert error.code == "EXECUTOR_PYTHON_MISSING"
    assert error.problem == (
        "b cannot start Python as '/there/python': error=2, No such file or directory."
    )
    assert "spark.pyspark.python" in error.hint


def test_another_version_is_reported_with_both():
    error = reported(version="3.4", others=[Interpreter("1", "a", version=HERE)])
    assert error.code == "EXECUTOR_PYTHON_DIFFERS"
    assert "is Python 3.4 on b," in error.problem
    assert f"by Python {HERE}" in error.problem


def test_missing_packages_are_named_once_with_hosts_and_functions():
    others = [Interpreter(str(n), f"h{n}", version=HERE, missing=("numpy",)) for n in range(4)]
    error = reported(version=HERE, missing=("numpy",), others=others)
    assert error.code == "EXECUTOR_PACKAGES_MISSING"
    assert error.problem == (
        "'/there/python' on b, h0, h1 and 2 more cannot import numpy "
        "(needed by inference and score)."
    )


def test_usable_and_unknown_executors_may_start():
    good = Interpreter("0", "a", version=HERE)
    require_usable([good, Interpreter("1", "b", unknown="no answer")], "python3", NEEDED)


def test_a_check_that_fails_or_does_not_know_lets_the_query_start(monkeypatch):
    said = []
    monkeypatch.setattr(gateway, "interpreters", lambda *_: 1 / 0)
    require_python(SPARK, NEEDED, said.append)
    assert said == ["the Python of the executors could not be checked: division by zero"]
    unknown = Interpreter("0", "a", unknown="it did not answer in time")
    monkeypatch.setattr(gateway, "interpreters", lambda *_: [unknown])
    require_python(SPARK, NEEDED, said.append)
    assert said[1:] == ["the Python on a could not be checked: it did not answer in time"]


@pytest.mark.parametrize(("needed", "master"), [({}, "spark://there:7077"), (NEEDED, "local[4]")])
def test_without_functions_or_in_local_mode_nothing_is_checked(monkeypatch, needed, master):
    monkeypatch.setattr(gateway, "interpreters", lambda *_: pytest.fail("it was checked"))
    here = SimpleNamespace(sparkContext=SimpleNamespace(master=master), conf=SPARK.conf)
    require_python(here, needed, pytest.fail)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A master with two workers of two cores each."""
    running = clusters.start(tmp_path_factory.mktemp("cluster"), workers=2, cores=2, memory="1g")
    yield running
    clusters.stop(running)


@pytest.fixture
def start(cli, run, cluster, eagre_broker):  # noqa: F811
    """Start a pipeline with Python functions on the cluster."""

    def started(name, *settings, body="assert Process", options=()):
        cli.app("def doubled(n):\n    return n * 2\n", "helper.py")
        app = cli.app(APP.format(name=name, body=body), f"{name}.py")
        confs = [word for setting in (*SETTINGS, *settings) for word in ("--conf", setting)]
        where = ("--master", cluster.url, "--brokers", eagre_broker.address)
        return run(app, *where, *confs, "--from", "earliest", *options)

    return started


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A virtual environment without packages."""
    folder = tmp_path_factory.mktemp("bare")
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True)
    return folder


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def other_python(folder):
    """Return a Python of another version: one of this machine, or one that says that it is."""
    names = [f"3.{minor}" for minor in range(8, 16) if f"3.{minor}" != HERE]
    installed = [p for v in names for p in Path.home().glob(f".pyenv/versions/{v}.*/bin/python")]
    for path in [*installed, *filter(None, (shutil.which(f"python{v}") for v in names))]:
        done = subprocess.run([path, "-V"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return path, done.stdout.split()[1].rpartition(".")[0]
    lies = "import runpy, sys\nsys.version_info = (3, 4, 0)\nsys.argv = sys.argv[1:]\n"
    text = f"#!{sys.executable}\n{lies}runpy.run_module(sys.argv[1], run_name='__main__')\n"
    return script(folder / "other-python", text), "3.4"


def ends_with(running, code):
    """Wait until a run has ended with an error; return its sentence."""
    running.wait_for(f"{code}: ")
    assert running.process.wait(60) == 1
    assert not running.has("Traceback")
    assert not running.has("Starting again")
    return next(line for line in running.output if f"{code}: " in line)


@pytest.mark.e2e
@pytest.mark.parametrize("broken", [False, True])
def test_an_interpreter_that_does_not_start_is_reported(start, tmp_path, broken):
    python = tmp_path / "no-python"
    reason = "No such file or directory"
    if broken:
        script(python, "#!/bin/sh\necho 'libpython is broken' >&2\nexit 127\n")
        reason = "it exits with code 127: libpython is broken"
    running = start("ep_missing", f"spark.pyspark.python={python}")
    sentence = ends_with(running, "EXECUTOR_PYTHON_MISSING")
    assert f"127.0.0.1 cannot start Python as '{python}'" in sentence
    assert reason in sentence


@pytest.mark.e2e
def test_another_version_of_python_is_reported(start, tmp_path):
    python, version = other_python(tmp_path)
    sentence = ends_with(
        start("ep_differs", f"spark.pyspark.python={python}"), "EXECUTOR_PYTHON_DIFFERS"
    )
    assert f"is Python {version} on 127.0.0.1" in sentence
    assert f"pickled by Python {HERE}" in sentence


@pytest.mark.e2e
def test_missing_packages_are_reported(start, bare):
    body = "assert Process; import joblib.hashing"
    running = start("ep_lacks", f"spark.pyspark.python={bare}/bin/python", body=body)
    sentence = ends_with(running, "EXECUTOR_PACKAGES_MISSING")
    assert "cannot import joblib (needed by where), psutil (needed by where)." in sentence


def await_results(running, harness, name, where):
    producer = Producer({"bootstrap.servers": harness.brokers})
    running.wait_for("running in real-time", timeout=120)
    for n in range(10):
        producer.produce(f"{name}-in", json.dumps({"n": n}), partition=n % 2)
    producer.flush()

    def results():
        rows = [json.loads(record.value()) for record in harness.records(f"{name}-out", {0: 0})]
        return sorted((row["n"], row["where"]) for row in rows)

    wait_until(lambda: len(results()) == 10, 90, "no results:\n" + "\n".join(running.output))
    assert [n for n, _ in results()] == [n * 2 for n in range(10)]
    assert {Path(where).name for _, where in results()} == {where}


@pytest.mark.e2e
def test_a_good_python_starts_without_a_word(start, eagre_harness):
    running = start("ep_good", f"spark.pyspark.python={sys.executable}")
    await_results(running, eagre_harness, "ep_good", Path(sys.prefix).name)
    assert running.end() == 0
    assert not running.has("could not be checked")


@pytest.mark.e2e
def test_a_check_can_be_passed_over(start, bare, eagre_harness):
    python = f"spark.pyspark.python={bare}/bin/python"
    running = start("ep_anyway", python, body="pass", options=["--no-check"])
    await_results(running, eagre_harness, "ep_anyway", bare.name)
    assert running.end() == 0


@pytest.mark.e2e
def test_a_packed_environment_is_sent_along(start, cli, bare, eagre_harness):
    """As ``venv-pack`` makes it; paths are relative to the folder of each executor."""
    package = Path(psutil.__file__).parent
    inside = f"lib/python{HERE}/site-packages"
    with tarfile.open(cli.folder / "env.tar.gz", "w:gz") as packed:
        packed.add(bare, ".")
        packed.add(package, f"{inside}/psutil")
    settings = ("spark.archives=env.tar.gz#env", "spark.pyspark.python=./env/bin/python")
    running = start("ep_packed", *settings)
    await_results(running, eagre_harness, "ep_packed", "env")
    assert running.end() == 0
