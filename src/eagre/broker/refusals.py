"""Explains why a cluster refuses a client, and what to do."""

from __future__ import annotations

import re
import socket
import ssl
from typing import TYPE_CHECKING

from eagre.errors import BrokerError

if TYPE_CHECKING:
    from eagre.broker.client_settings import ClientSettings

GUESSED = "SECURITY_PROTOCOL_WRONG"
"""The only uncertain reason: a broker that is shutting down closes connections in the same way."""

_HELLO_SECONDS = 2


def refused(client: ClientSettings, kind: str, message: str) -> BrokerError | None:
    """Translate an error of librdkafka that means a refused connection.

    Args:
        client: The client that was refused.
        kind: librdkafka's name of the error.
        message: Its text.

    Returns:
        The error to raise; None if it may be temporary.
    """
    why = re.sub(r"^\S+://\S+: | \(after [^)]*\)|\.$", "", message)
    where = f" ({', '.join(client.origins)})" if client.origins else ""
    if kind == "_AUTHENTICATION":
        return BrokerError(
            "LOGIN_REFUSED",
            f"the cluster at {client.brokers} refused the login by {client.login}: {why}.",
            hint=f"check sasl.mechanism, sasl.username and sasl.password{where}.",
        )
    if "PLAINTEXT broker listener" in why:
        return _misunderstood(client, why)
    if "certificate verify failed" in why or "could not be verified" in why:
        return BrokerError(
            "BROKER_NOT_TRUSTED",
            f"the certificate of {client.brokers} was not signed by an authority this client "
            f"trusts, or is for another host: {why}.",
            hint="name the PEM file of the authority that signed it as ssl.truststore.location, "
            f"with ssl.truststore.type=PEM{where}.",
        )
    if kind == "_SSL" or "SSL alert" in why:
        return BrokerError(
            "TLS_REFUSED",
            f"the TLS handshake with {client.brokers} failed: {why}.",
            hint="a listener that requires a client certificate needs ssl.keystore.location, "
            f"with ssl.keystore.type=PEM: key and certificates in one file{where}.",
        )
    return None


def misunderstood(client: ClientSettings) -> BrokerError | None:
    """Return whether a listener that closes the connection uses TLS: librdkafka does not say."""
    if not _speaks_tls(client.brokers):
        return None
    if client.protocol.endswith("PLAINTEXT"):
        return _misunderstood(client, "it speaks TLS")
    if client.protocol == "SSL":
        return _misunderstood(client, "it hangs up after the handshake, and may ask for a login")
    return None


def _misunderstood(client: ClientSettings, why: str) -> BrokerError:
    where = client.origins[0] if client.origins else "a file that EAGRE_KAFKA_CONFIG names"
    return BrokerError(
        GUESSED,
        f"the listener at {client.brokers} does not understand "
        f"security.protocol={client.protocol}: {why}.",
        hint=f"set security.protocol (PLAINTEXT, SSL, SASL_SSL) as it asks, in {where}.",
    )


def _speaks_tls(brokers: str) -> bool:
    host, _, port = brokers.split(",", maxsplit=1)[0].rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, int(port)), _HELLO_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except (OSError, ValueError):
        return False
