"""``eagre deploy``: what it prints is valid, escaped, and right for a run that drains."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from eagre import __version__
from eagre.cli.deploy.documents import Document, documents
from eagre.cli.deploy.image import ENTRYPOINT
from eagre.cli.deploy.service import RunOptions
from eagre.cli.deploy.systemd import argument, quoted
from eagre.cli.exit_codes import ExitCode
from eagre.cli.pipelines.run import run as run_command
from eagre.dashboard.metrics import FAMILIES

APP = """
import eagre as eg

print("the app prints this")


@eg.pipeline(source=eg.Kafka("in", schema="n INT"), sink=eg.Kafka("out"))
def numbers(df):
    return df
"""
BROKERS = ("--brokers", "kafka:9092")
VERSIONS = ("1.29", "1.31", "1.33")
"""Of Kubernetes; docs/how-to/deploy.md names them."""
KINDS = ["PersistentVolumeClaim", "Service", "Deployment"]
ACCOUNT = ["ServiceAccount", "Role", "RoleBinding"]
ODD = ("--every", "90 seconds", "--conf", 'spark.x=100% $(HOME) $HOME "q" \\ end', "--resume")
HOSTILE = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), max_size=60)
"""Any text without control characters, short enough for a key of YAML."""


@pytest.fixture
def app(tmp_path):
    path = tmp_path / "deployed numbers.py"
    path.write_text(APP)
    return path


@pytest.fixture
def deploy(call, app):
    """Call ``eagre deploy`` for the app; return what it printed."""

    def printed(target, *options):
        done = call("deploy", target, app, *BROKERS, *options)
        assert done.code == ExitCode.OK, done.err
        assert "the app prints this" in done.err, "the output of the app is no result"
        return done.out

    return printed


@pytest.fixture
def objects(deploy):
    """Return the Kubernetes objects for options, by their kind, all of them valid."""

    def validated(*options):
        parsed = list(yaml.safe_load_all(deploy("kubernetes", *options)))
        for document in parsed:
            for version in VERSIONS:
                kubernetes_validate.validate(document, version, strict=True)
        return {document["kind"]: document for document in parsed}

    return validated


def container(objects):
    [one] = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return one


def settings(args):
    """Return the ``--conf`` of arguments, which ``eagre run`` parses."""
    assert args[0] == "run"
    return run_command.make_context("run", list(args[1:])).params["conf"]


def directives(unit):
    """Return the directives of a unit file, with continuation lines joined."""
    lines = re.sub(r"\\\n\s*", "", unit).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")


def split_by_systemd(line):
    """Split a command line by systemd's rules, for words in double quotes."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)
    hexadecimal = re.compile(r"\\x([0-9a-f]{2})")
    quoted_words = [
        hexadecimal.sub(lambda c: chr(int(c[1], 16)), word).replace('\\"', '"') if word else plain
        for word, plain in words
    ]
    return [
        word.replace("\\\\", "\\").replace("%%", "%").replace("$$", "$") for word in quoted_words
    ]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ODD,
        ("--directory", "/srv/my numbers%", "--env-file", "/srv/my env", "--memory", "8g"),
        ("--checkpoint", "/home/eagre/checkpoint", "--user", "score", "--mode", "micro-batch"),
        ("--dashboard-host", "10.0.0.7", "--dashboard-port", "9999", "--name", "other"),
    ],
    ids=["defaults", "odd", "paths", "home", "dashboard"],
)
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_unit(deploy, tmp_path, options):
    path = tmp_path / "verified.service"
    path.write_text(deploy("systemd", *options))
    done = verify(path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    path.write_text(path.read_text() + "[Service]\nMemoryMax=plenty\n")
    assert "plenty" in verify(path).stderr, "a wrong unit is detected"


def verify(path, level="info"):
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", path],  # noqa: S607
        env={**os.environ, "SYSTEMD_LOG_LEVEL": level},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_reads_the_command_that_was_meant(deploy, app, tmp_path):
    """By its own parser, which shows the command before it replaces `$$`."""
    path = tmp_path / "read.service"
    path.write_text(deploy("systemd", *ODD))
    [line] = re.findall(r"Command Line: (.*)", verify(path, "debug").stdout)
    words = shlex.split(line.replace(r"\$\$", "$"))
    assert words[1:3] == ["run", str(app)]
    assert {"--every=90 seconds", f"--conf={ODD[3]}"} <= set(words)


def test_a_unit_drains_restarts_and_bounds_its_memory(deploy, app):
    unit = directives(deploy("systemd", "--conf", "spark.driver.memory=4g"))
    words = split_by_systemd(unit["ExecStart"])
    assert words[:3] == [str(Path(sys.executable).parent / "eagre"), "run", str(app)]
    assert unit["KillMode"] == "mixed"
    assert (unit["TimeoutStopSec"], unit["SuccessExitStatus"]) == ("150", "143")
    assert (unit["Restart"], unit["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert (unit["UMask"], unit["NoNewPrivileges"], unit["User"]) == ("0077", "yes", "eagre")
    assert unit["MemoryMax"] == "6758M"
    assert unit["EnvironmentFile"] == "-/etc/eagre/deployed-numbers.env"
    assert unit["WorkingDirectory"] == "/var/lib/deployed-numbers"
    assert unit["StateDirectory"] == "deployed-numbers"
    assert "MemoryDenyWriteExecute" not in unit, "the JVM compiles"


def test_a_stop_may_take_as_long_as_an_epoch(deploy):
    assert directives(deploy("systemd", "--every", "10 minutes"))["TimeoutStopSec"] == "690"
    assert RunOptions(every="10 minutes", mode="micro-batch").stop_seconds == 150


def test_homes_are_hidden_unless_the_service_needs_them(deploy):
    unit = directives(deploy("systemd", "--checkpoint", "/home/ada/checkpoint"))
    assert (unit["ProtectHome"], unit["ReadWritePaths"]) == ("read-only", "/home/ada/checkpoint")
    assert "ReadWritePaths" not in deploy("systemd")


def test_arguments_reach_eagre_run_unchanged(deploy, objects, app):
    given_conf = 'spark.x=100% $(HOME) $HOME "q" \\ end'
    words = split_by_systemd(directives(deploy("systemd", *ODD))["ExecStart"])
    assert words[2] == str(app)
    assert settings(words[1:])["spark.x"] == given_conf.partition("=")[2]
    args = container(objects(*ODD))["args"]
    assert f"--conf={given_conf.replace('$(', '$$(')}" in args, "Kubernetes replaces $(NAME)"
    assert {"--every=90 seconds", "--resume"} <= set(args) & set(words)


@given(HOSTILE.filter(bool))
def test_systemd_reads_any_argument_unchanged(text):
    assert split_by_systemd(argument(text)) == [text]
    assert "\n" not in quoted("two\nlines")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | HOSTILE,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
        max_leaves=8,
    )
)
def test_yaml_reads_any_value_unchanged(value):
    [parsed] = yaml.safe_load_all(documents("head", [Document({"value": value}, "comment")]))
    assert parsed == {"value": value}


def test_one_pod_drains_before_the_next_one_starts(objects):
    found = objects()
    assert list(found) == KINDS, "no account: a run in one pod asks nothing of Kubernetes"
    spec = found["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert pod["terminationGracePeriodSeconds"] == 150
    assert pod["automountServiceAccountToken"] is False
    assert found["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert found["Service"]["spec"]["selector"] == spec["selector"]["matchLabels"]


def test_a_pod_is_probed_bounded_and_unprivileged(objects):
    found = objects("--memory", "3g", "--cpus", "4", "--dashboard-port", "9000")
    one = container(found)
    assert one["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "dashboard"}
    assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "dashboard"}
    assert one["ports"] == [{"name": "dashboard", "containerPort": 9000}]
    assert {"--dashboard-port=9000", "--dashboard-host=$(POD_IP)"} <= set(one["args"])
    assert one["resources"] == {
        "requests": {"cpu": "4", "memory": "3072Mi"},
        "limits": {"memory": "3072Mi"},
    }
    assert settings(one["args"]) == {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "4",
        "spark.driver.extraJavaOptions": "-XX:ActiveProcessorCount=4",
    }
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert one["securityContext"]["allowPrivilegeEscalation"] is False
    state = {variable["name"]: variable.get("value") for variable in one["env"]}
    assert (state["HOME"], state["EAGRE_STATE"]) == ("/data", "/data/state")


def test_secrets_are_files_and_references(objects):
    found = objects("--secret", "numbers-kafka")
    one = container(found)
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert {"name": "secret", "mountPath": "/etc/eagre/secret", "readOnly": True} in one[
        "volumeMounts"
    ]
    assert [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v] == ["numbers-kafka"]
    variables = {variable["name"]: variable for variable in one["env"]}
    assert variables["EAGRE_KAFKA_CONFIG"]["value"] == "/etc/eagre/secret/client.properties"
    token = variables["EAGRE_DASHBOARD_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert token == {"name": "numbers-kafka", "key": "dashboard-token", "optional": True}
    assert "Secret" not in found, "a manifest holds no values"
    assert "EAGRE_DASHBOARD_TOKEN" not in json.dumps(objects())


def test_a_checkpoint_may_be_in_s3(deploy, objects):
    at = ("--checkpoint", "s3a://bucket/score")
    assert "--checkpoint=s3a://bucket/score" in container(objects(*at))["args"]
    assert "RUN eagre jars fetch && eagre jars fetch s3\n" in deploy(
        "kubernetes", "--containerfile", *at
    )
    naming = [line for line in deploy("systemd", *at).splitlines() if "s3a:" in line]
    assert len(naming) == 1, "only the command names it: it is no path"
    assert "--checkpoint=s3a://bucket/score" in naming[0]


def test_a_namespace_is_optional(objects):
    assert "namespace" not in objects()["Deployment"]["metadata"]
    found = objects("--namespace", "streams", "--create-namespace", "--executors", "1")
    assert list(found) == ["Namespace", *ACCOUNT, *KINDS]
    assert {f["metadata"].get("namespace") for f in found.values()} == {None, "streams"}
    assert found["RoleBinding"]["subjects"][0]["namespace"] == "streams"


def test_executors_find_the_driver_and_the_volume(objects):
    found = objects(
        "--executors", "3", "--executor-cores", "8", "--secret", "s", "--image", "r/n:2"
    )
    assert list(found) == [*ACCOUNT, *KINDS]
    conf = settings(container(found)["args"])
    ports = {port["name"]: port["port"] for port in found["Service"]["spec"]["ports"]}
    assert conf["spark.driver.host"] == "deployed-numbers.$(POD_NAMESPACE).svc"
    assert found["Service"]["metadata"]["name"] == "deployed-numbers"
    assert found["Service"]["spec"]["clusterIP"] == "None"
    assert found["Service"]["spec"]["publishNotReadyAddresses"] is True, "it waits for executors"
    assert conf["spark.driver.port"] == str(ports["driver-rpc"])
    assert conf["spark.driver.blockManager.port"] == str(ports["blockmanager"])
    assert (conf["spark.executor.instances"], conf["spark.executor.cores"]) == ("3", "8")
    assert (conf["spark.executor.memory"], conf["spark.executor.memoryOverhead"]) == ("2g", "1843m")
    assert conf["spark.kubernetes.container.image"] == "r/n:2"
    assert conf["spark.kubernetes.executor.secrets.s"] == "/etc/eagre/secret"
    volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data"
    assert conf[f"{volume}.options.claimName"] == "deployed-numbers"
    assert conf[f"{volume}.mount.path"] == "/data"
    assert found["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    assert pod["automountServiceAccountToken"] is True
    assert "--master=k8s://https://kubernetes.default.svc" in container(found)["args"]


def test_a_setting_of_the_user_is_kept(objects):
    given_conf = ("--conf", "spark.driver.port=9", "--conf", "spark.executor.memory=5g")
    args = container(objects("--executors", "1", *given_conf))["args"]
    assert settings(args)["spark.driver.port"] == "9"
    assert settings(args)["spark.executor.memory"] == "5g"
    assert sum("spark.driver.port" in word for word in args) == 1


def test_untested_executors_are_named_so_where_they_are_printed(deploy, call, app):
    text = deploy("kubernetes", "--executors", "2")
    assert "# EXECUTORS ON KUBERNETES HAVE NOT BEEN RUN BY EAGRE'S TESTS." in text
    assert "NOT BEEN RUN" not in deploy("kubernetes")
    done = call("deploy", "kubernetes", app, *BROKERS, "--executors", "2")
    assert "have not been run by Eagre's tests" in done.err
    assert "not been run" in deploy("kubernetes", "--executors", "2", "--containerfile")


def test_a_wrong_manifest_is_detected(objects):
    found = objects()["Deployment"]
    found["spec"]["template"]["spec"]["container"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="container"):
        kubernetes_validate.validate(found, VERSIONS[0], strict=True)


def test_the_containerfile_holds_the_app_and_what_it_needs(deploy, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "n"\ndependencies = ["eagre>=0.2,<0.3", "numpy>=2", "eagre-extra"]\n'
    )
    text = deploy("kubernetes", "--containerfile", "--include", "models")
    lines = text.splitlines()
    assert "FROM python:3.11-slim-bookworm" in lines
    assert f"COPY eagre-{__version__}-py3-none-any.whl /tmp/" in lines
    assert "RUN pip install --no-cache-dir 'numpy>=2' eagre-extra" in lines
    assert 'COPY ["models", "/app/models"]' in lines
    assert 'ENTRYPOINT ["eagre"]' in lines
    assert "USER 10001:10001" in lines
    (tmp_path / "requirements.txt").write_text("numpy\n")
    text = deploy("kubernetes", "--containerfile", "--executors", "1")
    assert "RUN pip install --no-cache-dir -r /tmp/requirements.txt" in text
    assert 'ENTRYPOINT ["/opt/eagre/entrypoint.sh"]' in text
    assert ENTRYPOINT in text


def test_the_entry_point_starts_executors_as_spark_asks(tmp_path):
    """With the variables that Spark sets; `java` and `eagre` only print their arguments."""
    script = tmp_path / "entrypoint.sh"
    script.write_text(ENTRYPOINT)
    for name in ("java", "eagre"):
        (tmp_path / name).write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    spark = {
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_1": "-Xmn1m",
        "SPARK_EXECUTOR_MEMORY": "2g",
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "4",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "pod",
        "SPARK_CONF_DIR": "/opt/spark/conf",
    }

    def started(*args):
        done = subprocess.run(
            ["/bin/bash", script, *args],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", **spark},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    assert started("run", "/app/a b.py") == ["eagre", "run", "/app/a b.py"]
    words = started("executor")
    assert words[:5] == ["java", "-Da=b c", "-Xmn1m", "-Xms2g", "-Xmx2g"]
    class_path = words[words.index("-cp") + 1]
    assert class_path.startswith("/opt/spark/conf:")
    assert Path(class_path.rpartition(":")[2]).parent.is_dir(), "the jars of PySpark"
    assert words[-14:] == shlex.split(
        "--driver-url spark://driver --executor-id 1 --cores 4 --app-id app --hostname 10.0.0.1 "
        "--resourceProfileId 0 --podName pod"
    )


def test_files_are_written_and_not_replaced_by_accident(call, app, tmp_path):
    out = tmp_path / "out"
    written = ("deploy", "kubernetes", app, *BROKERS, "--output", out)
    assert call(*written).out == ""
    assert sorted(path.name for path in out.iterdir()) == ["Containerfile", "kubernetes.yaml"]
    assert call(*written).code == ExitCode.OK, "the same files again"
    changed = call(*written, "--cpus", "3")
    assert (changed.code, "FILE_EXISTS" in changed.err) == (ExitCode.FAILED, True)
    assert call(*written, "--cpus", "3", "--force").code == ExitCode.OK
    assert call("deploy", "systemd", app, *BROKERS, "--output", out).out == ""
    assert (out / "deployed-numbers.service").exists()


@pytest.mark.parametrize(
    ("target", "options", "code"),
    [
        ("systemd", (), "BROKERS_MISSING"),
        ("systemd", (*BROKERS, "--name", "Not a name"), "SERVICE_NAME_INVALID"),
        ("systemd", (*BROKERS, "--memory", "1g"), "MEMORY_BELOW_HEAP"),
        ("systemd", (*BROKERS, "--every", "often"), "INTERVAL_MALFORMED"),
        ("systemd", (*BROKERS, "--directory", "/srv/a\nb"), "PATH_UNPRINTABLE"),
        ("kubernetes", (), "BROKERS_MISSING"),
        ("kubernetes", (*BROKERS, "--mode", "available-now"), "MODE_ENDS"),
        ("kubernetes", (*BROKERS, "--master", "spark://m:7077"), "MASTER_NOT_LOCAL"),
        ("kubernetes", (*BROKERS, "--checkpoint", "/data/../tmp"), "CHECKPOINT_NOT_ON_VOLUME"),
        ("kubernetes", (*BROKERS, "--checkpoint", "hdfs://host/score"), "CHECKPOINT_REMOTE"),
        ("kubernetes", (*BROKERS, "--include", "../secret"), "INCLUDE_NOT_FOUND"),
        (
            "kubernetes",
            (*BROKERS, "--executors", "1", "--executor-memory", "x"),
            "MEMORY_MALFORMED",
        ),
    ],
)
def test_what_cannot_run_as_a_service_is_refused(call, app, target, options, code):
    done = call("deploy", target, app, *options)
    assert (done.code, done.out) == (ExitCode.FAILED, "")
    assert done.err.splitlines()[-1].startswith(f"eagre: {code}: "), done.err


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("systemd", ("--user", "a b")),
        ("kubernetes", ("--image", "a b")),
        ("kubernetes", ("--namespace", "Streams")),
        ("kubernetes", ("--storage", "10 GB")),
        ("kubernetes", ("--create-namespace",)),
        ("kubernetes", ("--output", "out", "--containerfile")),
        ("kubernetes", ("--executors", "1", "--master", "local[2]")),
    ],
)
def test_wrong_options_are_refused(call, app, target, options):
    assert call("deploy", target, app, *BROKERS, *options).code == ExitCode.USAGE


def test_a_broken_app_is_refused(call, app, tmp_path):
    for name, text, code in (
        ("absent.py", None, "APP_NOT_FOUND"),
        ("wrong_syntax.py", "def", "APP_SYNTAX"),
        ("without.py", "x = 1", "APP_WITHOUT_PIPELINE"),
        (f"{app.name}:other", None, "PIPELINE_NOT_FOUND"),
    ):
        if text:
            (tmp_path / name).write_text(text)
        for target in ("systemd", "kubernetes"):
            done = call("deploy", target, tmp_path / name, *BROKERS)
            assert (done.code, done.out) == (ExitCode.FAILED, "")
            assert code in done.err


def test_an_app_that_needs_a_session_is_deployed_with_a_note(cli):
    """In a process of its own: this one may have a session."""
    path = cli.app("import eagre as eg\nspark = eg.session()\n" + APP, "needs_session.py")
    done = cli.ok("deploy", "systemd", f"{path}:numbers")
    assert "`eagre check` does that" in done.stderr
    assert f"run {path}:numbers" in done.stdout


def test_no_jvm_starts(call, app, monkeypatch):
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", lambda *_, **__: 1 / 0)
    monkeypatch.setenv("JAVA_HOME", "/absent")
    for target in ("systemd", "kubernetes"):
        assert call("deploy", target, app, *BROKERS).code == ExitCode.OK


def test_the_metrics_of_the_alerts_exist():
    page = Path(__file__).parents[1] / "docs" / "how-to" / "deploy.md"
    named = set(re.findall(r"\beagre_[a-z_]+", page.read_text()))
    assert len(named) > 5
    assert named <= set(FAMILIES)
