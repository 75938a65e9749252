"""TLS and authentication: certificates and logins, from a file or the environment."""

import json
import re
import secrets
from dataclasses import dataclass
from types import SimpleNamespace

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql.types import StructType

import eagre as eg
from certificates import Authority
from conftest import processes_of
from eagre.broker import ClientSettings, EmbeddedBroker, Topics
from eagre.broker.replication import replicated_ends
from eagre.broker.server import free_port
from eagre.errors import BrokerError, EagreError, SettingsError
from eagre.runtime.resolved_run import _ensure_topics
from eagre.testing import Harness
from eagre.waiting import wait_until
from test_run import Run

APP = """
import eagre as eg

@eg.udf("int", on_error="{on_error}")
def share(amount):
    return 100 // amount

@eg.pipeline(source=eg.Kafka("{name}-in", schema="card STRING, amount INT"{more}),
             sink=eg.Kafka("{name}-out", key="card"{more}))
def {name}(df):
    for level in ("WARN", "INFO"):  # only a change of it opens the log
        df.sparkSession.sparkContext.setLogLevel(level)
    rows = df.withColumn("share", share("amount"))
    rows.explain("extended")
    return rows
"""
ROWS = [{"card": "a", "amount": 4}, {"card": "b", "amount": 0}, {"card": "c", "amount": 5}]


def app(name, on_error="dead-letter", more=""):
    return APP.format(name=name, on_error=on_error, more=more)


@dataclass
class Secured:
    """A cluster that requires certificates at one address and a login at another."""

    broker: EmbeddedBroker
    mtls: str
    sasl: str
    authority: Authority
    password: str
    """The password of the user 'alice' and of the client's key."""

    def trust(self, authority=None):
        path = (authority or self.authority).file
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)}

    def certificate(self):
        return {
            "security.protocol": "SSL",
            **self.trust(),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.authority.sign("client", self.password)),
            "ssl.key.password": self.password,
        }

    def login(self, password=None, mechanism="PLAIN"):
        return {
            "security.protocol": "SASL_SSL",
            **self.trust(),
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password or self.password,
        }


def listener(name, settings):
    return {f"listener.name.{name}.{key}": value for key, value in settings.items()}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    authority, password = Authority(folder, "authority"), f"canary{secrets.token_hex(8)}"
    mtls, sasl = free_port(), free_port()
    login = "org.apache.kafka.common.security"
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.sign("broker")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
    }
    settings = {
        "listeners": f"MTLS://127.0.0.1:{mtls},LOGIN://127.0.0.1:{sasl}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "MTLS:SSL,LOGIN:SASL_SSL",
        **listener("mtls", {**tls, "ssl.client.auth": "required"}),
        **listener("login", {**tls, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}),
        "listener.name.login.plain.sasl.jaas.config": f"{login}.plain.PlainLoginModule required "
        f'user_alice="{password}";',
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{login}.scram.ScramLoginModule "
        "required;",
    }
    with EmbeddedBroker(settings=settings) as broker:
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        alice = UserScramCredentialUpsertion("alice", scram, password.encode())
        [made] = Topics(broker.address).admin.alter_user_scram_credentials([alice]).values()
        made.result(30)
        yield Secured(broker, f"127.0.0.1:{mtls}", f"127.0.0.1:{sasl}", authority, password)


def written(folder, settings, name="client.properties"):
    path = folder / name
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    path.chmod(0o600)
    return path


def leaks(password, *folders):
    """Return the files that contain a password, except those that must."""
    expected = {"client.properties", "server.properties"}
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    return [
        path
        for path in files
        if path.name not in expected and password.encode() in path.read_bytes()
    ]


def on_command_lines(password):
    lines = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    assert any("org.apache.spark.deploy.SparkSubmit" in line for line in lines)
    return [line for line in lines if password in line]


def produce(client, topic, rows):
    producer = Producer({**client.librdkafka(), "partitioner": "murmur2_random"})
    for row in rows:
        producer.produce(topic, json.dumps(row))
    assert producer.flush(30) == 0


def count(client, topic):
    topics = Topics(client)
    return sum(topics.ends([topic])[topic].values()) if topic in topics.names() else 0


