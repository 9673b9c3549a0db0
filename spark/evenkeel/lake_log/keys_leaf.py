"""The leaf that names a log's keys: which are in force from there on, and which were before.

A key is written without its name, as `<hex of the id>+<base64>`: all keys of a log bear the log's name (`origin`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evenkeel.errors import BadNote, DamagedLog
from evenkeel.lake_log.leaves import parse_leaf
from evenkeel.transparency.keys import ED25519, VerifierKey
from evenkeel.transparency.leaf import LogLeaf

KEYS_LEAF = "keys"
"""The kind of the leaf."""
_MARK = b'"kind":"keys"'


@dataclass(frozen=True, slots=True)
class KeysLeaf:
    """Verifier keys of one log: those in force from this leaf on (`keys`), and those in force until then (`before`).

    `is_lost`: no key of `before` was there to sign, and the operator has said so.
    """

    keys: tuple[VerifierKey, ...]
    before: tuple[VerifierKey, ...]
    is_lost: bool = False

    @property
    def added(self) -> tuple[VerifierKey, ...]:
        """The keys that join with this leaf."""
        return tuple(key for key in self.keys if key not in self.before)

    @property
    def retired(self) -> tuple[VerifierKey, ...]:
        """The keys that are no longer in force."""
        return tuple(key for key in self.before if key not in self.keys)

    @property
    def words(self) -> str:
        """What changes with the leaf, by the ids of the keys."""
        changes = [f"{ids_of(self.added)} joins"] if self.added else []
        changes += [f"{ids_of(self.retired)} is no longer in force"] if self.retired else []
        lost = ", which is said to be lost" if self.is_lost else ""
        return ", ".join(changes or ["no key changes"]) + lost


def ids_of(keys: Iterable[VerifierKey]) -> str:
    """Keys in a message: the ids (8 hex digits) of which each verifier key shows its own."""
    return " and ".join(key.key_id.hex() for key in keys)


def keys_leaf(leaf: KeysLeaf) -> LogLeaf:
    """The leaf as the log holds it."""
    return LogLeaf(
        KEYS_LEAF,
        {
            "origin": leaf.keys[0].name,
            "keys": _written(leaf.keys),
            "before": _written(leaf.before),
            "old_key_is_lost": int(leaf.is_lost),
        },
    )


def parse_keys_leaf(entry: bytes) -> KeysLeaf | None:
    """What a leaf of keys says; None for a leaf of another kind. Raises DamagedLog where it names no keys."""
    if _MARK not in entry:
        return None
    found = parse_leaf(entry)
    if found["kind"] != KEYS_LEAF:
        return None
    origin, lost = found.get("origin"), found.get("old_key_is_lost")
    try:
        keys, before = (_read(origin, found.get(name)) for name in ("keys", "before"))
    except BadNote as error:
        raise DamagedLog(f"a leaf of keys holds what none has: {error}") from None
    if lost not in (0, 1) or not keys:
        raise DamagedLog(f"a leaf of keys holds what none has: {entry[:200]!a}")
    return KeysLeaf(keys, before, bool(lost))


def _written(keys: Iterable[VerifierKey]) -> str:
    return " ".join(key.text.removeprefix(f"{key.name}+") for key in keys)


def _read(origin: object, text: object) -> tuple[VerifierKey, ...]:
    if not isinstance(origin, str) or not isinstance(text, str):
        raise BadNote("the name and the keys are texts")
    keys = tuple(VerifierKey.read(f"{origin}+{part}") for part in text.split())
    if any(key.kind != ED25519 for key in keys):
        raise BadNote("the key of a witness among them")
    return keys
