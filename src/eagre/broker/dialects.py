"""Translates security settings between the names of Java and of librdkafka.

Both read PEM. librdkafka cannot read a truststore in Java's format:
also provide its certificates as ``ssl.ca.location``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Settings = Mapping[str, str]

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN_MODULES = {"PLAIN": _PLAIN, "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}
"""The SASL mechanisms that both clients support, with Java's classes for them."""

_LIBRDKAFKA_ONLY = frozenset(
    {
        "enable.ssl.certificate.verification",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.crl.location",
        "ssl.key.location",
        "ssl.key.pem",
    }
)
_LOGIN = ("sasl.username", "sasl.password")
_STORES = (
    ("ssl.truststore.", "ssl.ca."),
    ("ssl.keystore.", "ssl.certificate.", "ssl.key."),
)
_SHARED = frozenset({"security.protocol", "ssl.key.password"})
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
_OLD_KEY = re.compile(r"-----BEGIN (RSA|EC|DSA) PRIVATE KEY-----")


def layered(layers: Iterable[Settings]) -> dict[str, str]:
    """Merge settings; later ones override earlier ones.

    A later login or store replaces an earlier one, whether in the names of Java or of librdkafka;
    passwords that were set separately stay.

    >>> layered([{"ssl.ca.location": "ca.pem"}, {"ssl.truststore.location": "trust.jks"}])
    {'ssl.truststore.location': 'trust.jks'}
    """
    merged: dict[str, str] = {}
    for layer in layers:
        settings = [name for name in layer if not name.endswith(("password", "type"))]
        for group in _STORES:
            if any(name.startswith(group) for name in settings):
                merged = {n: v for n, v in merged.items() if _stays(n, group)}
        if "sasl.jaas.config" in layer:
            merged = {n: v for n, v in merged.items() if n not in _LOGIN}
        merged |= layer
    return merged


def _stays(name: str, group: tuple[str, ...]) -> bool:
    return name.endswith("password") or not name.startswith(group)


def java(settings: Settings) -> dict[str, str]:
    """Translate for a Java client."""
    apart = (*_LIBRDKAFKA_ONLY, "ssl.truststore.", "ssl.keystore.")
    return {
        **{name: value for name, value in settings.items() if not name.startswith(apart)},
        **_java_login(settings),
        **_java_trust(settings),
        **_java_key(settings),
        **({_HOST_CHECK: ""} if settings.get(_HOST_CHECK) == "none" else {}),
    }


def librdkafka(settings: Settings) -> dict[str, str]:
    """Translate for librdkafka.

    Raises:
        SettingsError: librdkafka does not support one of them.
    """
    known = (_LIBRDKAFKA_ONLY | _SHARED) - {"sasl.mechanisms"}
    return {
        **{name: value for name, value in settings.items() if name in known},
        **_rd_login(settings),
        **_rd_trust(settings),
        **_rd_key(settings),
        **({_HOST_CHECK: settings[_HOST_CHECK] or "none"} if _HOST_CHECK in settings else {}),
    }


def mechanism(settings: Settings) -> str:
    """Return the SASL mechanism; empty without a login."""
    if not settings.get("security.protocol", "").upper().startswith("SASL"):
        return ""
    return settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or ""


def credentials(settings: Settings) -> dict[str, str]:
    r"""Return user and password, given separately or in ``sasl.jaas.config``.

    >>> credentials({"sasl.jaas.config": 'Module required username="a" password="b\\"c";'})
    {'username': 'a', 'password': 'b"c'}
    """
    text = settings.get("sasl.jaas.config", "")
    pairs = re.findall(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))', text)
    inside = {name: re.sub(r"\\(.)", r"\1", value) or bare for name, value, bare in pairs}
    stated = {name: settings.get(f"sasl.{name}") for name in ("username", "password")}
    login = {name: stated[name] or inside.get(name) for name in stated}
    return {name: value for name, value in login.items() if value}


def require_usable(settings: Settings) -> None:
    """Refuse unreadable files, and keys that one of the clients cannot open.

    Raises:
        SettingsError: A file or key cannot be used.
    """
    for name in sorted(settings):
        if name.startswith("ssl.") and name.endswith(".location"):
            _require_readable(name, settings[name])
    key = _pem_key(settings)
    if key and _OLD_KEY.search(key):
        raise SettingsError(
            "KEY_NOT_PKCS8",
            "the client's private key is in a format that Java does not read.",
            hint="`openssl pkcs8 -topk8 -nocrypt -in key.pem -out key8.pem` converts it.",
        )
    if key and "ENCRYPTED PRIVATE KEY" in key and not settings.get("ssl.key.password"):
        raise SettingsError(
            "KEY_PASSWORD_MISSING",
            "the client's private key is encrypted and ssl.key.password is not set.",
            hint="set it in the client's properties file or as EAGRE_KAFKA_SSL_KEY_PASSWORD.",
        )


