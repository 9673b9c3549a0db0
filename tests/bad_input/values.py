"""What may be wrong with a value, by name: the mutations that the lists of this folder multiply their fields with.

A *kind* of bad input is an entry point, a field of it, and a mutation: one subtest, named in plain words.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import pytest


def by_place(names: Iterable[str]) -> list[Any]:
    """Names of kinds as parameters of a test: one list for each first word, which is the parameter's id."""

    def first(name: str) -> str:
        return name.split()[0]

    groups = ((place, list(found)) for place, found in groupby(sorted(names, key=first), key=first))
    return [pytest.param(found, id=place) for place, found in groups]


TIMES = {
    "word": "soon",
    "empty": "",
    "month-13": "2026-13-01",
    "june-31": "2026-06-31",
    "year-0": "0000-01-01",
    "year-10000": "10000-01-01",
    "hour-25": "2026-11-21T25:00",
    "offset-25h": "2026-11-21T08:00+25:00",
    "before-all-time": "0001-01-01T00:00+23:59",
    "after-all-time": "9999-12-31T23:59-23:59",
    "epoch": "1700000000",
    "nan": "nan",
    "range": "2026-11-20/2026-11-21",
    "long": "2" * 10_000,
    "two-lines": "2026-11-21\nx",
    "control": "\x1b[31m2026-11-21",
    "rtl": "\u202e2026-11-21",
    "surrogate": "2026-11-21\udcff",
}
"""Texts that are no time."""

NAMES = {
    "quotes": "a'b\"c",
    "path": "../../etc/passwd",
    "control": "\x1b]0;x\x07",
    "rtl": "\u202ebal",
    "long": "n" * 10_000,
    "surrogate": "lab\udcff",
    "two-lines": "lab\nlab",
    "percent": "%00%2e",
    "glob": "l*b",
    "sql": "lab' OR '1'='1",
    "blank": " ",
    "empty": "",
}
"""Names that nothing has. A lone surrogate is what Python makes of bytes on a command line that are not UTF-8."""

NO_NUMBERS = {
    "word": "many",
    "empty": "",
    "comma": "1,5",
    "hex": "0x10",
    "two": "1 2",
    "letters-behind": "5x",
    "surrogate": "5\udcff",
}
NEVER_FINITE = {"nan": "nan", "infinite": "inf", "minus-infinite": "-inf", "beyond-float": "1e400"}
TOO_SMALL = {"negative": "-1", "zero": "0"}
TOO_LONG_INTS = {"digits-400": "9" * 400, "digits-5000": "9" * 5_000}

WRONG_TOML = {
    "text": '"text"',
    "empty-text": '""',
    "integer": "7",
    "float": "7.5",
    "true": "true",
    "nan": "nan",
    "infinite": "inf",
    "negative": "-1",
    "zero": "0",
    "digits-400": "9" * 400,
    "list": "[1, 2]",
    "list-of-lists": '[["x"]]',
    "table": '{ x = "y" }',
    "date": "2026-11-21",
    "moment": "2026-11-21T08:00:00Z",
    "nul": '"a\\u0000b"',
    "name-of-10000": '"' + "n" * 10_000 + '"',
}
"""Values of TOML; which of them are wrong depends on the field."""

JSON_VALUES = {
    "null": None,
    "true": True,
    "zero": 0,
    "minus-one": -1,
    "float": 1.5,
    "digits-400": 10**400,
    "beyond-float": 1e308 * 10,
    "nan": float("nan"),
    "text": "text",
    "empty-text": "",
    "nul": "a\0b",
    "surrogate": "a\ud800b",
    "control": "\x1b[31m",
    "rtl": "\u202etxt",
    "quotes": "a'b\"c</script>",
    "path": "../../x",
    "long": "n" * 10_000,
    "list": [],
    "list-of-null": [None],
    "list-of-lists": [[[]]],
    "object": {},
    "object-of-objects": {"x": {"y": {"z": 1}}},
}
"""Values of JSON, as `json.dumps` writes them."""

BROKEN_JSON = {
    "empty": b"",
    "blank": b" \n",
    "nul": b"\0",
    "page": b"<html><body>504 Gateway Time-out</body></html>",
    "truncated": b'{"a": [1, 2',
    "trailing": b'{"a": 1} x',
    "single-quotes": b"{'a': 1}",
    "comma-at-end": b'{"a": 1,}',
    "half-a-character": b'{"a": "\xc3"}',
    "latin-1": b'{"a": "\xfc"}',
    "utf-16": '{"a": 1}'.encode("utf-16"),
    "byte-order-mark": b'\xef\xbb\xbf{"a": 1',
    "root-null": b"null",
    "root-number": b"17",
    "root-text": b'"text"',
    "root-list": b"[1]",
    "digits-5000": b'{"a": ' + b"9" * 5_000 + b"}",
    "deep": b"[" * 5_000 + b"]" * 5_000,
    "gzip-inside": b"\x1f\x8b\x08\x00",
}
"""Bytes where a document with an object at its root is due."""
