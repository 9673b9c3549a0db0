"""Merkle roots of rows: what Spark makes of them, and what a manifest is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from hashlib import sha256
from typing import Any

import pytest
from pyspark.sql import functions as F

from evenkeel.errors import LakeError, StaleCode
from evenkeel.lake import roots, table_roots
from evenkeel.lake.digest import ROW_DIGEST, contents, with_row_digest
from evenkeel.lake.roots import rooted
from evenkeel.lake.roots_here import digest_of
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.store import Lake
from evenkeel.spark.code import runtime_of
from evenkeel.spark.sql import compile_queries
from evenkeel.transparency.merkle import root_of
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


WAYS = pytest.mark.parametrize("beside", [0, roots.MOST_BESIDE], ids=["by workers", "here"])


@WAYS
def test_the_root_is_that_of_the_sorted_digests_whatever_the_number_of_rows(
    spark: Any, monkeypatch: pytest.MonkeyPatch, beside: int
) -> None:
    monkeypatch.setattr(roots, "MOST_BESIDE", beside)
    sizes = (1, 2, 3, 4, 5, 7, 8, 9, 13, 63, 64, 65)
    rows = [(f"of {size}", f"b{n}", n / 7) for size in sizes for n in range(size)]
    frame = states(spark, *rows).repartition(3)
    listed = {(f"of {size}",): size for size in (0, *sizes)}
    found = rooted(frame, STATE, SCHEMA_VERSION, ("cluster",), listed)
    sums = contents(frame, STATE, SCHEMA_VERSION, ("cluster",))
    assert {key: one[:2] for key, one in found.items()} == sums
    for size in sizes:
        assert found[(f"of {size}",)][2] == in_python(frame.where(f"cluster = 'of {size}'")), size


@WAYS
def test_rows_that_are_alike_are_leaves_of_their_own(spark: Any, monkeypatch: pytest.MonkeyPatch, beside: int) -> None:
    monkeypatch.setattr(roots, "MOST_BESIDE", beside)
    once, twice = (states(spark, *[("lab", "b", 1.0)] * number) for number in (1, 2))
    ((_, _, one), (rows, _, two)) = (
        rooted(frame, STATE, SCHEMA_VERSION, ("cluster",), {("lab",): 1})[("lab",)] for frame in (once, twice)
    )
    assert (rows, two) == (2, in_python(twice))
    assert one != two


def digested(spark: Any, groups: Sequence[Sequence[int]]) -> Any:
    """A row for each number, with the digest of the number as text; groups are named by a day and a text."""
    rows = [(f"2026-01-{n % 28 + 1:02d}", f"g{n}", str(number)) for n, own in enumerate(groups) for number in own]
    frame = spark.createDataFrame(rows, "day string, name string, number string")
    return frame.select(F.to_date("day").alias("day"), "name", F.sha2("number", 256).alias(ROW_DIGEST))


def by_definition(groups: Sequence[Sequence[int]]) -> dict[tuple[date, str], tuple[int, str, str]]:
    expected = {}
    for n, own in enumerate(groups):
        entries = sorted(sha256(str(number).encode()).digest() for number in own)
        expected[date(2026, 1, n % 28 + 1), f"g{n}"] = (len(own), digest_of(entries), root_of(entries).hex())
    return expected


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
def test_workers_come_to_the_same_for_many_groups_in_several_partitions(spark: Any, compiled: bool) -> None:
    groups = [*(range(n, n + size) for n, size in enumerate((*range(1, 40), 255, 256, 257, 5000)))]
    groups += [[7] * 9, [1, 2] * 64]
    expected = by_definition(groups)
    compile_queries(spark, compiled=compiled)
    frame = digested(spark, groups).repartition(5)
    assert roots.digests_rooted(frame, ("day", "name"), expected.keys()) == expected
    few = [*expected][3:5]
    assert roots.digests_rooted(frame, ("day", "name"), few) == {key: expected[key] for key in few}
    assert roots.digests_rooted(frame.limit(0), ("day", "name"), few) == {}


def test_two_keys_that_have_one_number_get_others(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    number, seeds = roots._number, []

    def often_the_same(seed: int, by: Sequence[str]) -> Any:
        seeds.append(seed)
        return number(seed, by) if seed == 2 else F.lit(seed).cast("bigint")

    monkeypatch.setattr(roots, "_number", often_the_same)
    expected = by_definition([range(5), range(3, 70)])
    assert roots.digests_rooted(digested(spark, [range(5), range(3, 70)]), ("day", "name"), expected.keys()) == expected
    assert seeds == [0, 1, 2, 2]


def test_workers_with_other_code_make_no_roots(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "runtime_of", lambda module: replace(runtime_of(module), digest="0" * 64))
    with pytest.raises(StaleCode, match="run other code than this client"):
        roots.digests_rooted(digested(spark, [[1]]), ("day", "name"), by_definition([[1]]).keys())


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
