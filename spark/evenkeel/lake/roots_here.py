"""Digests and roots of a few rows, made in this process from the data files that hold them.

A row's text is made here to the letter as Spark makes it, or Spark is asked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

from evenkeel.lake.arrow_files import read_file, with_cluster
from evenkeel.lake.digest import lanes_of, text_of_lanes
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.roots import Rooted
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.spark.column_types import ColumnType
from evenkeel.spark.row_order import spark_text
from evenkeel.spark.rows import each_once, moment_text, read_column, ticks
from evenkeel.transparency.merkle import EMPTY, root_of

if TYPE_CHECKING:
    import pyarrow as pa

_TICKS_A_MILLISECOND = 1_000
# A sign that has no escape of its own, as Java spells it otherwise; and what stands for bytes that are no text.
_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\u")
_NO_TEXT = "\ufffd"


def rooted_files(table: str, files: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], Rooted] | None:
    """(cluster, write id) -> its rows in these data files (by cluster), their digest and root; None where Spark has to
    make them."""
    digests: dict[tuple[str, ...], list[bytes]] = {}
    names = [name for name in types_of(table) if name != "cluster"]
    for cluster, own in files.items():
        for file in own:
            rows = with_cluster(read_file(file, table, names), cluster)
            made = row_digests(table, rows)
            if made is None:
                return None
            for write_id, digest in zip(rows.column("write_id").to_pylist(), made, strict=True):
                digests.setdefault((cluster, write_id), []).append(digest)
    return {key: (len(own), digest_of(own), root_of(sorted(own)).hex()) for key, own in digests.items()}


def row_digests(table: str, rows: pa.Table) -> list[bytes] | None:
    """The SHA-256 of each row's JSON, as `digest.row_digest` has Spark make it; None where a text is not sure to be the
    same."""
    texts = row_texts(table, rows)
    return None if texts is None else [hashlib.sha256(text.encode()).digest() for text in texts]


def row_texts(table: str, rows: pa.Table) -> list[str] | None:
    """Each row's JSON, of which its digest is the SHA-256; None where a text is not sure to be the one that Spark
    makes."""
    kinds = types_of(table)
    columns = sorted(name for name in kinds if name not in STAMP_NAMES)
    parts = [_labelled(name, _texts(rows, name, kinds[name])) for name in columns]
    texts = [f"{{{','.join(row)}}}" for row in zip(*parts, strict=True)]
    if any(_NO_TEXT in text or ("\\u" in text and _ESCAPED.search(text)) for text in texts):
        return None
    return texts


def digest_of(digests: Sequence[bytes]) -> str:
    """The digest of rows, whose own are given: the sum of their lanes."""
    import numpy as np

    if not digests:
        return text_of_lanes(0)
    bare = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, len(EMPTY))
    return text_of_lanes(len(digests), lanes_of(bare, [0])[0])


def _labelled(name: str, texts: Iterable[str]) -> list[str]:
    label = f"{encode_basestring(name)}:"
    return [label + text for text in texts]


def _texts(rows: pa.Table, name: str, kind: ColumnType) -> list[str]:
    """A column as JSON; one that the rows lack is NULL."""
    if name not in rows.column_names:
        return ["null"] * rows.num_rows
    column = rows.column(name)
    if kind.name == "timestamp":
        known = [tick for chunk in column.chunks for tick in ticks(chunk)]
        return [text or "null" for text in each_once(known, _moment)]
    if kind.name == "map":
        text = _map_text(kind)
        return ["null" if pairs is None else text(pairs) for pairs in column.to_pylist()]
    values = read_column(column, kind)
    if kind.name == "string":
        return [text or "null" for text in each_once(values, encode_basestring)]
    return [*map(spark_text(kind), values)]


def _moment(tick: int) -> str:
    """In JSON Spark writes a moment to the millisecond, cut off."""
    return f'"{moment_text(tick // _TICKS_A_MILLISECOND * _TICKS_A_MILLISECOND)[:23]}Z"'


def _map_text(kind: ColumnType) -> Callable[[Sequence[tuple[str, Any]]], str]:
    """Spark leaves the keys of a map in the order in which they are stored."""
    value = spark_text(kind.parts[0][1])
    return lambda pairs: f"{{{','.join(f'{encode_basestring(key)}:{value(found)}' for key, found in pairs)}}}"
