"""Leaves: one form for each, read back as they were made, and nothing else is a leaf."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from evenkeel.errors import DamagedLog
from evenkeel.handover import Commit, DataFile
from evenkeel.transparency.keys import SignerKey
from evenkeel.transparency.leaves import BegunLeaf, CommitLeaf, KeysLeaf, parse_leaf
from tests.transparency.logs import LOG_KEY, OTHER_KEY, WITNESS_KEY

FILES = (DataFile("cluster=é/b.parquet", 7, "cd" * 32), DataFile("a.parquet", 5, "ab" * 32))
LEAF = CommitLeaf.of(Commit("cycles", 12, "ef" * 32, FILES), datetime(2026, 11, 26, 12, tzinfo=UTC))
KEYS = KeysLeaf((OTHER_KEY.verifier,), (LOG_KEY.verifier,))
BEGUN = BegunLeaf({"cycles": 3, "approvals": 1}, "2026-11-26T12:00:00.000Z")


def test_a_leaf_of_a_commit_has_one_form() -> None:
    listed = b'[["a.parquet",5,"%s"],["cluster=\\u00e9/b.parquet",7,"%s"]]' % (b"ab" * 32, b"cd" * 32)
    assert json.loads(LEAF.text) == {
        "at": "2026-11-26T12:00:00.000Z",
        "commit": 12,
        "digest": "ef" * 32,
        "files": 2,
        "files_digest": hashlib.sha256(listed).hexdigest(),
        "kind": "commit",
        "table": "cycles",
        "version": 1,
    }
    assert LEAF.text == json.dumps(json.loads(LEAF.text), sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "leaf", [LEAF, replace(LEAF, by="alice"), KEYS, replace(KEYS, is_lost=True), BEGUN, BegunLeaf({}, BEGUN.at)]
)
def test_a_leaf_is_read_back(leaf: CommitLeaf | KeysLeaf | BegunLeaf) -> None:
    assert parse_leaf(leaf.text) == leaf


def test_a_leaf_of_keys_says_what_changes() -> None:
    names = [SignerKey("n" * 255, bytes([number] * 32)).verifier for number in range(4)]
    leaf = KeysLeaf((names[0], names[1]), (names[1], names[2]), is_lost=True)
    assert parse_leaf(leaf.text) == leaf
    assert (leaf.added, leaf.retired) == ((names[0],), (names[2],))
    joins, gone = names[0].key_id.hex(), names[2].key_id.hex()
    assert leaf.words == f"{joins} joins, {gone} is no longer in force, which is said to be lost"


@pytest.mark.parametrize(
    ("leaf", "old", "new"),
    [
        (LEAF, b'"commit":12', b'"commit":-1'),
        (LEAF, b'"commit":12', b'"commit":true'),
        (LEAF, b'"commit":12', b'"commit":1.5'),
        (LEAF, b'"files":2', b'"files":"2"'),
        (LEAF, b'"digest":"efef', b'"digest":"xfef'),
        (LEAF, b'"digest":"efef', b'"digest":"ef'),
        (LEAF, b'"table":"cycles"', b'"table":7'),
        (LEAF, b'"table":"cycles"', b'"tables":"cycles"'),
        (LEAF, b'"at":"2026', b'"at":"later'),
        (LEAF, b'"kind":"commit"', b'"kind":"comitt"'),
        (LEAF, b'"version":1', b'"version":2'),
        (LEAF, b'"version":1', b'"version":1,"more":1'),
        (LEAF, LEAF.text, b"[" * 60_000),
        (LEAF, LEAF.text, b"\xff"),
        (LEAF, LEAF.text, b"[]"),
        (BEGUN, b'"cycles":3', b'"cycles":-3'),
        (BEGUN, b'{"approvals":1,"cycles":3}', b"7"),
        (KEYS, b'"keys":"', b'"keys":"x '),
        (KEYS, b'"old_key_is_lost":0', b'"old_key_is_lost":7'),
        (KEYS, b'"origin":"example.com/evenkeel"', b'"origin":7'),
        (KEYS, b'"origin":"example.com/evenkeel"', b'"origin":"example.com/other"'),
        (KEYS, OTHER_KEY.verifier.bare.encode(), WITNESS_KEY.verifier.bare.encode()),
    ],
)
def test_what_is_no_leaf_is_refused(leaf: CommitLeaf | KeysLeaf | BegunLeaf, old: bytes, new: bytes) -> None:
    assert old in leaf.text
    with pytest.raises(DamagedLog, match="is not a leaf that this version knows"):
        parse_leaf(leaf.text.replace(old, new))
