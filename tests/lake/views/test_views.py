"""The views, in DuckDB and in Spark, give the rows that the code takes for those that count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.errors import BadInput, LakeError
from evenkeel.lake.outbox import harmed, with_outcomes
from evenkeel.lake.record import Attempt, Record, read_attempts, read_cycles, read_rows_of
from evenkeel.lake.views.declarations import BY_OPERATORS, VIEWS
from evenkeel.lake.views.query import ask
from evenkeel.lake.views.scripts import DIALECTS, register_in_duckdb, register_in_spark, statements
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.manual_requests.round import BY_REQUEST
from evenkeel.spark.sql import arrow_of
from tests.kept_lakes.unpacking import kept_lake
from tests.lakes.repeated_lake import repeated_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = Mapping[str, Any]
Select = Callable[[Path, str], list[Row]]
DUCKDB_TYPES = {"VARCHAR": "string", "TIMESTAMP WITH TIME ZONE": "timestamp", "INTEGER": "int"}
STAGES = {"split": "split_decisions", "unload": "unload_decisions", "placement": "placement_decisions"}
STAGES |= {"guard": "guard_decisions"}


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of re-runs and backfills."""
    return repeated_lake(tmp_path_factory.mktemp("lakes") / "repeated")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept lake, which the pipeline wrote."""
    return kept_lake(tmp_path_factory.mktemp("lakes"))


def by_duckdb(lake: Path, sql: str) -> list[Row]:
    with ask(str(lake), sql) as answer:
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession, repeated: Path, kept: Path) -> Select:
    """Selects from the views that are registered in Spark's catalog."""
    schemas = {repeated: "repeated", kept: "kept"}
    for lake, schema in schemas.items():
        register_in_spark(spark, str(lake), schema)

    def select(lake: Path, sql: str) -> list[Row]:
        spark.sql(f"USE {schemas[lake]}")
        return arrow_of(spark.sql(sql)).to_pylist()

    return select


