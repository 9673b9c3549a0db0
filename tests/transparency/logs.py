"""Keys, places and logs that the tests of the transparency log share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from evenkeel.transparency.keys import COSIGNATURE, NoteSignature, SignerKey, VerifierKey, cosigned_message
from evenkeel.transparency.log import TransparencyLog

ORIGIN = "example.com/evenkeel"
LOG_KEY = SignerKey(ORIGIN, bytes(range(32)))
OTHER_KEY = SignerKey(ORIGIN, bytes(range(1, 33)))
NOON = 1_795_694_400  # 2026-11-26T12:00:00Z, in seconds


class CosigningKey:
    """The private key of a witness, as other programs have it."""

    def __init__(self, name: str, seed: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = VerifierKey(name, COSIGNATURE, self._private.public_key().public_bytes_raw())

    def sign(self, text: bytes, at: int) -> NoteSignature:
        body = at.to_bytes(8) + self._private.sign(cosigned_message(text, at))
        return NoteSignature(self.verifier.name, self.verifier.key_id, body)


WITNESS_KEY = CosigningKey("witness.example/1", bytes(range(2, 34)))
SECOND_WITNESS_KEY = CosigningKey("witness.example/2", bytes(range(3, 35)))


class KilledWriter(BaseException):
    """Stands for a kill: nothing catches this exception."""


class MemoryStorage:
    """A place in memory. `dies_at`: the number of the change (from 0) before which its writer is killed."""

    def __init__(self, files: dict[str, bytes] | None = None, dies_at: int | None = None) -> None:
        self.files = {} if files is None else files
        self.reads: list[str] = []
        self.changes: list[str] = []
        self.dies_at = dies_at

    def get(self, name: str) -> bytes | None:
        self.reads.append(name)
        return self.files.get(name)

    def put(self, name: str, data: bytes) -> None:
        self._change(name)
        self.files[name] = data

    def names(self, folder: str, most: int) -> list[str]:
        found = {name.removeprefix(f"{folder}/").split("/")[0] for name in self.files if name.startswith(f"{folder}/")}
        return sorted(found)[:most]

    def remove(self, folder: str) -> None:
        self._change(folder)
        for name in [one for one in self.files if one.startswith(f"{folder}/")]:
            del self.files[name]

    @contextmanager
    def appending(self) -> Iterator[None]:
        yield

    def _change(self, name: str) -> None:
        if len(self.changes) == self.dies_at:
            raise KilledWriter
        self.changes.append(name)


def entries_of(size: int, begin: int = 0) -> list[bytes]:
    return [b"entry %d" % number for number in range(begin, begin + size)]


def opened(storage: MemoryStorage, signers: Sequence[SignerKey] = (LOG_KEY,)) -> TransparencyLog:
    return TransparencyLog(storage, ORIGIN, signers)


def log_of(entries: Sequence[bytes], storage: MemoryStorage | None = None) -> TransparencyLog:
    """A log with these entries, appended at once."""
    found = opened(MemoryStorage() if storage is None else storage)
    found.create()
    found.append(entries)
    return found
