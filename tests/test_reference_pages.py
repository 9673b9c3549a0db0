"""The generated reference pages, and what they are generated from."""

from pathlib import Path

import pytest

from devtools.reference import pages
from evenkeel.lake.schemas import EVERY_TABLE
from evenkeel.lake.views.declarations import VIEWS

DOCS = Path(__file__).resolve().parent.parent / "docs" / "reference"
FIGURES = {"double", "bigint", "int"}
# Numbers that count nothing: names of places and positions.
WITHOUT_UNIT = {
    "hash", "lower", "upper", "n", "step", "sequence", "attempt", "status", "value",
    "measured", "threshold", "margin", "max_measured", "threshold_then", "worst_margin", "broker_measured",
    "broker_threshold", "schema_version", "version",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(pages()))
def test_reference_page_is_what_the_code_gives_run_make_docs_to_renew_it(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == pages()[name]


@pytest.mark.parametrize("table", [*EVERY_TABLE.values(), *VIEWS.values()], ids=lambda table: table.name)
def test_every_column_says_what_it_means_and_every_figure_its_unit(table) -> None:
    assert table.comment.endswith(".")
    for column in table.columns:
        assert len(column.comment) > 3, column.name
        if column.type in FIGURES and column.name not in WITHOUT_UNIT:
            assert column.unit, f"{table.name}.{column.name} has no unit"


@pytest.mark.parametrize("table", EVERY_TABLE.values(), ids=lambda table: table.name)
def test_key_and_partition_are_columns_that_are_never_null(table) -> None:
    columns = {column.name: column for column in table.columns}
    for name in table.partition:
        assert not columns[name].nullable
    assert set(table.key) <= set(columns)
