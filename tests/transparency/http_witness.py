"""A witness by HTTP (C2SP tlog-witness), as little of it as its clients are tested with."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from threading import Lock

from evenkeel.errors import BadNote
from evenkeel.transparency.keys import VerifierKey, base64_bytes
from evenkeel.transparency.merkle import EMPTY, is_consistent
from evenkeel.transparency.notes import Checkpoint, Note, parse_checkpoint, parse_note, verified
from evenkeel.transparency.witness_client import origin_hash
from tests.serving import answering
from tests.transparency.logs import LOG_KEY, NOON, WITNESS_KEY

Seen = dict[str, Note]
"""Origin of a log -> its last checkpoint that was cosigned."""


class _Witness:
    def __init__(self, seen: Seen, log_keys: Collection[VerifierKey]) -> None:
        self.seen, self._log_keys, self._turn = seen, log_keys, Lock()

    def answer(self, body: bytes) -> tuple[int, str]:
        head, _, rest = body.partition(b"\n\n")
        first, *lines = head.decode().split("\n")
        proof = [base64_bytes(line) or b"" for line in lines]
        note = parse_note(rest)
        new = parse_checkpoint(note.text)
        if new.origin not in {key.name for key in self._log_keys}:
            return 404, "unknown log"
        try:
            verified(note, self._log_keys)
        except BadNote:
            return 403, "unknown key"
        with self._turn:
            before = self.seen.get(new.origin)
            last = Checkpoint(new.origin, 0, EMPTY) if before is None else parse_checkpoint(before.text)
            if int(first.removeprefix("old ")) != last.size:
                return 409, str(last.size)
            if not is_consistent(last.size, new.size, last.root, new.root, proof):
                return 422, "not consistent"
            signature = WITNESS_KEY.sign(note.text.encode(), NOON)
            self.seen[new.origin] = note.with_signatures([signature])
        return 200, signature.line.removesuffix("\n")


@contextmanager
def witness(seen: Seen, port: int = 0, log_keys: Collection[VerifierKey] = (LOG_KEY.verifier,)) -> Iterator[str]:
    """The URL of a witness, while it listens; `seen` is what it remembers."""
    judge = _Witness(seen, log_keys)

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        if handler.command == "POST":
            status, text = judge.answer(body)
            return status, f"{text}\n".encode()
        found = {f"/{origin_hash(origin)}/checkpoint": note for origin, note in seen.items()}.get(handler.path)
        return (404, b"none\n") if found is None else (200, found.data)

    with answering(answer, port) as listening:
        yield f"http://127.0.0.1:{listening}"


def line_of(url: str) -> str:
    """The witness as `EVENKEEL_WITNESSES` names it."""
    return f"{WITNESS_KEY.verifier.text} {url}"
