"""A witness: remembers the largest tree of each log that it saw, and cosigns only what has grown from it.

C2SP tlog-witness, *add-checkpoint*: what is asked, in which order it is judged, and what is answered. The state of a
log is its last cosigned checkpoint, as a file `<SHA-256 of the origin>/checkpoint`. It lasts before anything is signed,
so a witness that is killed may have remembered a checkpoint that it never cosigned, and never the other way round.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from evenkeel.errors import BadInput, BadNote, BadSignature, DamagedLog, LogBusy, LogError
from evenkeel.lake.merkle import EMPTY, is_consistent
from evenkeel.transparency.checkpoint import Checkpoint, number_of, parse_checkpoint
from evenkeel.transparency.keys import COSIGNATURE, ED25519, SignerKey, VerifierKey, base64_bytes, shown
from evenkeel.transparency.notes import MOST_BYTES, Note, parse_note, verified
from evenkeel.transparency.storage import LogStorage

MOST_PROOF_LINES = 63
"""The longest consistency proof of a request."""
MOST_REQUEST_BYTES = MOST_BYTES + 4096
"""The largest request: a note, and before it a size and the proof (2.9 kB at most)."""
SIZE_TYPE = "text/x.tlog.size"
"""Content type of the answer 409, whose body is a size."""
TEXT_TYPE = "text/plain; charset=utf-8"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WitnessRequest:
    """What is submitted: the size of the checkpoint before, the proof from there, and the new checkpoint."""

    old: int
    proof: tuple[bytes, ...]
    note: Note
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class WitnessAnswer:
    """An answer by HTTP: status, content type and body."""

    status: int
    body: bytes
    content_type: str = TEXT_TYPE


def origin_hash(origin: str) -> str:
    """The name of a log's folder at a witness, 64 hex digits (tlog-witness, *Monitor Retrieval Mechanism*)."""
    return hashlib.sha256(origin.encode()).hexdigest()


def parse_request(body: bytes) -> WitnessRequest:
    """The request that a body is: `old <size>`, proof lines, an empty line, a checkpoint. Raises BadNote."""
    if len(body) > MOST_REQUEST_BYTES:
        raise BadNote(f"a request of {len(body):,} bytes: {MOST_REQUEST_BYTES:,} are read at most")
    head, _, rest = body.partition(b"\n\n")
    first, *lines = head.decode("ascii", "replace").split("\n", MOST_PROOF_LINES + 1)
    old = number_of(first.removeprefix("old ")) if first.startswith("old ") else None
    proof = [base64_bytes(line) for line in lines]
    if old is None or len(proof) > MOST_PROOF_LINES:
        raise BadNote(f"a request begins with `old <size>` and at most {MOST_PROOF_LINES} lines of proof")
    hashes = tuple(one for one in proof if one is not None and len(one) == len(EMPTY))
    if len(hashes) != len(lines):
        raise BadNote("a line of the proof is not the base64 of 32 bytes")
    note = parse_note(rest)
    return WitnessRequest(old, hashes, note, parse_checkpoint(note.text))


