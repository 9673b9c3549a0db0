"""Which rows are not what they were, or are not what is decided now, column by column."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.lake.contents import with_row_digest
from evenkeel.lake.digest import ROW_DIGEST
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST = 5
_LONGEST = 120


def differing(before: DataFrame, after: DataFrame, table: str, version: int, by: str) -> dict[str, list[str]]:
    """Value of `by` -> sentences on rows of `before` and `after` that only one side has, or that differ; see `MOST`."""
    from pyspark.sql import functions as F

    left, right = (with_row_digest(frame, table, version) for frame in (before, after))
    only_before = left.join(right.select(by, ROW_DIGEST), [by, ROW_DIGEST], "left_anti")
    only_after = right.join(left.select(by, ROW_DIGEST), [by, ROW_DIGEST], "left_anti")
    columns = [name for name in TABLES[table].names_at(version) if name not in STAMP_NAMES]

    def fetched(frame: DataFrame) -> list[Any]:
        body = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("body")
        rows = frame.select(by, body).groupBy(by).agg(F.sort_array(F.collect_list("body")).alias("bodies"))
        return rows.select(by, F.slice("bodies", 1, 50 * MOST).alias("bodies")).collect()

    sides = [
        {row[by]: [json.loads(body) for body in row["bodies"]] for row in fetched(f)} for f in (only_before, only_after)
    ]
    return {key: list(sentences(sides[0].get(key, []), sides[1].get(key, []), table)) for key in {*sides[0], *sides[1]}}


def sentences(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], table: str) -> Iterator[str]:
    """What became of each row, by its key; at most `MOST`."""
    old, new = ({_key(row, table): row for row in rows} for rows in (before, after))
    keys = sorted(old.keys() | new.keys())
    for key in keys[:MOST]:
        if key not in new:
            yield f"{key} is missing"
        elif key not in old:
            yield f"{key} was added"
        else:
            yield f"{key}: {_changes(old[key], new[key])}"
    if len(keys) > MOST:
        yield f"and {len(keys) - MOST} more"


def _key(row: Mapping[str, Any], table: str) -> str:
    return ", ".join(f"{name} {row[name]}" for name in TABLES[table].key if row.get(name) is not None) or "the row"


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    names = [name for name in new if old.get(name) != new[name] and name != "sentence"] or ["sentence"]
    return ", ".join(f"{name} {_short(old.get(name))} became {_short(new[name])}" for name in names[:MOST])


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
