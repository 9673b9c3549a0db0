"""Merkle roots of rows: what Spark makes of them, and what a manifest is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evenkeel.errors import LakeError
from evenkeel.lake import roots, table_roots
from evenkeel.lake.digest import ROW_DIGEST, contents, with_row_digest
from evenkeel.lake.merkle import root_of
from evenkeel.lake.roots import rooted
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.store import Lake
from tests.lake.states import handover, states

pytestmark = pytest.mark.spark
STATE = "strategy_state"


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = Lake(str(tmp_path_factory.mktemp("roots")))
    made.ensure_tables(spark, [STATE, "rejected"])
    return made


def in_python(frame: Any) -> str:
    """The root over the sorted digests of rows, by the definition."""
    found = with_row_digest(frame, STATE, SCHEMA_VERSION).select(ROW_DIGEST).collect()
    return root_of(sorted(bytes.fromhex(row[ROW_DIGEST]) for row in found)).hex()


@pytest.mark.parametrize("part", [4, roots.PART])
def test_spark_comes_to_the_root_of_the_sorted_digests_whatever_the_number_of_rows(
    spark: Any, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(roots, "PART", part)
    sizes = (1, 2, 3, 4, 5, 8, 9, 13, 64) if part == 4 else (7, part + 1)
    rows = [(f"of {size}", f"b{n}", n / 7) for size in sizes for n in range(size)]
    frame = states(spark, *rows).repartition(3)
    found = rooted(frame, STATE, SCHEMA_VERSION, ("cluster",))
    sums = contents(frame, STATE, SCHEMA_VERSION, ("cluster",))
    assert {key: one[:2] for key, one in found.items()} == sums
    for size in sizes:
        assert found[(f"of {size}",)][2] == in_python(frame.where(f"cluster = 'of {size}'")), size


def test_rows_that_are_alike_are_leaves_of_their_own(spark: Any) -> None:
    once, twice = (states(spark, *[("lab", "b", 1.0)] * number) for number in (1, 2))
    ((_, _, one), (rows, _, two)) = (rooted(f, STATE, SCHEMA_VERSION, ("cluster",))[("lab",)] for f in (once, twice))
    assert (rows, two) == (2, in_python(twice))
    assert one != two


@pytest.mark.parametrize(
    ("few", "here"),
    [(0, 0), (0, roots.MOST_FETCHED), (table_roots._FEW, 0)],
    ids=["by Spark", "many rows", "few rows"],
)
def test_each_table_of_an_attempt_has_the_root_of_all_its_rows(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch, few: int, here: int
) -> None:
    monkeypatch.setattr(table_roots, "_FEW", few)
    monkeypatch.setattr(table_roots, "MOST_FETCHED", here)
    both = handover(lake.root, "east", "west")
    rows = [("east", "b1", 0.5), ("east", "b2", 0.25), ("west", "b1", 1.0)]
    more = [("east", "b3", 4.0)]
    first = lake.append(spark, {STATE: states(spark, *rows)}, handover=both, task="shed")
    second = lake.append(spark, {STATE: states(spark, *more)}, handover=both, task="shed")
    own = {name: [write for write in (*first, *second) if write.cluster == name] for name in ("east", "west")}
    assert [write.rows for write in own["west"]] == [1, 0]
    none = replace(own["east"][0], table="rejected", rows=0)
    found = table_roots.table_roots(spark, lake, [[*own["east"], none], own["west"], []])
    east, west = (states(spark, *[row for row in (*rows, *more) if row[0] == name]) for name in ("east", "west"))
    assert found == [
        [{"table": STATE, "rows": 3, "root": in_python(east)}],
        [{"table": STATE, "rows": 1, "root": in_python(west)}],
        [],
    ]


def test_rows_that_are_not_those_that_were_written_get_no_root(spark: Any, lake: Lake) -> None:
    one = handover(lake.root, "east")
    (write,) = lake.append(spark, {STATE: states(spark, ("east", "b", 1.0))}, handover=one, task="shed")
    for wrong in (replace(write, digest="0" * 64), replace(write, rows=2)):
        with pytest.raises(LakeError, match=f"{STATE} of east, write {write.write_id}: 1 rows are there"):
            table_roots.table_roots(spark, lake, [[wrong]])
