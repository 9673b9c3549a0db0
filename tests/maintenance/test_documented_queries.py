"""The queries of docs/how-to/query.md about acts, versions and time, as they stand there, with and without Spark."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from evenkeel.lake.record import read_cycles
from tests.lakes.plausible import LAB_FIRST as BEGIN
from tests.lakes.plausible import add_first_plan_sent, decision
from tests.lakes.small_lake import SmallLake
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
    """Runs the query of the page that contains some words; the view of listed writes is made first."""
    queries = re.findall(r"```sql\n(.*?);\n```", PAGE.read_text(), flags=re.DOTALL)

    def run(words: str) -> list[Any]:
        (query,) = [one for one in queries if words in one]
        query = query.replace("LAKE", history.lake.root).replace("MOMENT", f"{day(391, 13):%Y-%m-%d %H:%M:%S.%f}")
        return spark.sql(query.replace("COMMITTED", f"{committed:%Y-%m-%d %H:%M:%S.%f}")).collect()

    run("CREATE OR REPLACE TEMP VIEW")
    return run


def filled(code: str, history: Recorded, committed: datetime) -> str:
    return code.replace("LAKE", history.lake.root).replace("COMMITTED", f"{committed:%Y-%m-%d %H:%M:%S.%f}")


def test_moves_of_a_day_are_counted_with_who_made_them(ask) -> None:
    (row,) = ask("AS moves")
    assert (row.bundle, row.moves, row.ways) == ("acme/web/0x00000000_0x80000000", 2, ["b1:8080 to b2:8080"])
    assert (row.approved_by, row.wished_by) == (["ann"], ["ann"])


def test_cycles_are_counted_per_settings(ask, history) -> None:
    (row,) = ask("count(DISTINCT cycle_at)")
    assert (row.cluster, row.settings_digest, row.cycles) == ("lab", "s", len(history.writes))


def test_what_was_overridden_is_told_with_the_cause(ask) -> None:
    assert [(row.by, row.rule, row.said) for row in ask("o.outcome = 'overridden'")] == [
        ("cluster", "overridden", "é ✓")
    ]


def test_a_cluster_at_a_moment_is_its_last_cycle_up_to_then(ask) -> None:
    assert {row.cycle_at for row in ask("max(cycle_at) FROM listed")} == {day(391, 13).replace(tzinfo=None)}


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


def test_the_attempts_that_count_are_those_of_the_code(spark: Any, tmp_path: Path) -> None:
    """A cycle whose sent plan was decided again, one with a backfill and a live attempt, one with a plan that was never
    sent, and one that came to no plan."""
    small = SmallLake(tmp_path)
    add_first_plan_sent(small, BEGIN)

    def add(minute: int, number: int, **manifest: Any) -> None:
        at = BEGIN + timedelta(minutes=minute)
        row = decision("b1:8080", "broker", "kept", "below_threshold", "It is.", measured=float(number))
        small.add("lab", at, {"unload_decisions": [row]}, attempt=number, **manifest)

    add(0, 3, plan_id="first", mode="auto", kind="rerun")
    add(0, 4, plan_id="fourth", mode="auto")
    add(0, 5, plan_id="fifth", kind="backfill")
    for number, kind in ((1, "backfill"), (2, "live"), (3, "backfill")):
        add(1, number, kind=kind, plan_id=f"of a minute later {number}")
    for number, plan in ((1, "held back"), (2, None)):
        add(2, number, mode="auto", plan_id=plan)
    stamp = {"cluster": "lab", "cycle_at": BEGIN, "cycle_date": BEGIN.date(), "write_id": "o"}
    small.append("commands", [{**stamp, "command_id": "c2", "plan_id": "held back", "expires_at": BEGIN}])
    small.append("outcomes", [{**stamp, "command_id": "c2", "outcome": "withheld", "seen_at": BEGIN}])
    counting = read_cycles(tmp_path)
    assert [attempt.number for attempt in counting] == [3, 2, 2]

    (view,) = (one for one in re.findall(r"```sql\n(.*?);\n```", PAGE.read_text(), re.DOTALL) if "TEMP VIEW" in one)
    spark.sql(view.replace("LAKE", str(tmp_path)).replace("VIEW listed", "VIEW of_the_small_lake"))
    listed = {row.write_id for row in spark.table("of_the_small_lake").collect()}
    assert listed == {write.write_id for attempt in counting for write in attempt.writes}

    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {}
    for block in (code[0], code[2]):
        now = datetime.now(UTC) + timedelta(days=1)
        exec(block.replace("LAKE", str(tmp_path)).replace("COMMITTED", now.isoformat()), names)
    assert [row["measured"] for row in names["answer"].to_pylist()] == [3.0, 2.0, 2.0]


def test_changes_between_versions_are_the_rows_that_came(ask, history) -> None:
    changes = ask("table_changes_by_path")
    assert {row._change_type for row in changes} == {"insert"}
    assert sorted({row._commit_version for row in changes}) == [2, 3, 4]
    assert len(changes) == 6
    added = ask("LEFT ANTI JOIN")
    assert {row.cycle_at for row in added} == {day(30).replace(tzinfo=None), day(391).replace(tzinfo=None)}
    assert len(added) == 6
