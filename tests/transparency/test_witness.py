"""A witness: what it answers, what it remembers, and that it never signs two pasts of one log."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

from evenkeel.errors import BadInput, BadNote, LogError
from evenkeel.lake.merkle import EMPTY
from evenkeel.transparency.checkpoint import Checkpoint, SignedCheckpoint, open_checkpoint
from evenkeel.transparency.keys import ED25519, SignerKey, VerifierKey, base64_text
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.notes import MOST_SIGNATURES, Note, signed_note
from evenkeel.transparency.storage import FolderStorage
from evenkeel.transparency.witness import MOST_REQUEST_BYTES, Witness, WitnessAnswer, origin_hash, parse_request
from tests.transparency.logs import (
    LOG_KEY,
    NOON,
    ORIGIN,
    OTHER_KEY,
    WITNESS_KEY,
    KilledWriter,
    MemoryStorage,
    entries_of,
    log_of,
)

STATE = f"{origin_hash(ORIGIN)}/checkpoint"
# The log of FiloSottile/torchwood, cmd/litewitness/testdata/litewitness.txt (commit 341dc2f, ISC licence).
SIGSUM = "sigsum.org/v1/tree/4d6d8825a6bb689d459628312889dfbb0bcd41b5211d9e1ce768b0ff0309e562"
SIGSUM_KEY = VerifierKey(
    SIGSUM, ED25519, bytes.fromhex("ffdc2d4d98e4124d3feaf788c0c2f9abfd796083d1f0495437f302ec79cf100f")
)


def witness_of(storage: MemoryStorage | FolderStorage, keys: tuple[VerifierKey, ...] = (LOG_KEY.verifier,)) -> Witness:
    return Witness(WITNESS_KEY, {ORIGIN: keys}, storage, clock=lambda: NOON)


def body_of(old: int, proof: list[bytes], note: Note) -> bytes:
    lines = [f"old {old}", *map(base64_text, proof)]
    return "".join(f"{line}\n" for line in lines).encode() + b"\n" + note.data


def submitted(witness: Witness, log: TransparencyLog, old: int, proof: list[bytes] | None = None) -> WitnessAnswer:
    given = log.tree().consistency(old) if proof is None else proof
    return witness.add_checkpoint(body_of(old, given, log.checkpoint().note))


def cosigned(answer: WitnessAnswer, log: TransparencyLog) -> SignedCheckpoint:
    assert answer.status == 200, answer.body
    whole = log.checkpoint().note.data + answer.body
    return open_checkpoint(whole, ORIGIN, log.log_keys, [WITNESS_KEY.verifier])


def test_the_requests_of_another_witness_are_answered_as_there() -> None:
    """An unknown log (404 by today's spec) and a signature in base64 with bits over (malformed here) are 403 there."""
    differs = {"unknown log": 404, "invalid signature": 400}
    witness = Witness(WITNESS_KEY, {SIGSUM: [SIGSUM_KEY]}, MemoryStorage())
    text = gzip.decompress((Path(__file__).resolve().parent / "litewitness.jsonl.gz").read_bytes())
    statuses = []
    for case in map(json.loads, text.splitlines()):
        answer = witness.add_checkpoint(case["body"].encode())
        (expected,) = [differs[one] for one in differs if one in case["asserts"]] or [case["status"]]
        assert answer.status == expected, case
        if "body ==" in case["asserts"]:
            assert answer.body == json.loads(case["asserts"].rpartition(" == ")[2]).encode()
            assert answer.content_type == "text/x.tlog.size"
        statuses.append(answer.status)
    assert statuses == [200, 400, 404, 422, 422, 200, 409, 200, 409]


def test_a_log_is_cosigned_as_it_grows() -> None:
    witness, log, old = witness_of(MemoryStorage()), log_of([]), 0
    for more in (0, 1, 1, 300, 5):
        log.append(entries_of(more, old))
        found = cosigned(submitted(witness, log, old), log)
        assert found.cosigned == {WITNESS_KEY.verifier: NOON}
        old = found.checkpoint.size
        assert cosigned(submitted(witness, log, old), log) == found  # once more, of the same size
        latest = witness.latest(origin_hash(ORIGIN))
        assert open_checkpoint(latest.body, ORIGIN, log.log_keys, [WITNESS_KEY.verifier]) == found


@pytest.mark.parametrize("second", [1, 4, 5, 6, 300])
def test_a_split_view_is_not_cosigned_and_changes_nothing(second: int) -> None:
    storage = MemoryStorage()
    witness, log, other = witness_of(storage), log_of(entries_of(5)), log_of(entries_of(second, 1000))
    cosigned(submitted(witness, log, 0), log)
    before = dict(storage.files)
    assert submitted(witness, other, 0, []).status == 409
    if second >= 5:
        refused = submitted(witness, other, 5)
        assert refused.status == 422
        for one in (log, other):
            assert one.checkpoint().checkpoint.words.encode() in refused.body
    else:
        assert submitted(witness, other, second, []).status == 409
    assert storage.files == before


def test_statuses_are_those_of_the_spec() -> None:
    storage = MemoryStorage()
    witness, log = witness_of(storage), log_of(entries_of(5))
    note, proof = log.checkpoint().note, log.tree().consistency(3)
    foreign = signed_note(Checkpoint("example.com/other", 1, bytes(32)).text, [LOG_KEY], NOON)
    stranger = signed_note(note.text, [OTHER_KEY], NOON)
    changed = Note(note.text.replace("\n5\n", "\n6\n"), note.signatures)
    empty = signed_note(Checkpoint(ORIGIN, 0, bytes(32)).text, [LOG_KEY], NOON)

    def status(old: int, proof: list[bytes], note: Note) -> int:
        return witness.add_checkpoint(body_of(old, proof, note)).status

    assert status(0, [], foreign) == 404
    assert status(0, [], stranger) == 403
    assert status(0, [], changed) == 403
    assert status(6, [], note) == 400
    assert status(3, proof, note) == 409  # nothing was seen yet
    assert status(0, proof, note) == 422  # a proof from the empty tree
    assert status(0, [], empty) == 422  # a root that is not the empty tree's
    assert storage.files == {}
    assert witness.latest(origin_hash(ORIGIN)).status == 404
    assert status(0, [], note) == 200
    assert status(5, [EMPTY], note) == 422
    log.append([b"more"])
    later, proof = log.checkpoint().note, log.tree().consistency(5)
    assert status(5, proof[:-1], later) == 422
    assert status(5, [*proof, EMPTY], later) == 422
    assert status(0, [], later) == 409
    assert witness.add_checkpoint(body_of(4, [], later)).body == b"5\n"
    assert status(5, proof, later) == 200
    assert witness.latest(origin_hash("example.com/other")).status == 404
    assert witness.latest("../state").status == 404


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n\n",
        b"old 0\n",
        b"old\n\nNOTE",
        b"old 00\n\nNOTE",
        b"old -1\n\nNOTE",
        b"old 9223372036854775808\n\nNOTE",
        b"old 0 \n\nNOTE",
        b"old 0\r\n\nNOTE",
        b"OLD 0\n\nNOTE",
        b"old 0\nAAAA\n\nNOTE",
        b"old 0\n" + base64.b64encode(bytes(32)) * 2 + b"\n\nNOTE",
        b"old 0\n" + (base64.b64encode(bytes(32)) + b"\n") * 64 + b"\nNOTE",
        b"old 0\n\xff\n\nNOTE",
        b"old 0\n\n\nNOTE",
        b"old 0\n\ntext",
        b"old 0\n\n" + b"x" * MOST_REQUEST_BYTES,
        b"\n" * MOST_REQUEST_BYTES,
    ],
)
def test_a_malformed_request_is_answered_with_400(body: bytes) -> None:
    storage, log = MemoryStorage(), log_of(entries_of(2))
    answer = witness_of(storage).add_checkpoint(body.replace(b"NOTE", log.checkpoint().note.data))
    assert answer.status == 400
    assert answer.body.count(b"\n") == 1
    assert storage.files == {}
    with pytest.raises(BadNote):
        parse_request(body.replace(b"NOTE", log.checkpoint().note.data))


