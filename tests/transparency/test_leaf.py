"""Leaves: short, canonical, and over the very roots that manifests list."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from evenkeel.errors import BadInput
from evenkeel.lake.merkle import is_included, leaf_of, root_of
from evenkeel.lake.roots_here import row_digests, row_texts
from evenkeel.lake.schemas import TABLES
from evenkeel.transparency.leaf import MOST_LEAF_BYTES, LogLeaf, TableRoot, cycle_leaf, prove_row

NOON = datetime(2026, 11, 26, 12, 0, 0, 123_456, tzinfo=UTC)
ROWS = [f'{{"cluster":"eu-1","number":{number}}}' for number in range(9)]
DIGESTS = [hashlib.sha256(row.encode()).digest() for row in ROWS]
ROOT = TableRoot(len(ROWS), root_of(sorted(DIGESTS)).hex())


def leaf_over(tables: dict[str, TableRoot]) -> LogLeaf:
    return cycle_leaf("eu-1", 7, NOON, 2, "planned", "plan-1", "ab" * 32, tables)


def test_a_leaf_is_canonical_json() -> None:
    tables = {"b": ROOT, "a": TableRoot(1, "cd" * 32)}
    entries = [b'["a",1,"%s"]' % (b"cd" * 32), b'["b",9,"%s"]' % ROOT.root.encode()]
    text = (
        b'{"attempt":2,"cluster":"eu-1","cycle_at":"2026-11-26T12:00:00.123Z","digest":"%s","kind":"cycle",'
        b'"plan_id":"plan-1","sequence":7,"status":"planned","tables":2,"tables_root":"%s","version":1}'
    )
    assert leaf_over(tables).text == text % (b"ab" * 32, root_of(entries).hex().encode())
    assert leaf_over(dict(reversed(tables.items()))).text == leaf_over(tables).text
    assert LogLeaf("upkeep", {"cluster": "ünï"}).text.isascii()


def test_a_leaf_over_all_tables_is_short_and_a_long_one_is_refused() -> None:
    every = {name: TableRoot(10**9, "ab" * 32) for name in TABLES}
    assert len(leaf_over(every).text) < MOST_LEAF_BYTES / 2
    with pytest.raises(BadInput, match="1024 are the most"):
        _ = LogLeaf("cycle", {"cluster": "x" * 1000}).text
    with pytest.raises(BadInput, match="tables: the name is reserved"):
        _ = LogLeaf("cycle", {"tables": "x"}).text


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_a_row_leads_to_its_leaf(number: int) -> None:
    tables = {"a": TableRoot(1, "00" * 32), "b": ROOT, "c": TableRoot(1, "11" * 32)}
    leaf = leaf_over(tables)
    row = prove_row(leaf, "b", ROWS[number], DIGESTS)
    entry = hashlib.sha256(ROWS[number].encode()).digest()
    assert is_included(leaf_of(entry), row.index, row.rows, row.path, bytes.fromhex(row.root))
    listed = json.dumps(["b", row.rows, row.root], separators=(",", ":")).encode()
    header = json.loads(leaf.text)
    root = bytes.fromhex(header["tables_root"])
    assert is_included(leaf_of(listed), row.place, header["tables"], row.table_path, root)


def test_rows_that_are_alike_are_proven_too() -> None:
    digests = [*DIGESTS, DIGESTS[4]]
    leaf = leaf_over({"b": TableRoot(10, root_of(sorted(digests)).hex())})
    row = prove_row(leaf, "b", ROWS[4], digests)
    assert is_included(leaf_of(DIGESTS[4]), row.index, 10, row.path, bytes.fromhex(row.root))


def test_what_is_not_under_a_leaf_is_not_proven() -> None:
    leaf = leaf_over({"b": ROOT})
    with pytest.raises(BadInput, match="covers no table 'a': it has b"):
        prove_row(leaf, "a", ROWS[0], DIGESTS)
    with pytest.raises(BadInput, match="none of the 9 rows of b"):
        prove_row(leaf, "b", "{}", DIGESTS)
    with pytest.raises(BadInput, match="8 rows of b are not the 9 under the leaf"):
        prove_row(leaf, "b", ROWS[0], DIGESTS[1:])
    with pytest.raises(BadInput, match="another root"):
        prove_row(leaf, "b", ROWS[0], [*DIGESTS[:-1], DIGESTS[0]])


def test_rows_of_a_table_have_the_root_that_manifests_list() -> None:
    """As `lake.roots_here.rooted_files` makes it: the texts that are proven are the ones that are digested."""
    states = {"cluster": ["lab"] * 3, "subject": ["a", "é", 'say "no"'], "value": [1.0, None, float("nan")]}
    rows = pa.table({**states, "cycle_at": pa.array([NOON] * 3, pa.timestamp("us", "UTC"))})
    texts, digests = row_texts("strategy_state", rows), row_digests("strategy_state", rows)
    assert [hashlib.sha256(text.encode()).digest() for text in texts] == digests
    leaf = leaf_over({"strategy_state": TableRoot(3, root_of(sorted(digests)).hex())})
    for text in texts:
        assert prove_row(leaf, "strategy_state", text, digests).row == text
        assert json.loads(text)["cycle_at"] == json.loads(leaf.text)["cycle_at"]
