"""The queries of docs/how-to/query.md about versions and time, as they stand there, with and without Spark.

`tests/lake/views` runs those over views.
"""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.maintenance.recorded_lake import Recorded, day

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "query.md"
VERSION = 3


@pytest.fixture(scope="module")
def committed(history: Recorded) -> datetime:
    """A moment between the commits of versions 3 and 4 of `cycles`, by Spark's clock and by the log's."""
    log = Path(history.lake.path("cycles")) / "_delta_log"
    times = [(log / f"{v:020d}.json").stat().st_mtime for v in (VERSION, VERSION + 1)]
    return datetime.fromtimestamp(sum(times) / 2, UTC)


@pytest.fixture(scope="module")
def ask(spark: Any, history: Recorded, committed: datetime) -> Any:
    """Runs the query of the page that contains some words."""
    queries = re.findall(r"```sql\n(.*?);\n```", PAGE.read_text(), flags=re.DOTALL)

    def run(words: str) -> list[Any]:
        (query,) = [one for one in queries if words in one]
        return spark.sql(filled(query, history, committed)).collect()

    return run


def filled(code: str, history: Recorded, committed: datetime) -> str:
    return code.replace("LAKE", history.lake.root).replace("COMMITTED", f"{committed:%Y-%m-%d %H:%M:%S.%f}")


def test_commits_tell_their_run_and_what_they_wrote(ask, history) -> None:
    rows = ask("DESCRIBE HISTORY")
    manifests = [json.loads(row.userMetadata)["manifest_of"] for row in rows if row.operation == "WRITE"]
    assert len(manifests) == len(history.writes)


def test_a_version_and_a_time_give_the_same_rows_with_spark_and_without(ask, history, committed) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {}
    for block in code[:3]:
        exec(filled(block, history, committed), names)
    by_version, by_time = ask("VERSION AS OF 3 ORDER"), ask("TIMESTAMP AS OF")
    assert by_version == by_time
    assert names["as_of"](history.lake.path("cycles"), committed).version() == VERSION
    columns = ["cluster", "cycle_at", "attempt", "row_kind", "status", "plan_id"]
    without = names["then"].sort_values("sequence")[columns].to_dict("records")
    seen = [{**row.asDict(), "cycle_at": row.cycle_at.replace(tzinfo=UTC)} for row in by_version]
    assert without == seen
    assert len(seen) == 2 * VERSION

    decisions = DeltaTable(history.lake.path("unload_decisions")).to_pyarrow_table().to_pylist()
    days = {row["cycle_at"] for row in seen}
    expected = sorted(
        (row["cycle_at"], row["subject"], row["outcome"], row["measured"])
        for row in decisions
        if row["cycle_at"] in days
    )
    answer = [(row.pop("cycle_at").astimezone(UTC), *row.values()) for row in names["answer"].to_pylist()]
    assert sorted(answer) == expected != []


def test_changes_between_versions_are_the_rows_that_came(ask, history) -> None:
    changes = ask("table_changes_by_path")
    assert {row._change_type for row in changes} == {"insert"}
    assert sorted({row._commit_version for row in changes}) == [2, 3, 4]
    assert len(changes) == 6
    added = ask("LEFT ANTI JOIN")
    assert {row.cycle_at for row in added} == {day(30).replace(tzinfo=None), day(391).replace(tzinfo=None)}
    assert len(added) == 6