def test_lines_that_a_stranger_adds_to_a_checkpoint_are_not_kept() -> None:
    storage, log = MemoryStorage(), log_of(entries_of(2))
    keys = [SignerKey.make(f"stranger.example/{number}") for number in range(MOST_SIGNATURES - 1)]
    note = log.checkpoint().note
    full = note.with_signatures(key.sign(note.text.encode(), NOON) for key in keys)
    witness = witness_of(storage)
    assert witness.add_checkpoint(body_of(0, [], full)).status == 200
    assert storage.files[STATE].count("— ".encode()) == 2
    cosigned(submitted(witness, log, 2), log)


def test_killed_at_any_write_a_witness_has_signed_nothing_that_it_does_not_remember() -> None:
    log = log_of(entries_of(5))
    first = MemoryStorage()
    cosigned(submitted(witness_of(first), log, 0), log)
    log.append([b"more"])
    other = log_of([*entries_of(5), b"another"])
    for dies_at in (0, 1):
        storage = MemoryStorage(dict(first.files), dies_at)
        with pytest.raises(KilledWriter):
            submitted(witness_of(storage), log, 5)
        storage.dies_at = None
        again = witness_of(storage)
        if dies_at == 0:  # nothing was signed: either tree may come now, and then no other
            assert submitted(again, other, 5).status == 200
            assert submitted(again, log, 5).status == 409
        else:  # the state lasts, though no cosignature was given
            assert submitted(again, other, 6, []).status == 422
            assert open_checkpoint(again.latest(origin_hash(ORIGIN)).body, ORIGIN, log.log_keys).checkpoint.size == 6
            cosigned(submitted(again, log, 6), log)