@pytest.mark.e2e
def test_certificates_from_a_file_leak_no_secret(cli, secured):
    """A run over TLS with a client certificate; the password of its key is a canary."""
    config = written(cli.folder, secured.certificate())
    cli.env |= {
        "EAGRE_KAFKA_CONFIG": str(config),
        "EAGRE_BROKERS": secured.mtls,
        "SPARK_LOCAL_DIRS": str(cli.folder / "scratch"),
    }
    client = ClientSettings(secured.mtls, secured.certificate())
    run = Run(cli, cli.app(app("mutual"), "mutual.py"), "--every", "5 seconds")
    try:
        run.wait_for("running in real-time")
        produce(client, "mutual-in", ROWS)
        wait_until(lambda: count(client, "mutual-out") == 2, 30, "no results were written")
        wait_until(lambda: count(client, "mutual-in.dlq") == 1, 30, "no dead letter")
        assert on_command_lines(secured.password) == []
        assert leaks(secured.password, cli.folder, secured.broker.data) == []
        assert run.end() == 0, run.output
    finally:
        run.process.kill()
        run.process.communicate()
    printed = [*run.output]
    for command in (
        ("topic", "list"),
        ("topic", "lag", "mutual"),
        ("topic", "tail", "mutual-out", "--from", "earliest", "-n", "2", "--keys"),
        ("checkpoint", "show", "mutual", "--json", "-"),
        ("doctor",),
    ):
        done = cli.ok(*command)
        printed += [done.stdout, done.stderr]
    text = "\n".join(printed)
    assert f"SSL, from EAGRE_KAFKA_CONFIG={config}" in text
    assert "a\t" in text
    assert secured.password not in text
    log = (cli.folder / ".eagre" / "logs" / "mutual.log").read_text()
    assert "ssl.key.password = [hidden]" in log, (
        "Kafka's clients logged nothing, so the test proves nothing"
    )
    assert "== Optimized Logical Plan ==" in log
    files = leaks("mutual-in", cli.folder, secured.broker.data)
    assert any(path.is_relative_to(cli.folder) for path in files), (
        "the search misses a text that exists"
    )
    assert leaks(secured.password, cli.folder, secured.broker.data) == []
    assert processes_of(cli.folder) == []


@pytest.mark.e2e
def test_a_login_from_the_environment_leaks_no_secret_when_a_query_fails(cli, secured):
    cli.env |= {
        "EAGRE_BROKERS": secured.sasl,
        "EAGRE_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "EAGRE_KAFKA_SSL_CA_LOCATION": str(secured.authority.file),
        "EAGRE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "EAGRE_KAFKA_SASL_USERNAME": "alice",
        "EAGRE_KAFKA_SASL_PASSWORD": secured.password,
        "SPARK_LOCAL_DIRS": str(cli.folder / "scratch"),
    }
    given = "".join(f"{json.dumps(row)}\n" for row in ROWS)
    cli.ok("topic", "create", "login-in")
    assert "wrote 3 records" in cli.ok("topic", "produce", "login-in", given=given).stderr
    failing = cli.app(app("login", on_error="fail"), "login.py")
    bad = cli("run", failing, "--mode", "available-now", "--debug")
    assert bad.returncode == 1
    assert "QUERY_FAILED" in bad.stderr
    assert "ZeroDivisionError" in bad.stderr
    log = (cli.folder / ".eagre" / "logs" / "login.log").read_text()
    assert "sasl.jaas.config = [hidden]" in log, (
        "Kafka's clients logged nothing, so the test proves nothing"
    )
    assert "StreamingQueryException" in log
    assert secured.password not in bad.stdout + bad.stderr
    assert leaks(secured.password, cli.folder, secured.broker.data) == []
    wrong = cli("run", failing, EAGRE_KAFKA_SASL_PASSWORD=f"not-{secured.password}")
    [line] = [line for line in wrong.stderr.splitlines() if "LOGIN_REFUSED" in line]
    assert line.startswith("eagre: LOGIN_REFUSED: ")
    assert "Traceback" not in wrong.stderr
    assert secured.password not in wrong.stderr


def test_rows_over_a_login(eagre_spark, secured, tmp_path, monkeypatch):
    """The test kit uses the environment as well."""
    monkeypatch.setenv("EAGRE_KAFKA_CONFIG", str(written(tmp_path, secured.login())))

    @eg.pipeline(source=eg.Kafka("kit-in", schema="card STRING, amount INT"), sink=eg.Kafka("kit"))
    def kit(df):
        return df.where("amount > 0").select("card")

    harness = Harness(eagre_spark, secured.sasl, tmp_path / "checkpoints")
    assert harness.run(kit, ROWS) == [{"card": "a"}, {"card": "c"}]


def refusal(secured, address, settings, timeout=10):
    with pytest.raises(EagreError) as refused:
        Topics(ClientSettings(address, settings, ("client.properties",)), timeout).names()
    assert secured.password not in str(refused.value)
    return refused.value


