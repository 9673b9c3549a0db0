"""Time stamp authorities on loopback, for tests: `openssl ts -reply` behind HTTP, and some that answer otherwise."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.serving import answering

CONFIGURATION = """[tsa]
default_tsa = authority
[authority]
serial = {folder}/serial
signer_cert = {folder}/authority.pem
signer_key = {folder}/authority.key
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256, sha512
ess_cert_id_alg = sha256
"""


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority whose keys lie in a folder. `ca`: the certificate that it signs under, in PEM."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def reply(self, query: bytes) -> bytes:
        """What it answers to a request."""
        (self.folder / "query").write_bytes(query)
        _openssl("ts", "-reply", "-config", "authority.cnf", "-queryfile", "query", "-out", "reply", at=self.folder)
        return (self.folder / "reply").read_bytes()


def made_authority(folder: Path) -> Authority:
    """A new authority, its certificate under a CA of its own."""
    folder.mkdir(parents=True)
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    _openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", "-subj", "/CN=CA", at=folder)
    subject = ("-subj", "/O=Tests/CN=Authority")
    _openssl("req", *curve, "-keyout", "authority.key", "-out", "authority.csr", *subject, at=folder)
    (folder / "extensions").write_text("extendedKeyUsage=critical,timeStamping\nkeyUsage=critical,digitalSignature\n")
    under = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", "extensions")
    _openssl("x509", "-req", "-in", "authority.csr", *under, "-out", "authority.pem", at=folder)
    (folder / "authority.cnf").write_text(CONFIGURATION.format(folder=folder))
    (folder / "serial").write_text("01\n")
    return Authority(folder)


@contextmanager
def listening(answer: Callable[[BaseHTTPRequestHandler, bytes], None]) -> Iterator[str]:
    """The URL of a server that is given each request and its body, while it listens."""
    with answering(answer) as port:
        yield f"http://127.0.0.1:{port}/tsr"


def sent(handler: BaseHTTPRequestHandler, data: bytes, status: int = 200) -> None:
    """Sends an answer."""
    handler.send_response(status)
    handler.send_header("Content-Type", "application/timestamp-reply")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def _openssl(*words: str, at: Path) -> None:
    subprocess.run(["openssl", *words], cwd=at, check=True, capture_output=True, timeout=60)