def _require_readable(name: str, path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except IsADirectoryError:
        pass
    except OSError as error:
        raise SettingsError(
            "TLS_FILE_UNREADABLE",
            f"{name} names {path}, which cannot be read: {error.strerror}.",
            hint="a relative path counts from the folder in which the command runs.",
        ) from None


def _pem_key(settings: Settings) -> str:
    """Return the private key as PEM; empty without one."""
    inline = settings.get("ssl.keystore.key") or settings.get("ssl.key.pem")
    if inline:
        return inline
    store = settings.get("ssl.keystore.location", "") if _is_pem(settings, "keystore") else ""
    path = settings.get("ssl.key.location") or store
    return Path(path).read_text(errors="replace") if path else ""


def _is_pem(settings: Settings, store: str) -> bool:
    return settings.get(f"ssl.{store}.type", "").upper() == "PEM"


def _java_login(settings: Settings) -> dict[str, str]:
    how = mechanism(settings)
    if not how:
        return {}
    separate = "sasl.username" in settings or "sasl.password" in settings
    if how not in LOGIN_MODULES or not separate:
        return {"sasl.mechanism": how}
    known = credentials(settings)
    words = " ".join(f'{name}="{_quoted(value)}"' for name, value in known.items())
    return {
        "sasl.mechanism": how,
        "sasl.jaas.config": f"{LOGIN_MODULES[how]} required {words};",
    }


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _java_trust(settings: Settings) -> dict[str, str]:
    if "ssl.truststore.location" in settings or "ssl.truststore.certificates" in settings:
        return {n: value for n, value in settings.items() if n.startswith("ssl.truststore.")}
    if "ssl.ca.pem" in settings:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": settings["ssl.ca.pem"]}
    if "ssl.ca.location" in settings:
        path = settings["ssl.ca.location"]
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": path}
    return {}


def _java_key(settings: Settings) -> dict[str, str]:
    """Return key and certificates: Java reads both from one file, or each as text."""
    if "ssl.keystore.location" in settings or "ssl.keystore.key" in settings:
        return {n: value for n, value in settings.items() if n.startswith("ssl.keystore.")}
    chain, key = settings.get("ssl.certificate.location"), settings.get("ssl.key.location")
    if chain and chain == key:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": chain}
    chain_text = Path(chain).read_text() if chain else settings.get("ssl.certificate.pem")
    key_text = Path(key).read_text() if key else settings.get("ssl.key.pem")
    if not chain_text or not key_text:
        return {}
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain_text,
        "ssl.keystore.key": key_text,
    }


def _rd_login(settings: Settings) -> dict[str, str]:
    if not settings.get("security.protocol", "").upper().startswith("SASL"):
        return {}
    how, known = mechanism(settings), credentials(settings)
    if how not in LOGIN_MODULES:
        raise SettingsError(
            "SASL_MECHANISM_UNKNOWN",
            f"sasl.mechanism must be one of {', '.join(LOGIN_MODULES)}, not {how or 'unset'}.",
            hint="other mechanisms work in plain PySpark, with eg.configure.",
        )
    missing = [f"sasl.{name}" for name in ("username", "password") if name not in known]
    if missing:
        raise SettingsError(
            "LOGIN_MISSING",
            f"security.protocol requires a login, and {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not set.",
            hint="set EAGRE_KAFKA_SASL_USERNAME and EAGRE_KAFKA_SASL_PASSWORD, or both in the "
            "client's properties file.",
        )
    return {
        "sasl.mechanism": how,
        "sasl.username": known["username"],
        "sasl.password": known["password"],
    }


def _rd_trust(settings: Settings) -> dict[str, str]:
    if "ssl.ca.location" in settings or "ssl.ca.pem" in settings:
        return {}
    if "ssl.truststore.certificates" in settings:
        return {"ssl.ca.pem": settings["ssl.truststore.certificates"]}
    path = settings.get("ssl.truststore.location")
    if path and not _is_pem(settings, "truststore"):
        raise SettingsError(
            "TRUSTSTORE_NOT_PEM",
            f"the truststore {path} is in a format that only Java reads.",
            hint=f"`keytool -list -rfc -keystore {path} > ca.pem` writes its certificates; name "
            "that file as ssl.ca.location beside it.",
        )
    return {"ssl.ca.location": path} if path else {}


def _rd_key(settings: Settings) -> dict[str, str]:
    if any(
        name.startswith(("ssl.certificate.", "ssl.key."))
        for name in settings
        if name not in _SHARED
    ):
        return {}
    if "ssl.keystore.key" in settings:
        chain = settings.get("ssl.keystore.certificate.chain", "")
        return {"ssl.key.pem": settings["ssl.keystore.key"], "ssl.certificate.pem": chain}
    path = settings.get("ssl.keystore.location")
    if not path:
        return {}
    if _is_pem(settings, "keystore"):
        return {"ssl.certificate.location": path, "ssl.key.location": path}
    if settings.get("ssl.keystore.type", "").upper() != "PKCS12":
        raise SettingsError(
            "KEYSTORE_NOT_PEM",
            f"the keystore {path} is in a format that only Java reads.",
            hint=f"`keytool -importkeystore -srckeystore {path} -destkeystore client.p12 "
            "-deststoretype PKCS12` converts it; name that, with ssl.keystore.type=PKCS12.",
        )
    return {
        "ssl.keystore.location": path,
        "ssl.keystore.password": settings.get("ssl.keystore.password", ""),
    }