def chosen(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def differences(lake: Path, select: Select) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yields what was compared, the rows of the code and those of the views."""
    counting, record = read_cycles(lake), Record(lake)
    names = ("kind", "mode", "run_id", "plan_id", "unloads", "shedder")
    cycles = [
        (a.cluster, a.cycle_at, a.number, a.attempt_id, a.status, a.reason, *chosen(a.planned, *names))
        for a in counting
    ]
    columns = ("cluster", "cycle_at", "attempt", "attempt_id", "status", "reason", *names)
    yield "cycles", cycles, [chosen(row, *columns) for row in select(lake, "SELECT * FROM cycles")]
    writes = [(a.cluster, a.cycle_at, a.plan_id, table, write_id) for a in counting for table, write_id in listed(a)]
    columns = ("cluster", "cycle_at", "plan_id", "table_name", "write_id")
    yield "writes", writes, [chosen(row, *columns) for row in select(lake, "SELECT * FROM writes")]
    columns = ("cluster", "cycle_at", "subject", "outcome", "rule", "measured", "sentence")
    decided = [
        (stage, *chosen(row, *columns))
        for stage, table in STAGES.items()
        for rows in read_rows_of(lake, counting, table).values()
        for row in rows
    ]
    yield "decisions", decided, [chosen(row, "stage", *columns) for row in select(lake, "SELECT * FROM decisions")]
    columns = ("command_id", "cluster", "cycle_at", "plan_id", "kind", "bundle", "outcome", "seen_at", "harmed")
    yield (
        "moves",
        [chosen(row, *columns) for attempt in counting for row in commands_of(record, attempt)],
        [chosen(row, *columns) for row in select(lake, "SELECT * FROM moves")],
    )
    columns = ("cluster", "cycle_at", "bundle", "owner", "used_msg_rate_in")
    loads = [chosen(row, *columns) for rows in read_rows_of(lake, counting, "bundle_load").values() for row in rows]
    yield "bundle_load", loads, [chosen(row, *columns) for row in select(lake, "SELECT * FROM bundle_load")]


def listed(attempt: Attempt) -> set[tuple[str, str]]:
    closing = (attempt.closed or {"writes": ()})["writes"]
    return {(write.table, write.write_id) for write in attempt.writes} | {
        (write["table"], write["write_id"]) for write in closing if write["table"] in ("commands", "outcomes")
    }


def commands_of(record: Record, attempt: Attempt) -> list[Row]:
    """The commands of the attempt's plan, each once, with the last outcome and the first harm."""
    span = attempt.cluster, attempt.cycle_at, attempt.cycle_at
    commands = [row for row in record.outbox("commands", *span) if row["plan_id"] == attempt.plan_id]
    outcomes = record.outbox("outcomes", *span)
    harm = {row["command_id"]: row["detail"] for row in harmed(commands, outcomes)}
    seen = with_outcomes(commands, [row for row in outcomes if row["outcome"] != "harmed"])
    return [{**row, "harmed": harm.get(row["command_id"])} for row in seen]


def test_the_lake_has_cycles_of_every_kind(repeated: Path) -> None:
    attempts, counting = read_attempts(repeated), {attempt.attempt_id for attempt in read_cycles(repeated)}
    newest = {(attempt.cluster, attempt.cycle_at): attempt.attempt_id for attempt in attempts}
    kinds = {a.kind for a in attempts if a.attempt_id in counting and newest[a.cluster, a.cycle_at] != a.attempt_id}
    assert kinds == {"live", "rerun", "backfill"}
    moves = by_duckdb(repeated, "SELECT outcome, harmed FROM moves")
    assert {row["outcome"] for row in moves} >= {None, "done", "unknown", "stale"}
    assert {row["harmed"] for row in moves} == {None, "so it was"}


@pytest.mark.parametrize("name", ["repeated", "kept"])
def test_duckdb_gives_the_rows_of_the_code(name: str, request: pytest.FixtureRequest) -> None:
    for what, expected, rows in differences(request.getfixturevalue(name), by_duckdb):
        assert sorted(rows, key=repr_of) == sorted(expected, key=repr_of) != [], what


@pytest.mark.spark
@pytest.mark.parametrize("name", ["repeated", "kept"])
def test_spark_gives_the_rows_of_the_code(name: str, by_spark: Select, request: pytest.FixtureRequest) -> None:
    for what, expected, rows in differences(request.getfixturevalue(name), by_spark):
        assert sorted(rows, key=repr_of) == sorted(expected, key=repr_of) != [], what


def repr_of(row: Sequence[Any]) -> str:
    return "|".join(value.isoformat() if hasattr(value, "isoformat") else repr(value) for value in row)


@pytest.mark.spark
@pytest.mark.parametrize("view", VIEWS)
def test_spark_and_duckdb_give_the_same_rows_of_the_declared_types(
    view: str, by_spark: Select, spark: SparkSession, repeated: Path, kept: Path
) -> None:
    types = {column.name: column.type for column in VIEWS[view].columns}
    described = by_duckdb(kept, f"DESCRIBE {view}")
    found = {row["column_name"]: DUCKDB_TYPES.get(row["column_type"], row["column_type"].lower()) for row in described}
    assert found == types
    for lake in (repeated, kept):
        rows = by_spark(lake, f"SELECT * FROM {view}")
        assert sorted(map(str, map(normal, rows))) == sorted(map(str, map(normal, by_duckdb(lake, f"FROM {view}"))))
    assert {field.name: field.dataType.simpleString() for field in spark.table(view).schema} == types
    comments = {row["col_name"]: row["comment"] for row in by_spark(kept, f"DESCRIBE {view}")}
    assert all(comments[column.name].startswith(column.comment) for column in VIEWS[view].columns)


def normal(row: Row) -> dict[str, str]:
    return {name: value.isoformat() if hasattr(value, "isoformat") else repr(value) for name, value in row.items()}


@pytest.mark.spark
def test_a_schema_keeps_the_tables_of_one_lake(
    spark: SparkSession, by_spark: Select, repeated: Path, kept: Path
) -> None:
    with pytest.raises(LakeError, match=r"has the tables of another lake, at .*repeated.*name another --schema"):
        register_in_spark(spark, str(kept), "repeated")
    register_in_spark(spark, str(repeated), "repeated")


def test_what_the_key_of_a_view_names_is_one_row(repeated: Path, kept: Path) -> None:
    for view in VIEWS.values():
        for lake in (repeated, kept):
            keys = [chosen(row, *view.key) for row in by_duckdb(lake, f"FROM {view.name}")]
            assert len(keys) == len(set(keys)), view.name


def test_a_day_of_a_broker_is_counted_from_its_decisions(repeated: Path) -> None:
    rows = by_duckdb(repeated, "FROM broker_threshold_daily WHERE cluster = 'lab' ORDER BY day")
    assert len(rows) == 2, "the cycles go over midnight"
    judged = by_duckdb(repeated, "FROM decisions WHERE cluster = 'lab' AND subject_kind = 'broker'")
    for row in rows:
        margins = [one["margin"] for one in judged if one["cycle_at"].date() == row["day"]]
        over = [margin for margin in margins if margin >= 0]
        assert (row["rounds_judged"], row["rounds_over"]) == (len(margins), len(over))
        assert row["share_over"] == pytest.approx(len(over) / len(margins))
        assert (row["worst_margin"], row["threshold_then"]) == (max(margins), 0.5)
        assert row["max_measured"] == pytest.approx(0.5 + max(margins))


def test_requests_of_operators_judge_no_load() -> None:
    assert {BY_REQUEST, BY_DRAINING} == BY_OPERATORS


def test_a_move_has_what_it_was_decided_on(kept: Path) -> None:
    (row,) = by_duckdb(kept, "FROM moves WHERE cluster = 'lab' AND destination IS NOT NULL")
    assert row["reason"].startswith(f"{row['bundle']} (331.3 KiB/s) leaves {row['from_broker']}")
    assert row["byte_rate"] / 1024 == pytest.approx(331.3, abs=0.1)
    assert (row["namespace"], row["outcome"], row["broker_unit"]) == ("acme/ns0", "done", "fraction")
    assert row["broker_measured"] > row["broker_threshold"]


@pytest.mark.parametrize("dialect", ["duckdb", "trino"])
def test_the_script_can_be_parsed(dialect: str) -> None:
    """DuckDB's parser takes both; Trino itself was not tried."""
    import duckdb

    script = [*statements(DIALECTS[dialect], "s3://bucket/it's")]
    assert len(duckdb.extract_statements(";\n".join(script))) == len(script)
    assert any("'s3://bucket/it''s/cycles'" in statement for statement in script)


def test_spark_finds_tables_in_a_bucket_by_its_own_scheme() -> None:
    assert any("'s3a://bucket/it\\'s/cycles'" in text for text in statements(DIALECTS["spark"], "s3://bucket/it's"))


@pytest.mark.parametrize("name", ["", "a b", "a;b", "a.b.c", "1a", "é", "a`"])
def test_a_schema_has_a_plain_name(name: str) -> None:
    with pytest.raises(BadInput, match="letters, digits and _"):
        list(statements(DIALECTS["spark"], "lake", name or "-"))


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE mine AS SELECT 1",
        "COPY (SELECT 1) TO 'out.csv'",
        "ATTACH 'other.duckdb'",
        "SET enable_external_access = true",
        "INSTALL delta",
        "LOAD httpfs",
        "SELECT 1; DROP VIEW cycles",
        "PRAGMA version",
        "",
    ],
)
def test_only_a_query_is_run(sql: str, kept: Path) -> None:
    with pytest.raises(BadInput, match="give one query"):
        by_duckdb(kept, sql)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM read_text('/etc/hostname'), cycles", "disabled by configuration"),
        ("SELECT * FROM read_csv('https://example.com/x.csv'), cycles", "disabled by configuration"),
        ("SELECT * FROM parquet_scan('s3://bucket/x.parquet'), cycles", "disabled by configuration"),
        ("SELECT * FROM '/etc/hostname', cycles", "does not exist"),
        ("SELECT * FROM kept, cycles", "does not exist"),
        ("SELECT nope FROM cycles", '"nope" not found in FROM clause! Candidate bindings: .*SHOW TABLES'),
        ("SELEC 1 FROM cycles", 'syntax error at or near "SELEC"'),
        ("SELECT value::int FROM settings", "Could not convert string"),
    ],
)
def test_a_query_reaches_nothing_but_the_lake_and_its_fault_is_a_sentence(sql: str, words: str, kept: Path) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        by_duckdb(kept, sql)
    assert "\n" not in str(caught.value)


