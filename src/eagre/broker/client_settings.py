"""Addresses and security settings of Kafka clients, for librdkafka and for Java.

The settings are those of a Java client, as Kafka's tools accept them with ``--command-config``;
librdkafka's names for the same settings work as well. Eagre's admin client uses librdkafka,
Spark's connector and the companion use Java: each gets the settings in its own names. Values are
never shown.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from eagre.broker import dialects, registry
from eagre.broker.properties import parse
from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("eagre")

CONFIG = "EAGRE_KAFKA_CONFIG"
"""The environment variable that names the client's properties file."""

PREFIX = "EAGRE_KAFKA_"
"""The prefix of environment variables for single settings, such as EAGRE_KAFKA_SASL_PASSWORD."""

_ACCESS = ("security.", "sasl.", "ssl.", "enable.ssl.")
_SECRET = re.compile(r"password|jaas|\.pem$|keystore\.key$|secret")


def is_access(name: str) -> bool:
    """Return whether a client setting concerns security.

    >>> is_access("sasl.password"), is_access("kafka.ssl.keystore.type"), is_access("linger.ms")
    (True, True, False)
    """
    return name.lower().removeprefix("kafka.").startswith(_ACCESS)


@dataclass(frozen=True)
class ClientSettings:
    """The address of a cluster and its security settings.

    >>> ClientSettings("broker:9093", {"security.protocol": "SASL_SSL", "sasl.password": "secret"})
    ClientSettings(brokers='broker:9093', origins=())

    Attributes:
        brokers: ``host:port``, several with commas.
        settings: The security settings, as given.
        origins: Where they come from: a file, environment variables, options.
    """

    brokers: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    origins: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def to(
        cls,
        brokers: str,
        config: Path | str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> ClientSettings:
        """Collect the settings of a cluster.

        A declaration overrides the environment, a single setting overrides a file. For a running
        embedded broker only the options count, because it has no authentication.

        Args:
            brokers: Its address.
            config: A client's properties file; by default that of ``EAGRE_KAFKA_CONFIG``.
            options: Options of Spark's connector; those with ``kafka.`` belong to the client.

        Raises:
            SettingsError: A file cannot be read or is invalid.
        """
        stated = {
            name[len("kafka.") :]: value
            for name, value in (options or {}).items()
            if name.lower().startswith("kafka.") and is_access(name)
        }
        around = [] if _is_embedded(brokers) else _around(config)
        layers = [*around, (["options"] if stated else [], stated)]
        settings = dialects.layered(layer for _, layer in layers)
        dialects.require_usable(settings)
        client = cls(brokers, settings, tuple(name for names, _ in layers for name in names))
        client._warn_of_plain_login()
        return client

    def _warn_of_plain_login(self) -> None:
        """Warn, once for each cluster, of a login that others on the network can read."""
        hosts = {address.rpartition(":")[0] for address in self.brokers.split(",")}
        if self.protocol != "SASL_PLAINTEXT" or hosts <= _LOCAL or self.brokers in _plain:
            return
        _plain.add(self.brokers)
        log.warning(
            "security.protocol=SASL_PLAINTEXT sends the login and every record to %s unencrypted; "
            "use SASL_SSL outside of a network you trust",
            self.brokers,
        )

    @property
    def protocol(self) -> str:
        """The security protocol; ``PLAINTEXT`` if none is named."""
        return self.settings.get("security.protocol", "PLAINTEXT").upper()

    def java(self) -> dict[str, str]:
        """Return the security settings in the names of a Java client.

        >>> ClientSettings("b:1", {"ssl.ca.location": "ca.pem"}).java()
        {'ssl.truststore.type': 'PEM', 'ssl.truststore.location': 'ca.pem'}
        """
        return dialects.java(self.settings)

    def librdkafka(self) -> dict[str, str]:
        """Return the settings in librdkafka's names, including the address.

        Raises:
            SettingsError: librdkafka does not support one of them.
        """
        return {**dialects.librdkafka(self.settings), "bootstrap.servers": self.brokers}

    def described(self) -> str:
        """Describe the settings without any value that could be secret.

        >>> ClientSettings("b:1", {"security.protocol": "SSL"}, ("client.properties",)).described()
        'SSL, from client.properties'
        """
        how = f"{self.protocol}, {self.login}" if self.login else self.protocol
        return f"{how}, from {', '.join(self.origins)}" if self.origins else how

    @property
    def login(self) -> str:
        """Return mechanism and user as text; empty without a login."""
        mechanism = dialects.mechanism(self.settings)
        user = dialects.credentials(self.settings).get("username", "")
        return f"{mechanism} as {user!r}" if mechanism else ""


def _is_embedded(brokers: str) -> bool:
    host, _, port = brokers.split(",", 1)[0].rpartition(":")
    local = host in ("127.0.0.1", "localhost") and port.isdigit()
    return local and any(broker.port == int(port) for broker in registry.running())


def _around(config: Path | str | None) -> list[tuple[list[str], dict[str, str]]]:
    """Return the settings of files and variables with their names; later ones have priority."""
    variables = {
        name: name.removeprefix(PREFIX).lower().replace("_", ".")
        for name in sorted(os.environ)
        if name.startswith(PREFIX)
    }
    single = {name: setting for name, setting in variables.items() if is_access(setting)}
    layers = [(list(single), {setting: os.environ[name] for name, setting in single.items()})]
    if config:
        return [*layers, ([str(config)], _read(config))]
    file = os.environ.get(CONFIG)
    return [([f"{CONFIG}={file}"], _read(file)), *layers] if file else layers


def _read(config: Path | str) -> dict[str, str]:
    """Read the security settings of a properties file; others are ignored.

    Raises:
        SettingsError: The file cannot be read.
    """
    path = Path(config).expanduser()
    try:
        entries = parse(path.read_text("latin-1"))
        mode = path.stat().st_mode
    except OSError as error:
        raise SettingsError(
            "CONFIG_UNREADABLE",
            f"the Kafka client's configuration {path} cannot be read: {error.strerror}.",
            hint=f"name a properties file by {CONFIG} or eg.Kafka(..., config=...).",
        ) from None
    settings = {name: value for name, value in entries.items() if is_access(name)}
    if mode & (stat.S_IRGRP | stat.S_IROTH) and any(map(_SECRET.search, settings)):
        _warn_once(path)
    return settings


def _warn_once(path: Path) -> None:
    if path not in _warned:
        _warned.add(path)
        log.warning("%s holds a secret and others may read it; `chmod 600 %s` fixes it", path, path)


_LOCAL = {"127.0.0.1", "localhost", "[::1]"}
_plain: set[str] = set()
_warned: set[Path] = set()
