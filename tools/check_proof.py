"""Checks a proof that something is in a transparency log, without the software that wrote the log.

    python check_proof.py PROOF --log-key VKEY [--witness-key VKEY ...] [--at-least N]

PROOF is a file in the format c2sp.org/tlog-proof. A VKEY is a public key in the format c2sp.org/signed-note: get the
log's from its operator and a witness's from the witness, by a way that you trust. It needs Python 3.9 and the package
`cryptography`, no network, and the clock only to refuse times in the future. Exit code 0: all of it holds. 1: something
does not, and one line says what. 2: it was called wrongly.

What is computed, from the bottom up; every H is SHA-256, `||` joins bytes:

    1. row      -> table    entry = H(row); leaf = H(0x00 || entry); nodes H(0x01 || left || right) up to its root
    2. table    -> header   entry = ["table",rows,"root"]; leaf and nodes likewise, up to `tables_root` of the header
    3. header   -> log      entry = the header's text; leaf and nodes likewise, up to the root of the checkpoint
    4. checkpoint           Ed25519 of a log key over its text; its first line is the key's name
    5. witnesses            Ed25519 over "cosignature/v1", the time, and the checkpoint's text

The row, the table and the header stand in the line `extra`, which nobody has signed. They count because of 1, 2 and 3.
A proof without a row is checked from 3 on.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import sys
import time
from datetime import datetime, timedelta
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MOST_BYTES = 1024 * 1024  # of a proof; larger files are not read
MOST_SIGNATURES, MOST_HASHES = 64, 63  # of a checkpoint, and of a path: no tree is higher
LOG, WITNESS = (1, "log"), (4, "witness")  # the kinds of keys
AHEAD_SECONDS = 600  # so far may a witness's clock be ahead of this one
Signature = tuple[str, bytes, bytes]  # name, key id, body


class Wrong(Exception):
    """Something in the proof does not hold; the text says what, in one line."""


class Key:
    """A public key: `<name>+<id in hex>+<base64 of kind and public key>`."""

    def __init__(self, text: str, kind: tuple[int, str]) -> None:
        try:
            self.name, key_id, encoded = text.strip().split("+", 2)
            body = decoded(encoded)
            self.public = body[1:]
            self.id = hashlib.sha256(self.name.encode() + b"\n" + body).digest()[:4]
            if not is_name(self.name) or body[0] != kind[0] or len(self.public) != 32 or self.id.hex() != key_id:
                raise ValueError
        except (ValueError, IndexError):
            raise Wrong(f"{shown(text.partition('+')[0])}... is not the whole Ed25519 key of a {kind[1]}") from None

    def verify(self, signature: bytes, message: bytes) -> None:
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise Wrong(f"the signature by {self} is not right: the checkpoint or the signature was changed") from None

    def __str__(self) -> str:
        return f"{shown(self.name)} (key {self.id.hex()})"


# Reading: exact, so that a text can be read in one way only.


def shown(text: str) -> str:
    """A text from the file for the screen: quoted, everything outside ASCII escaped, cut if it is long."""
    return ascii(text if len(text) <= 100 else text[:100] + "...")


def decoded(text: str) -> bytes:
    """The bytes of a base64 text; ValueError if it is not the one text of these bytes."""
    data = base64.b64decode(text.encode("ascii"), validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError
    return data


def a_hash(text: str) -> bytes:
    try:
        data = decoded(text)
    except (ValueError, AttributeError):
        data = b""
    if len(data) != 32:
        raise Wrong(f"{shown(str(text))} is not the base64 of a hash")
    return data


def a_number(text: str, what: str) -> int:
    if not re.fullmatch("0|[1-9][0-9]{0,17}", text):
        raise Wrong(f"{what} is not a number: {shown(text)}")
    return int(text)


def is_name(name: str) -> bool:
    return name != "" and "+" not in name and all(sign >= " " and not sign.isspace() for sign in name)


def an_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object, in which no name stands twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Wrong(f"the {what} is not a JSON object, or has a name twice")
    return found


def a_member(found: dict[str, Any], name: str, kind: type, what: str) -> Any:
    value = found.get(name)
    if type(value) is not kind:
        raise Wrong(f"the {what} lacks {name}, or it is of the wrong type")
    return value


def root_by(entry: bytes, index: int, size: int, path: list[bytes], what: str) -> bytes:
    """The root to which the path leads from the entry at `index` of `size` (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        raise Wrong(f"{what}: there is no place {index} among {size}")
    number, last, reached = index, size - 1, hashlib.sha256(b"\x00" + entry).digest()
    for beside in path:
        if last == 0:
            raise Wrong(f"{what}: the path is too long")
        if number % 2 == 1 or number == last:
            reached = hashlib.sha256(b"\x01" + beside + reached).digest()
            while number % 2 == 0 and number != 0:
                number, last = number >> 1, last >> 1
        else:
            reached = hashlib.sha256(b"\x01" + reached + beside).digest()
        number, last = number >> 1, last >> 1
    if last != 0:
        raise Wrong(f"{what}: the path is too short")
    return reached


def parts_of(data: bytes) -> tuple[str, int, list[bytes], str]:
    """extra, index, path and checkpoint of a proof (c2sp.org/tlog-proof)."""
    if len(data) > MOST_BYTES:
        raise Wrong(f"the file is larger than a proof: more than {MOST_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if any(sign < " " and sign != "\n" for sign in text):
        raise Wrong("the file is not UTF-8, or holds a control character")
    head, _, checkpoint = text.partition("\n\n")
    first, *lines = head.split("\n")
    if first != "c2sp.org/tlog-proof@v1":
        raise Wrong("the first line is not c2sp.org/tlog-proof@v1")
    if not 2 <= len(lines) <= 2 + MOST_HASHES or lines[0][:6] != "extra " or lines[1][:6] != "index ":
        raise Wrong("the second line is not `extra ...`, or the third not `index ...`, or the path is too long")
    try:
        extra = decoded(lines[0][6:]).decode("utf-8")
    except ValueError:
        raise Wrong("extra is not base64 of a text") from None
    return extra, a_number(lines[1][6:], "index"), [a_hash(line) for line in lines[2:]], checkpoint


def signatures_of(checkpoint: str) -> tuple[str, list[Signature]]:
    """The checkpoint's signed text, and (name, id, signature) of each line below it (c2sp.org/signed-note)."""
    before, _, below = checkpoint.rpartition("\n\n")
    text, lines = before + "\n", below.split("\n")
    if not before or lines.pop() != "" or not 1 <= len(lines) <= MOST_SIGNATURES:
        raise Wrong(f"the checkpoint is not a text, an empty line and 1 to {MOST_SIGNATURES} signatures")
    found = []
    for line in lines:
        try:
            dash, name, encoded = line.split(" ")
            body = decoded(encoded)
            if dash != "\u2014" or not is_name(name) or len(body) < 5:
                raise ValueError
        except ValueError:
            raise Wrong(f"a line below the checkpoint is not a signature: {shown(line)}") from None
        found.append((name, body[:4], body[4:]))
    return text, found


def checked_signatures(
    text: str, signatures: list[Signature], log_keys: list[Key], witness_keys: list[Key]
) -> tuple[list[Key], dict[Key, int]]:
    """The log's keys that signed, and the time of each witness that cosigned; a known signature has to be right."""
    signed: list[Key] = []
    cosigned: dict[Key, int] = {}
    for name, key_id, body in signatures:
        for key in log_keys:
            if (name, key_id) == (key.name, key.id):
                key.verify(body, text.encode())
                signed.append(key)
        for key in witness_keys:
            if (name, key_id) == (key.name, key.id):
                at = int.from_bytes(body[:8], "big")
                key.verify(body[8:], b"cosignature/v1\ntime %d\n" % at + text.encode())
                if at > time.time() + AHEAD_SECONDS:
                    raise Wrong(f"the cosignature by {key} is of a time in the future: {at} s after 1970")
                cosigned[key] = min(at, cosigned.get(key, at))
    if not signed:
        raise Wrong(f"no signature by {' or '.join(map(str, log_keys))} is there: nobody whom you named vouches for it")
    return list(dict.fromkeys(signed)), cosigned


def checked_row(extra: dict[str, Any], header: dict[str, Any]) -> list[str]:
    """Lines about the row that the proof is of, after steps 1 and 2; none if it is of the header alone."""
    if "row" not in extra and "table" not in extra:
        return []
    table, row = a_member(extra, "table", dict, "extra"), a_member(extra, "row", dict, "extra")
    text, name = a_member(row, "text", str, "row"), a_member(table, "name", str, "table")
    rows, index = a_member(table, "rows", int, "table"), a_member(row, "index", int, "row")
    path = [a_hash(one) for one in a_member(row, "path", list, "row")]
    entry = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    root = root_by(entry, index, rows, path, "from the row to its table").hex()
    if root != table.get("root"):
        raise Wrong(f"the row is not in the table {shown(name)}: its path does not lead to the table's root")
    listed = json.dumps([name, rows, root], separators=(",", ":")).encode()
    path = [a_hash(one) for one in a_member(table, "path", list, "table")]
    place, tables = a_member(table, "index", int, "table"), a_member(header, "tables", int, "header")
    if root_by(listed, place, tables, path, "from the table to the header").hex() != header.get("tables_root"):
        raise Wrong(f"the table {shown(name)} is not in the header: its path does not lead to `tables_root`")
    for column, value in an_object(text, "row").items():
        if column in ("cluster", "cycle_at") and column in header and header[column] != value:
            raise Wrong(f"the row is of another {column} than the header")
    return [f"The row {index} of {rows} of the table {shown(name)}:", f"    {text}", "is covered by"]


def check(data: bytes, log_keys: list[Key], witness_keys: list[Key], at_least: int) -> list[str]:
    """What the proof proves, in lines for the screen. Raises Wrong."""
    extra_text, index, path, checkpoint = parts_of(data)
    text, signatures = signatures_of(checkpoint)
    signed, cosigned = checked_signatures(text, signatures, log_keys, witness_keys)
    lines = text.split("\n")[:-1]
    if len(lines) < 3 or not all(lines) or lines[0] != log_keys[0].name:
        raise Wrong(f"the checkpoint is not one of the log {shown(log_keys[0].name)}: it begins with {shown(lines[0])}")
    origin, size_text, root = lines[:3]
    size, extra = a_number(size_text, "the size"), an_object(extra_text, "extra")
    header = an_object(a_member(extra, "header", str, "extra"), "header")
    if any(type(value) not in (str, int) for value in header.values()):
        raise Wrong("the header holds more than texts and numbers")
    entry = extra["header"].encode("utf-8", "surrogatepass")
    if root_by(entry, index, size, path, "from the header to the log") != a_hash(root):
        raise Wrong("the header is not in the log: its path does not lead to the root of the signed checkpoint")
    if len(cosigned) < at_least:
        raise Wrong(f"{len(cosigned)} of the witnesses that you named have cosigned, and {at_least} are asked for")
    lines = ["PROVEN.", *checked_row(extra, header), f"The leaf {index} of the log {shown(origin)}:"]
    lines += [f"    {name}: {json.dumps(value)}" for name, value in sorted(header.items())]
    lines += [f"It is in the log at {size} leaves, root {root},", *(f"    signed by {key}" for key in signed)]
    for key, at in cosigned.items():
        lines.append(f"    cosigned by the witness {key}, who saw it at {datetime(1970, 1, 1) + timedelta(0, at)} UTC")
    if not cosigned:
        lines.append("No witness vouches for it: that all see one log, and since when, is the log's word alone.")
    # Nothing but plain ASCII goes to the screen; other signs are shown by their number.
    return [re.sub("[^ -~]", lambda sign: f"\\u{ord(sign[0]):04x}", line) for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks a proof from a transparency log (c2sp.org/tlog-proof).")
    parser.add_argument("proof", metavar="PROOF")
    parser.add_argument("--log-key", action="append", required=True, metavar="VKEY", help="several after a rotation")
    parser.add_argument("--witness-key", action="append", default=[], metavar="VKEY")
    parser.add_argument("--at-least", type=int, metavar="N", help="how many must have cosigned; default: all named")
    given = parser.parse_args()
    try:
        log_keys = [Key(text, LOG) for text in given.log_key]
        witness_keys = [Key(text, WITNESS) for text in given.witness_key]
        publics = [key.public for key in log_keys + witness_keys]
        if len({key.name for key in log_keys}) > 1 or len(set(publics)) < len(publics):
            raise Wrong("the log's keys must bear one name, and no public key may be given twice: it counts once")
        at_least = len(witness_keys) if given.at_least is None else given.at_least
        if not 0 <= at_least <= len(witness_keys):
            raise Wrong(f"--at-least {at_least}: {len(witness_keys)} witness keys are given")
        with open(given.proof, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (Wrong, OSError, ValueError) as error:
        parser.error(str(error))
    try:
        print("\n".join(check(data, log_keys, witness_keys, at_least)))
    except Wrong as error:
        print(f"NOT PROVEN: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