def test_a_table_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    lake = kept_lake(tmp_path)
    for file in (lake / "settings").rglob("*.parquet"):
        file.write_bytes(b"no parquet")
    with pytest.raises(LakeError, match=r"table settings of the lake .* cannot be read"):
        by_duckdb(lake, "FROM settings")
    assert by_duckdb(lake, "SELECT count(*) AS n FROM cycles") == [{"n": 6}], "other tables are not opened"


def test_a_query_that_names_no_view_knows_all_of_them(kept: Path) -> None:
    names = {row["name"] for row in by_duckdb(kept, "SHOW TABLES")}
    assert {*VIEWS, "raw_cycles", "raw_wishes"} <= names


def test_a_duckdb_file_of_something_else_is_left_alone(kept: Path, tmp_path: Path) -> None:
    import duckdb

    file = tmp_path / "mine.duckdb"
    with duckdb.connect(str(file)) as mine:
        mine.execute("CREATE VIEW cycles AS SELECT 1 AS mine")
    with pytest.raises(BadInput, match="has no views of a lake: name another --file"):
        register_in_duckdb(str(kept), file)
    with duckdb.connect(str(file)) as mine:
        assert mine.execute("FROM cycles").fetchall() == [(1,)]


def test_a_duckdb_file_has_the_views_or_there_is_none(kept: Path, tmp_path: Path) -> None:
    """DuckDB fetches its extension `delta`; where it cannot, a sentence says so and no file is left."""
    import duckdb

    file = tmp_path / "evenkeel.duckdb"
    refusals = []
    try:
        register_in_duckdb(str(kept), file)
    except BadInput as error:
        refusals.append(str(error))
    if refusals:
        assert "Its views need DuckDB's extension delta" in refusals[0]
        assert not file.exists()
    else:
        with duckdb.connect(str(file), read_only=True) as made:
            assert made.execute("SELECT count(*) FROM cycles").fetchone() == (6,)