def test_a_refused_connection_names_the_next_step(secured, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        wrong = refusal(secured, secured.sasl, secured.login("guessed", mechanism))
        assert wrong.code == "LOGIN_REFUSED"
        assert f"by {mechanism} as 'alice'" in wrong.problem
        assert "sasl.password (client.properties)" in wrong.hint
    unknown = refusal(secured, secured.sasl, {**secured.login(), **secured.trust(stranger)})
    assert unknown.code == "BROKER_NOT_TRUSTED"
    assert "ssl.truststore.location" in unknown.hint
    nameless = {"security.protocol": "SSL", **secured.trust()}
    assert refusal(secured, secured.mtls, nameless).code == "TLS_REFUSED"
    other = {**secured.certificate(), "ssl.keystore.location": str(stranger.sign("client"))}
    assert refusal(secured, secured.mtls, other).code == "TLS_REFUSED"
    assert refusal(secured, secured.mtls, {}, 2).code == "SECURITY_PROTOCOL_WRONG"
    assert "may ask for a login" in refusal(secured, secured.sasl, nameless, 2).problem
    plain = secured.broker.address
    assert refusal(secured, plain, secured.login(), 2).code == "SECURITY_PROTOCOL_WRONG"
    locked = {**secured.certificate(), "ssl.key.password": "guessed"}
    assert refusal(secured, secured.mtls, locked).code == "CLIENT_SETTINGS_UNUSABLE"


def test_declared_options_also_apply_to_the_admin_client(secured, tmp_path):
    options = {f"kafka.{name}": value for name, value in secured.login().items()}
    declared = eg.Kafka("any", options={**options, "kafka.linger.ms": "3"})
    Topics(declared.on(secured.sasl).client()).cluster_id()
    assert secured.password not in repr(declared)
    connector = declared.on(secured.sasl).connector_options()
    assert connector["kafka.linger.ms"] == "3"
    assert connector["kafka.enable.metrics.push"] == "false"
    assert f'password="{secured.password}"' in connector["kafka.sasl.jaas.config"]
    assert "kafka.sasl.password" not in connector
    config = written(tmp_path, secured.certificate())
    Topics(eg.Kafka("any", config=config).on(secured.mtls).client()).cluster_id()
    assert secured.password not in repr(eg.Kafka("any", config=config).on(secured.mtls).client())


def test_separate_files_for_key_and_certificate(secured, tmp_path, monkeypatch):
    """librdkafka reads the files; Java gets both as text."""
    pem = secured.authority.sign("client").read_text()
    key, certificate = pem.split("-----BEGIN CERTIFICATE-----")
    (tmp_path / "key.pem").write_text(key)
    (tmp_path / "certificate.pem").write_text(f"-----BEGIN CERTIFICATE-----{certificate}")
    settings = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.authority.file),
        "ssl.certificate.location": str(tmp_path / "certificate.pem"),
        "ssl.key.location": str(tmp_path / "key.pem"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"EAGRE_KAFKA_{name.upper().replace('.', '_')}", value)
    client = ClientSettings.to(secured.mtls)
    Topics(client).cluster_id()
    assert client.java() == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.authority.file),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE-----{certificate}",
        "ssl.keystore.key": key,
    }


def test_sparks_plans_do_not_show_a_key(eagre_spark, eagre_broker):
    secret = f"-----BEGIN PRIVATE KEY-----{secrets.token_hex(8)}"
    source = eg.Kafka("keyed", format="string", options={"kafka.ssl.keystore.key": secret})
    Topics(eagre_broker.address).create("keyed", 1)
    rows = source.read(eagre_spark, eagre_broker.address)
    plan = str(rows._jdf.queryExecution().toString())  # noqa: SLF001  (explain only prints)
    assert "kafka.ssl.keystore.key" in plan
    assert secret not in plan


LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({**LOGIN, "sasl.mechanism": "GSSAPI"}, "SASL_MECHANISM_UNKNOWN"),
        ({"security.protocol": "SASL_SSL"}, "SASL_MECHANISM_UNKNOWN"),
        ({**LOGIN, "sasl.username": "a"}, "LOGIN_MISSING"),
        ({"ssl.truststore.location": "trust.jks"}, "TRUSTSTORE_NOT_PEM"),
        ({"ssl.keystore.location": "key.jks", "ssl.keystore.type": "JKS"}, "KEYSTORE_NOT_PEM"),
    ],
)
def test_settings_unsupported_by_librdkafka_are_reported_and_passed_to_java(settings, code):
    with pytest.raises(SettingsError) as refused:
        ClientSettings("b:1", settings).librdkafka()
    assert refused.value.code == code
    assert (
        ClientSettings("b:1", settings).java().items()
        >= {name: value for name, value in settings.items() if name != "sasl.username"}.items()
    )


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"ssl.ca.location": "{absent}"}, "TLS_FILE_UNREADABLE"),
        ({"ssl.key.location": "{old}"}, "KEY_NOT_PKCS8"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "{locked}"}, "KEY_PASSWORD_MISSING"),
    ],
)
def test_unusable_files_are_refused(tmp_path, settings, code):
    old, locked = tmp_path / "old.pem", tmp_path / "locked.pem"
    old.write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    locked.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    paths = {"absent": tmp_path / "absent", "old": old, "locked": locked}
    config = written(tmp_path, {name: text.format(**paths) for name, text in settings.items()})
    with pytest.raises(SettingsError) as refused:
        ClientSettings.to("b:1", config)
    assert refused.value.code == code


def test_a_missing_config_is_reported_in_one_line(cli):
    done = cli("topic", "list", "--brokers", "b:1", EAGRE_KAFKA_CONFIG="absent.properties")
    assert done.returncode == 1
    assert re.fullmatch(
        r"eagre: CONFIG_UNREADABLE: .* absent.properties cannot be read: .*\n", done.stderr
    )


def test_the_declaration_overrides_the_environment(tmp_path, monkeypatch, secured):
    environment = written(tmp_path, {**LOGIN, "sasl.username": "around", "linger.ms": "9"}, "a")
    declared = written(tmp_path, {**LOGIN, "sasl.username": "declared"}, "d")
    monkeypatch.setenv("EAGRE_KAFKA_CONFIG", str(environment))
    monkeypatch.setenv("EAGRE_KAFKA_SASL_PASSWORD", "single")
    assert ClientSettings.to("b:1").settings == {
        **LOGIN,
        "sasl.username": "around",
        "sasl.password": "single",
    }
    assert ClientSettings.to("b:1", declared).settings["sasl.username"] == "declared"
    stated = ClientSettings.to("b:1", declared, {"kafka.sasl.username": "stated"})
    assert stated.settings["sasl.username"] == "stated"
    assert stated.described() == (
        f"SASL_SSL, PLAIN as 'stated', from EAGRE_KAFKA_SASL_PASSWORD, {declared}, options"
    )
    assert ClientSettings.to(secured.broker.address) == ClientSettings(secured.broker.address)


def test_a_declared_login_or_store_replaces_that_of_the_environment(tmp_path, monkeypatch):
    """In the names of Java or librdkafka; a password set separately stays."""
    monkeypatch.setenv("EAGRE_KAFKA_SASL_USERNAME", "around")
    monkeypatch.setenv("EAGRE_KAFKA_SASL_PASSWORD", "around")
    monkeypatch.setenv("EAGRE_KAFKA_SSL_CA_LOCATION", str(tmp_path))
    monkeypatch.setenv("EAGRE_KAFKA_SSL_KEY_PASSWORD", "apart")
    (tmp_path / "trust.pem").write_text("")
    settings = {
        "sasl.jaas.config": 'Module required username="own" password="own";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "trust.pem"),
    }
    client = ClientSettings.to("b:1", written(tmp_path, {**LOGIN, **settings}))
    resolved = client.librdkafka()
    assert (resolved["sasl.username"], resolved["sasl.password"]) == ("own", "own")
    assert resolved["ssl.ca.location"] == settings["ssl.truststore.location"]
    assert resolved["ssl.key.password"] == "apart"
    assert client.java() == {**LOGIN, **settings, "ssl.key.password": "apart"}


def test_a_jaas_login_is_translated_for_librdkafka():
    text = 'org.apache.Module required username="a\\"b" \\\n  password="c=d";'
    from eagre.broker.properties import parse

    settings = {**LOGIN, **parse(f"sasl.jaas.config = {text}".replace('\\"', '\\\\"'))}
    resolved = ClientSettings("b:1", settings).librdkafka()
    assert (resolved["sasl.username"], resolved["sasl.password"]) == ('a"b', "c=d")
    assert (
        ClientSettings("b:1", settings).java()["sasl.jaas.config"] == settings["sasl.jaas.config"]
    )
    again = ClientSettings("b:1", {**LOGIN, "sasl.username": 'a"b', "sasl.password": "c=d"}).java()
    assert ClientSettings("b:1", {**LOGIN, **again}).librdkafka() == resolved


