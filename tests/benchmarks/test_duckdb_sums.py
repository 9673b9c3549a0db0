"""Evenkeel's sums and DuckDB's on the same file: as many topics, and the same figures, in every namespace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.duckdb_sums import by_namespace, duckdbs_sums, evenkeels_sums, namespaces, write_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_both_sides_add_up_the_same(spark: SparkSession, tmp_path: Path) -> None:
    file, spaces = tmp_path / "topics.parquet", namespaces(300)
    write_topics(file, 5_000, len(spaces))
    own = evenkeels_sums(spark, file, spaces)
    assert len(set(own["bundle"].to_pylist())) == own.num_rows == 300
    sums = by_namespace(own)
    assert {name: row[0] for name, row in sums.items()} == dict.fromkeys([one.name for one in spaces[:2]], 1667) | {
        spaces[2].name: 1666
    }
    assert all(figure > 0 for row in sums.values() for figure in row)
    for way in ("asof join", "equality"):
        assert by_namespace(duckdbs_sums(file, spaces, way)) == sums
