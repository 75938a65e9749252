"""A certificate authority for the tests; keys and certificates are PEM files."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM
DAY = dt.timedelta(days=1)


@dataclass
class Authority:
    """A certificate authority; writes key and certificate of each signed name into one file."""

    folder: Path
    name: str

    def __post_init__(self):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._signed(self.name, self._key, authority=True)
        self.file = self.folder / f"{self.name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(PEM))

    def sign(self, name, password=None):
        """Create a key and its certificate; return the file with both."""
        key = ec.generate_private_key(ec.SECP256R1())
        path = self.folder / f"{self.name}-{name}.pem"
        path.write_bytes(_written(key, password) + self._signed(name, key).public_bytes(PEM))
        return path

    def _signed(self, name, key, *, authority=False):
        now = dt.datetime.now(dt.UTC)
        hosts = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        return (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _written(key, password):
    locked = serialization.BestAvailableEncryption(password.encode()) if password else None
    return key.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, locked or serialization.NoEncryption()
    )
