"""A certificate authority of our own, and a certificate of it for loopback addresses."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def make_tls(folder: Path, *addresses: str, is_strict: bool = True) -> tuple[Path, ssl.SSLContext]:
    """The authority's certificate as a file, and a server's context with a certificate for these IP addresses.

    Beside it lie `client.pem` and `client.key`, a client's. `is_strict`: with the extensions of RFC 5280.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root_key, key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    root = _certificate("evenkeel tests", root_key, root_key, is_authority=True, is_strict=is_strict)
    _write(folder / "ca.pem", root)
    _write(folder / "broker.pem", _certificate("broker", key, root_key, names=names, is_strict=is_strict))
    _write(folder / "client.pem", _certificate("client", client_key, root_key, is_strict=is_strict))
    for name, private in (("broker", key), ("client", client_key)):
        (folder / f"{name}.key").write_bytes(_pem(private, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "broker.pem", folder / "broker.key")
    return folder / "ca.pem", context


def encrypt(key: Path) -> None:
    """Put a passphrase on a key."""
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    key.write_bytes(_pem(private, serialization.BestAvailableEncryption(b"a passphrase")))


def _pem(key: ec.EllipticCurvePrivateKey, encryption: serialization.KeySerializationEncryption) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _write(file: Path, certificate: x509.Certificate) -> None:
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool = False,
    is_strict: bool = True,
    names: list[x509.IPAddress] | None = None,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "evenkeel tests")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if is_strict:
        usage = dict.fromkeys(USES, False) | {"digital_signature": True, "key_cert_sign": is_authority}
        builder = (
            builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .add_extension(x509.KeyUsage(**usage), critical=True)
        )
    return builder.sign(signer, hashes.SHA256())
