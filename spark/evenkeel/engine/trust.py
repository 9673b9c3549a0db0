"""The machine's own certificate authorities, in a form that Java reads.

The JVM from PyPI brings a list of its own, which knows nothing of a company's authority. Python's tools take the
machine's bundle; this hands the same bundle to Java, so that both trust the same.
"""

from __future__ import annotations

import os
import ssl
import warnings
from collections.abc import Iterator
from pathlib import Path

PASSWORD = "changeit"  # Java's customary word: a trust store holds public certificates only
BUNDLE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
USUAL_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def trust_options(folder: Path) -> list[str]:
    """Java options that point to a trust store, written into `folder`; none where the machine has no bundle."""
    bundle = next(_bundles(), None)
    if bundle is None:
        return []
    store = folder / "authorities.p12"
    store.write_bytes(_as_java_store(bundle.read_bytes()))
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={PASSWORD}"]


def _bundles() -> Iterator[Path]:
    named = [os.environ.get(variable) for variable in BUNDLE_VARIABLES]
    for name in (*named, ssl.get_default_verify_paths().cafile, *USUAL_BUNDLES):
        if name and Path(name).is_file():
            yield Path(name)


def _as_java_store(bundle: bytes) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    with warnings.catch_warnings():  # old roots with odd serial numbers are the machine's business, not ours
        warnings.simplefilter("ignore")
        certificates = x509.load_pem_x509_certificates(bundle)
    entries = [
        pkcs12.PKCS12Certificate(found, f"authority-{place}".encode()) for place, found in enumerate(certificates)
    ]
    return pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(PASSWORD.encode()))