def test_a_world_readable_file_with_a_secret_causes_a_warning(tmp_path, caplog):
    config = written(tmp_path, {"sasl.password": "secret"})
    ClientSettings.to("b:1", config)
    assert not caplog.messages
    config.chmod(0o644)
    ClientSettings.to("b:1", config)
    ClientSettings.to("b:1", config)
    assert caplog.messages == [
        f"{config} holds a secret and others may read it; `chmod 600 {config}` fixes it"
    ]


@pytest.mark.parametrize(
    ("brokers", "protocol", "warnings"),
    [
        ("kafka.example:9092", "SASL_PLAINTEXT", 1),
        ("127.0.0.1:9092,localhost:9093", "SASL_PLAINTEXT", 0),
        ("secured.example:9092", "SASL_SSL", 0),
    ],
)
def test_a_login_without_encryption_causes_a_warning(caplog, brokers, protocol, warnings):
    options = {
        "kafka.security.protocol": protocol,
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "secret",
    }
    for _ in range(2):
        ClientSettings.to(brokers, options=options)
    assert [r.levelname for r in caplog.records] == ["WARNING"] * warnings
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("url", "warnings"),
    [
        ("postgresql://db.example:5432/shop", 1),
        ("postgresql://db2.example:5432/shop?sslmode=require", 1),
        ("postgresql://db3.example:5432/shop?sslmode=verify-full", 0),
        ("postgresql://db4.example:5432/shop?ssl=true", 0),
        ("postgresql://127.0.0.1:5432/shop", 0),
        ("redis://db5.example:6379/0", 1),
        ("rediss://db6.example:6379/0", 0),
        ("redis://127.0.0.1:6379/0", 0),
    ],
)
def test_a_database_that_is_not_verified_causes_a_warning(caplog, url, warnings):
    postgres = eg.Postgres("t", key="k", url=url) if url.startswith("postgres") else None
    for _ in range(2):
        sink = postgres or eg.Redis("t:{k}", key="k", url=url)
        sink._spec(StructType().add("k", "string"))  # noqa: SLF001
    assert [r.levelname for r in caplog.records] == ["WARNING"] * warnings


def test_a_malformed_url_in_the_environment_is_left_to_the_tasks(caplog, monkeypatch):
    """They report it without its text, which may hold a password."""
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.setenv(name, "postgresql://u:secret@[::1")
    for sink in (eg.Postgres("t", key="k"), eg.Redis("t:{k}", key="k")):
        sink._spec(StructType().add("k", "string"))  # noqa: SLF001
    assert caplog.text == ""


def test_a_topic_gets_the_replication_of_the_cluster(monkeypatch):
    """A broker takes -1 for its own default.replication.factor."""
    made = []
    topics = Topics("somewhere:9092")
    monkeypatch.setattr(
        topics, "_admin", SimpleNamespace(create_topics=lambda new, **_: made.extend(new) or {})
    )
    monkeypatch.setattr(topics, "_change", lambda ask, *_, **__: ask([], 1.0))
    monkeypatch.setattr(topics, "_led", lambda *_: True)
    topics.create("new", 3)
    assert [(topic.num_partitions, topic.replication_factor) for topic in made] == [(3, -1)]


ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
    "LOGIN:SASL_PLAINTEXT",
    "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
    'PlainLoginModule required user_alice="secret";',
}


@pytest.mark.e2e
def test_a_topic_that_an_acl_hides_is_told_from_a_missing_one():
    port = free_port()
    settings = {**ACLS, "listeners": f"LOGIN://127.0.0.1:{port}"}
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    with EmbeddedBroker(settings=settings) as broker:
        Topics(broker.address).create("private", 1)
        seen = Topics(ClientSettings(f"127.0.0.1:{port}", login))
        assert seen.describe(["private"]) == {}
        assert seen.hidden(["private"]) == {"private"}
        assert Topics(broker.address).hidden(["private", "missing"]) == set()
        with pytest.raises(BrokerError, match="TOPIC_NOT_AUTHORIZED"):
            seen.require("private")
        source = eg.KafkaSource("private", schema="n INT")
        with pytest.raises(BrokerError, match="TOPIC_NOT_AUTHORIZED"):
            _ensure_topics(seen, [source], print)
        describe = AclBinding(
            *(ResourceType.TOPIC, "private", ResourcePatternType.LITERAL, "User:alice", "*"),
            *(AclOperation.DESCRIBE, AclPermissionType.ALLOW),
        )
        [done] = Topics(broker.address).admin.create_acls([describe]).values()
        done.result()
        wait_until(lambda: seen.describe(["private"]), 10, "the ACL has no effect")
        with pytest.raises(BrokerError, match=r"TOPIC_NOT_AUTHORIZED: .* cannot be read"):
            replicated_ends(seen, ["private"])