class Witness:
    """Judges checkpoints of the logs that it knows.

    `signer`: a key of the kind `COSIGNATURE`. `logs`: origin -> the keys that sign for it. `storage`: where the states
    lie; processes that share it do not get in each other's way.
    """

    def __init__(
        self,
        signer: SignerKey,
        logs: Mapping[str, Collection[VerifierKey]],
        storage: LogStorage,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if signer.verifier.kind != COSIGNATURE:
            raise BadInput(f"the key {shown(signer.verifier.name)} does not make cosignatures: make one for a witness")
        if any(key.kind != ED25519 or key.public == signer.verifier.public for keys in logs.values() for key in keys):
            raise BadInput("a witness knows logs by keys of logs, and its own key is none of them")
        self._signer = signer
        self._logs = {origin: tuple(keys) for origin, keys in logs.items()}
        self._origins = {origin_hash(origin): origin for origin in logs}
        self._storage = storage
        self._clock = clock
        self._turn = threading.Lock()

    def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        """The answer to `POST add-checkpoint`: 200 with a cosignature, or 400, 403, 404, 409 or 422 as the spec has
        them, each but 409 with a line that says why. 500 where the state was damaged or cannot be kept, 503 where
        another process holds it."""
        try:
            request = parse_request(body)
        except BadNote as error:
            return _refusal(400, str(error))
        origin = request.checkpoint.origin
        keys = self._logs.get(origin)
        if keys is None:
            return _refusal(404, f"the log {shown(origin)} is not known here")
        try:
            found = verified(request.note, keys)
        except BadNote as error:
            return _refusal(403, str(error))
        if request.old > request.checkpoint.size:
            return _refusal(400, f"old {request.old} is larger than the checkpoint's size {request.checkpoint.size}")
        try:
            with self._turn, self._storage.appending():
                return self._judge(request, {(one.key.name, one.key.key_id) for one in found})
        except LogBusy as error:
            return _refusal(503, str(error))
        except LogError as error:
            log.error("%s", error)
            return _refusal(500, str(error))

    def latest(self, name: str) -> WitnessAnswer:
        """The answer to `GET <origin hash>/checkpoint`: the last cosigned checkpoint, with signatures of log and
        witness; 404 where there is none."""
        origin = self._origins.get(name)
        try:
            if origin is not None:
                with self._turn, self._storage.appending():
                    if (state := self._state(origin)) is not None:
                        return WitnessAnswer(200, self._cosigned(state).data)
        except LogBusy as error:
            return _refusal(503, str(error))
        except LogError as error:
            return _refusal(500, str(error))
        return _refusal(404, "no checkpoint of that log was cosigned here")

    def _judge(self, request: WitnessRequest, signers: set[tuple[str, bytes]]) -> WitnessAnswer:
        new = request.checkpoint
        state = self._state(new.origin)
        last = Checkpoint(new.origin, 0, EMPTY) if state is None else parse_checkpoint(state.text)
        if request.old != last.size:
            return WitnessAnswer(409, b"%d\n" % last.size, SIZE_TYPE)
        if not is_consistent(last.size, new.size, last.root, new.root, request.proof):
            log.warning("log %s: not consistent: cosigned %s; submitted %s", shown(new.origin), last.words, new.words)
            return _refusal(422, f"not consistent: cosigned here {last.words}; submitted {new.words}")
        if state is None or state.text != request.note.text:
            # Anybody may have added lines to a note; only those of known keys were verified.
            own = tuple(one for one in request.note.signatures if (one.name, one.key_id) in signers)
            state = Note(request.note.text, own)
            self._storage.put(_state_name(new.origin), state.data)
        note = self._cosigned(state, anew=True)
        return WitnessAnswer(200, note.signatures[-1].line.encode())

    def _cosigned(self, state: Note, *, anew: bool = False) -> Note:
        """The state with one cosignature of ours, the last of its lines."""
        own = self._signer.verifier
        found = [one for one in state.signatures if (one.name, one.key_id) == (own.name, own.key_id)]
        if found and not anew:
            return state
        others = tuple(one for one in state.signatures if one not in found)
        note = Note(state.text, (*others, self._signer.sign(state.text.encode(), int(self._clock()))))
        self._storage.put(_state_name(parse_checkpoint(state.text).origin), note.data)
        return note

    def _state(self, origin: str) -> Note | None:
        """The last checkpoint of a log, by its own signature or by that of the log. Raises DamagedLog."""
        name = _state_name(origin)
        data = self._storage.get(name)
        if data is None:
            return None
        try:
            note = parse_note(data)
            verified(note, [*self._logs[origin], self._signer.verifier])
            if parse_checkpoint(note.text).origin != origin:
                raise BadSignature("it is of another log")
        except BadNote as error:
            raise DamagedLog(
                f"the witness has lost what it saw of {shown(origin)} ({name}: {error}): restore the newest copy; "
                "without it nothing is cosigned"
            ) from None
        return note


def _state_name(origin: str) -> str:
    return f"{origin_hash(origin)}/checkpoint"


def _refusal(status: int, why: str) -> WitnessAnswer:
    return WitnessAnswer(status, f"{why}\n".encode("utf-8", "replace"))
