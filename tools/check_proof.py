"""Checks a proof that a data file is in a transparency log, without the software that wrote the log.

    python check_proof.py PROOF [FILE] --log-key VKEY [--witness-key VKEY ...] [--at-least N] [--where COLUMN=VALUE ...]

PROOF is a file in the format c2sp.org/tlog-proof, FILE the Parquet file that it is about. A VKEY is a public key in the
format c2sp.org/signed-note: get the log's from its operator and a witness's from the witness, by a way that you trust.
It needs Python 3.9 and the package `cryptography`, no network, and the clock only to refuse times in the future. With
the package `pyarrow`, --where prints the rows of FILE that have these values, once all is proven. Exit code 0: all of
it holds. 1: something does not, and one line says what. 2: it was called wrongly.

What is computed, from the bottom up; every H is SHA-256, `||` joins bytes:

    1. FILE     -> list     its size and H(FILE) stand in the list of files, with its path
    2. list     -> leaf     H(list) is `files_digest` of the leaf; list = [["path",size,"sha256 in hex"],...] by path
    3. leaf     -> log      entry = the leaf's text; H(0x00 || entry), nodes H(0x01 || left || right) up to the root
    4. checkpoint           Ed25519 of a log key over its text; its first line is the key's name
    5. witnesses            Ed25519 over "cosignature/v1", the time, and the checkpoint's text

The list and the leaf stand in the line `extra`, which nobody has signed. They count because of 2 and 3. Without FILE, 1
is left out: then only the list is proven.
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

MOST_BYTES = 8 * 1024 * 1024  # of a proof; larger files are not read
MOST_SIGNATURES, MOST_HASHES = 64, 63  # of a checkpoint, and of a path: no tree is higher
LOG, WITNESS = (1, "log"), (4, "witness")  # the kinds of keys
MOST_ROWS = 100  # that are printed
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


def checked_file(extra: dict[str, Any], leaf: dict[str, Any], file: str | None) -> list[str]:
    """Lines about the file that the proof is of, after steps 1 and 2."""
    listed, path = a_member(extra, "files", list, "extra"), a_member(extra, "file", str, "extra")
    text = json.dumps(listed, separators=(",", ":")).encode("ascii")
    if len(listed) != leaf.get("files") or hashlib.sha256(text).hexdigest() != leaf.get("files_digest"):
        raise Wrong("the list of files is not that of the leaf: its SHA-256 is not `files_digest`")
    named = [one for one in listed if isinstance(one, list) and len(one) == 3 and one[0] == path]
    if len(named) != 1:
        raise Wrong(f"the list has not one file {shown(path)}")
    _, size, digest = named[0]
    lines = [f"    {path[:1000]!a}", f"    {size} bytes, SHA-256 {digest}"]
    if file is None:
        return ["The file below, which was not given: whoever shows it to you, this has to be its SHA-256:", *lines]
    own, length = hashlib.sha256(), 0
    with open(file, "rb") as opened:
        for part in iter(lambda: opened.read(1 << 20), b""):
            own.update(part)
            length += len(part)
    if (length, own.hexdigest()) != (size, digest):
        raise Wrong(f"{shown(file)} is not the file of the list: {length} bytes, SHA-256 {own.hexdigest()}")
    return [f"{shown(file)} is byte for byte the file", *lines]


def rows_in(file: str, where: list[str]) -> list[str]:
    """The rows of a Parquet file that have the values of all conditions `column=value`, as JSON. Raises ImportError."""
    import pyarrow.parquet as parquet

    table = parquet.ParquetFile(file).read()
    for condition in where:
        column, _, value = condition.partition("=")
        if column not in table.column_names:
            raise Wrong(f"the file has no column {shown(column)}: it has {', '.join(sorted(table.column_names))}")
        kept = [str(one) == value for one in table.column(column).to_pylist()]
        table = table.filter(kept)
    rows = [json.dumps(row, default=str, sort_keys=True) for row in table.slice(0, MOST_ROWS).to_pylist()]
    more = table.num_rows - len(rows)
    head = f"{table.num_rows} of its rows have these values:"
    return [head, *(f"    {row}" for row in rows), *([f"    and {more} more"] if more else [])]


def check(data: bytes, file: str | None, log_keys: list[Key], witness_keys: list[Key], at_least: int) -> list[str]:
    """What the proof proves, in lines for the screen. Raises Wrong."""
    extra_text, index, path, checkpoint = parts_of(data)
    text, signatures = signatures_of(checkpoint)
    signed, cosigned = checked_signatures(text, signatures, log_keys, witness_keys)
    lines = text.split("\n")[:-1]
    if len(lines) < 3 or not all(lines) or lines[0] != log_keys[0].name:
        raise Wrong(f"the checkpoint is not one of the log {shown(log_keys[0].name)}: it begins with {shown(lines[0])}")
    origin, size_text, root = lines[:3]
    size, extra = a_number(size_text, "the size"), an_object(extra_text, "extra")
    leaf = an_object(a_member(extra, "leaf", str, "extra"), "leaf")
    if leaf.get("kind") != "commit" or any(type(value) not in (str, int) for value in leaf.values()):
        raise Wrong("the leaf is not one of a commit, or holds more than texts and numbers")
    entry = extra["leaf"].encode("utf-8", "surrogatepass")
    if root_by(entry, index, size, path, "from the leaf to the log") != a_hash(root):
        raise Wrong("the leaf is not in the log: its path does not lead to the root of the signed checkpoint")
    if len(cosigned) < at_least:
        raise Wrong(f"{len(cosigned)} of the witnesses that you named have cosigned, and {at_least} are asked for")
    lines = ["PROVEN.", *checked_file(extra, leaf, file)]
    lines.append(f"It was added by the commit in leaf {index} of the log {shown(origin)}:")
    lines += [f"    {name}: {json.dumps(value)}" for name, value in sorted(leaf.items())]
    lines += [f"The leaf is in the log at {size} leaves, root {root},", *(f"    signed by {key}" for key in signed)]
    for key, at in cosigned.items():
        lines.append(f"    cosigned by the witness {key}, who saw it at {datetime(1970, 1, 1) + timedelta(0, at)} UTC")
    if not cosigned:
        lines.append("No witness vouches for it: that all see one log, and since when, is the log's word alone.")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks a proof from a transparency log (c2sp.org/tlog-proof).")
    parser.add_argument("proof", metavar="PROOF")
    parser.add_argument("file", metavar="FILE", nargs="?", help="the data file that the proof is of")
    parser.add_argument("--log-key", action="append", required=True, metavar="VKEY", help="several after a rotation")
    parser.add_argument("--witness-key", action="append", default=[], metavar="VKEY")
    parser.add_argument("--at-least", type=int, metavar="N", help="how many must have cosigned; default: all named")
    parser.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE", help="rows to print (pyarrow)")
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
        if given.where and given.file is None:
            raise Wrong("--where looks into FILE, and none is given")
        with open(given.proof, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (Wrong, OSError, ValueError) as error:
        parser.error(str(error))
    try:
        lines = check(data, given.file, log_keys, witness_keys, at_least)
        if given.where:
            try:
                lines += rows_in(given.file, given.where)
            except ImportError:
                lines.append("Its rows are not printed: that needs the package pyarrow.")
    except (Wrong, OSError) as error:
        print(f"NOT PROVEN: {on_screen(str(error))}")
        return 1
    print("\n".join(map(on_screen, lines)))
    return 0


def on_screen(line: str) -> str:
    """A line in plain ASCII; other signs are shown by their number."""
    return re.sub("[^ -~]", lambda sign: f"\\u{ord(sign[0]):04x}", line)


if __name__ == "__main__":
    sys.exit(main())
