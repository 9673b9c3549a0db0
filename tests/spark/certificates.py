"""A certificate authority of the tests' own, and certificates of it for a TLS proxy: good, expired, of another name."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


class Authority:
    """An authority that signs certificates; `file` holds its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority in {folder.name}")])
        now = datetime.now(UTC)
        root = self._builder(self._name, self._key, now - _DAY, now + _DAY)
        root = root.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file = folder / "ca.crt"
        self.file.write_bytes(_pem(root.sign(self._key, hashes.SHA256())))

    def issue(self, folder: Path, name: str, *, days: int = 1) -> Path:
        """A folder with `tls.crt` and `tls.key` for a host's name; with `days` below zero it has expired."""
        folder.mkdir(parents=True)
        key = ec.generate_private_key(ec.SECP256R1())
        end = datetime.now(UTC) + days * _DAY
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        leaf = self._builder(subject, key, end - 30 * _DAY, end)
        leaf = leaf.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        (folder / "tls.crt").write_bytes(_pem(leaf.sign(self._key, hashes.SHA256())))
        pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (folder / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
        return folder

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime, end: datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