@pytest.mark.parametrize("data", [b"", b"{}", "cut", "another log", "a stranger"])
def test_a_state_that_was_damaged_cosigns_nothing(data: bytes | str) -> None:
    storage, log = MemoryStorage(), log_of(entries_of(5))
    cosigned(submitted(witness_of(storage), log, 0), log)
    made = {
        "cut": storage.files[STATE][:-20],
        "another log": signed_note(Checkpoint("o", 1, bytes(32)).text, [LOG_KEY], NOON).data,
        "a stranger": signed_note(Checkpoint(ORIGIN, 1, bytes(32)).text, [OTHER_KEY], NOON).data,
    }
    storage.files[STATE] = data if isinstance(data, bytes) else made[data]
    before = dict(storage.files)
    for old in (0, 5):
        answer = submitted(witness_of(storage), log, old)
        assert answer.status == 500
        assert b"restore the newest copy" in answer.body
    assert witness_of(storage).latest(origin_hash(ORIGIN)).status == 500
    assert storage.files == before


def test_a_log_rotates_its_key_at_a_witness() -> None:
    storage, log = MemoryStorage(), log_of(entries_of(5))
    cosigned(submitted(witness_of(storage), log, 0), log)
    renewed = signed_note(log.checkpoint().note.text, [OTHER_KEY], NOON)
    new = witness_of(storage, (OTHER_KEY.verifier,))  # the state is known by the witness's own signature
    assert new.add_checkpoint(body_of(5, [], renewed)).status == 200
    assert new.add_checkpoint(body_of(5, [], log.checkpoint().note)).status == 403


def test_a_state_that_another_process_holds_is_answered_with_503(tmp_path: Path) -> None:
    log = log_of(entries_of(2))
    witness = witness_of(FolderStorage(tmp_path, wait_seconds=0))
    with FolderStorage(tmp_path).appending():
        assert submitted(witness, log, 0).status == 503
        assert witness.latest(origin_hash(ORIGIN)).status == 503
    assert submitted(witness, log, 0).status == 200


def test_a_state_that_cannot_be_kept_is_not_signed() -> None:
    class _Full(MemoryStorage):
        def put(self, name: str, data: bytes) -> None:
            raise LogError(f"{name} cannot be written: No space left on device")

    answer = submitted(witness_of(_Full()), log_of(entries_of(2)), 0)
    assert (answer.status, answer.body) == (500, f"{STATE} cannot be written: No space left on device\n".encode())


def test_keys_of_the_wrong_kind_make_no_witness() -> None:
    with pytest.raises(BadInput, match="does not make cosignatures"):
        Witness(LOG_KEY, {}, MemoryStorage())
    for key in (WITNESS_KEY.verifier, VerifierKey(ORIGIN, ED25519, WITNESS_KEY.verifier.public)):
        with pytest.raises(BadInput, match="its own key is none of them"):
            Witness(WITNESS_KEY, {ORIGIN: [key]}, MemoryStorage())
