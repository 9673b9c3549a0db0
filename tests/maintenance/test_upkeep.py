"""What upkeep drops and what it leaves, on real tables."""

import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from evenkeel.errors import NoLake, SettingsError
from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot
from evenkeel.lake.delta_log import newest_version, written_files
from evenkeel.lake.handover_files import FOLDER, handed_on
from evenkeel.lake.manifest import append_manifests
from evenkeel.lake.record import read_attempts, read_table
from evenkeel.lake.schemas import OF_RECORD, TABLES
from evenkeel.lake.store import Lake
from evenkeel.lake.task_reads import find_predecessors
from evenkeel.maintenance import proofs, upkeep
from evenkeel.maintenance import statements as changing
from evenkeel.maintenance.compaction import clean_log
from evenkeel.maintenance.expiry import ExpiryContext, Periods, thin_days
from evenkeel.maintenance.inventory import DatesOnRecord, read_record, take_inventory
from evenkeel.maintenance.statements import change, speaking
from evenkeel.maintenance.upkeep import Request, UpkeepResult, keep, upkeep_as_text
from evenkeel.spark.session import close, connect
from tests.maintenance.conftest import NOW
from tests.maintenance.recorded_lake import Recorded, day, manifest
from tests.written_rows import changed

pytestmark = pytest.mark.spark

OBSERVED = ("cluster_policies", "bundle_load", "strategy_state")
AUDIT = ("settings", "commands", "outcomes", "unload_decisions")


def run(kept: Recorded, now: datetime = NOW, **more: Any) -> UpkeepResult:
    steps: list[tuple[int, int]] = []
    done = keep(
        kept.spark, Request(kept.lake.root, "tests", **more), lambda line: None, now, lambda *step: steps.append(step)
    )
    assert [step for step, _ in steps] == [*range(1, steps[0][1] + 1)], "the course ends where all is done"
    return done


def days_of(kept: Recorded, table: str) -> list[int]:
    """The days of the history of which a table still has rows."""
    dates = {row["cycle_date"] for row in read_table(kept.lake.root, table)}
    return sorted((one - day(0).date()).days for one in dates)


def _handover_file(kept: Recorded, at: datetime) -> Path:
    """That of a run of so many clusters that it does not travel itself."""
    text = at.isoformat(timespec="microseconds")
    cycles = (ClusterCycle(f"c{n}", text, Snapshot("s", text), {"long": "x" * 1_000}) for n in range(100))
    reference = json.loads(handed_on(Handover(kept.lake.root, Run("tests", "r"), tuple(cycles))))
    file = Path(kept.lake.root, FOLDER, reference["handover_file"])
    os.utime(file, (at.timestamp(), at.timestamp()))
    return file


@pytest.mark.parametrize("recorded", [False, True], ids=["upkeep alone", "a cycle too"])
def test_an_upkeep_whose_clock_is_a_year_ahead_drops_nothing_and_says_why(kept, monkeypatch, recorded: bool) -> None:
    """Also where a cycle was recorded under the same clock, just before."""
    ahead = NOW + timedelta(days=365)
    if recorded:
        kept.cycle(ahead - timedelta(minutes=5))
    monkeypatch.setattr(upkeep, "_Run", lambda *_: pytest.fail("it is at work"))
    kept.lake.ensure_tables(kept.spark, OF_RECORD)
    versions = {name: newest_version(kept.lake.path(name)) for name in OF_RECORD}
    done = keep(kept.spark, Request(kept.lake.root, "tests"), lambda line: None, ahead)
    assert {name: newest_version(kept.lake.path(name)) for name in OF_RECORD} == versions
    (why,) = done.left
    assert "days after the newest record that others bear out" in why
    assert "left: nothing is dropped or compacted" in "\n".join(upkeep_as_text(done))


@pytest.mark.parametrize(("first", "second"), [(365, 0), (0, -365)], ids=["a year ahead", "a year behind"])
def test_the_periods_of_the_last_upkeep_apply_whatever_clock_an_upkeep_had(
    spark, new_lake: Path, first: int, second: int, monkeypatch
) -> None:
    monkeypatch.setattr(upkeep._Run, "run", lambda begun: UpkeepResult(begun.periods, ()))  # there is nothing to drop
    lake = Lake(str(new_lake))
    for days, audit_days in ((first, 500), (second, 600)):
        request = Request(lake.root, "tests", {"audit_days": audit_days})
        keep(spark, request, lambda line: None, NOW + timedelta(days=days))
    spark.sql(f"OPTIMIZE delta.`{lake.path('upkeeps')}`").collect()  # their rows are in one file now
    assert keep(spark, Request(lake.root, "tests"), lambda line: None, NOW).periods.audit_days == 600


class Killed(Exception):
    """The process ended here."""


@pytest.mark.exhaustive
def test_killed_twice_and_run_again_it_drops_what_is_past_and_leaves_what_is_promised(
    kept, history, monkeypatch
) -> None:
    old, young = (_handover_file(kept, NOW - timedelta(days=days)) for days in (8, 6))
    versions = {name: newest_version(kept.lake.path(name)) for name in ("bundle_load", "unload_decisions", "cycles")}
    before = {name: _rows_by_version(kept, name, range(newest + 1)) for name, newest in versions.items()}
    with monkeypatch.context() as patched:
        patched.setattr(proofs, "delete", _killed_in_the_chain)  # the anchor stands, the manifests are still there
        with pytest.raises(Killed):
            run(kept)
    with monkeypatch.context() as patched:
        patched.setattr(upkeep, "compact", _killed)
        with pytest.raises(Killed):
            run(kept)
    done = {one.table: one for one in run(kept).tables}

    # What goes between tasks is kept as long as rows that no manifest lists yet.
    assert [file.exists() for file in (old, young)] == [False, True]
    # 420 - 14, and the day that the cycle of day 407 rests on; 420 - 30, and the day that the one of 391 rests on.
    assert days_of(kept, "topic_stats") == [391, 407, 419]
    for table in OBSERVED:
        assert days_of(kept, table) == [30, 391, 407, 419], table
    for table in AUDIT:  # 420 - 400, and the day that the cycle of day 30 rests on
        # The outbox is read by command id: a command that no manifest lists may have been sent.
        unlisted = [411] if table in ("commands", "outcomes") else []
        assert days_of(kept, table) == sorted([1, 30, *unlisted, 391, 407, 419]), table
    inside = [w for (_, at), writes in kept.writes.items() if at >= day(391) for w in writes]
    # Of day 391 the topics are past their period, by two weeks, but the cycle of day 407 rests on them.
    assert changed(kept.spark, kept.lake, history.lake, inside) == []
    decided = read_table(kept.lake.root, "unload_decisions")
    left = {number: {row["outcome"] for row in decided if row["cycle_at"] == day(number)} for number in (1, 30)}
    assert left[30] == {"unload", "kept", "skipped"}, "what the cycle of day 391 rests on is not thinned"
    assert left[1] == {"unload", "skipped"}, "one skipped for a wish is an answer to it"

    _chain_holds_from_its_anchor(kept)
    assert {row["wish_id"] for row in read_table(kept.lake.root, "wishes")} == {"w391", "waiting"}
    controls = {(row["kind"], row["at"]) for row in read_table(kept.lake.root, "controls")}
    assert controls == {("pause", day(2)), ("lease", day(1))}, "the last word of each still holds"
    assert [row["at"] for row in read_table(kept.lake.root, "approvals")] == [day(419)]

    assert (done["bundle_load"].files_after, done["bundle_load"].oldest_kept) == (4, day(30).date())
    upkeeps = [(row["state"], len(row["tables"])) for row in read_table(kept.lake.root, "upkeeps")]
    assert sorted(upkeeps) == [("begun", 0), ("begun", 0), ("begun", 0), ("done", len(done))]
    for name, known in before.items():
        assert _rows_by_version(kept, name, known) == known, f"{name}: a promised version"

    monkeypatch.setattr(upkeep._Run, "_freed", lambda *_: None)  # it takes longest, and changes no row
    again = run(kept, NOW + timedelta(hours=1))
    assert sum(one.rows_expired + one.rows_unlisted for one in again.tables) == 0
    quiet = [one for one in again.tables if one.table != "upkeeps"]
    assert [(one.table, one.files_after) for one in quiet] == [(one.table, one.files_before) for one in quiet]
    with pytest.raises(SettingsError, match="audit_days from 400 to 399"):
        run(kept, given={"audit_days": 399})
    with pytest.raises(SettingsError, match="topics_days"):
        run(kept, given={"observed_days": 10}, shorten=True)


def _killed(*_: Any) -> Any:
    raise Killed


def _killed_in_the_chain(spark: Any, lake: Lake, table: str, condition: str) -> int:
    if table == "cycles":
        raise Killed
    return changing.delete(spark, lake, table, condition)


def _rows_by_version(kept: Recorded, table: str, versions: Any) -> dict[int, int]:
    path = kept.lake.path(table)
    return {v: DeltaTable(path, version=v).to_pyarrow_table().num_rows for v in versions}


def _chain_holds_from_its_anchor(kept: Recorded) -> None:
    rows = sorted(read_table(kept.lake.root, "cycles"), key=lambda row: row["sequence"])
    anchor = max(read_table(kept.lake.root, "anchors"), key=lambda row: row["sequence"])
    assert len(read_table(kept.lake.root, "anchors")) == 1, "an anchor is not written twice"
    assert rows[0]["sequence"] == anchor["sequence"] + 1 > 1
    before = anchor["manifest_digest"]
    for row in rows:
        assert row["previous_digest"] == before
        before = hashlib.sha256((before + row["body_digest"]).encode()).hexdigest()
        assert row["manifest_digest"] == before
    assert {attempt.cycle_at for attempt in read_attempts(kept.lake.root)} >= {day(n) for n in (30, 391, 419)}
    # The next cycle goes on where the chain ended, with its predecessor's state.
    attempt = kept.cycle(day(420))
    newest = max(read_table(kept.lake.root, "cycles"), key=lambda row: row["sequence"])
    assert (newest["attempt_id"], newest["sequence"]) == (attempt, rows[-1]["sequence"] + 2)
    asked = [("lab", day(421).isoformat(timespec="microseconds"), day(420).isoformat(timespec="microseconds"))]
    found = find_predecessors(kept.lake, asked, kind="live")["lab", asked[0][1]]
    assert found.attempt_id == attempt
    assert kept.lake.read(kept.spark, "strategy_state", found.writes).count() == 2


def test_a_decision_that_came_to_nothing_goes_before_one_that_acted(kept) -> None:
    look = ExpiryContext(NOW + timedelta(days=100), Periods(), read_record(kept.lake))
    decisions = take_inventory(TABLES["unload_decisions"], kept.lake.path("unload_decisions"))
    with speaking(kept.spark, json.dumps({"upkeep": "u"})):
        assert thin_days(kept.spark, kept.lake, decisions, look) == 4
    left = [row for row in read_table(kept.lake.root, "unload_decisions") if row["cycle_at"] == day(391)]
    assert {(row["outcome"], row["wish_id"]) for row in left} == {("unload", None), ("skipped", "w")}


@pytest.mark.exhaustive
def test_rows_read_the_same_once_their_own_files_are_gone(kept) -> None:
    path = kept.lake.path("bundle_load")
    own = [w for writes in kept.writes.values() for w in writes if w.table == "bundle_load"]
    before = {w.write_id: kept.lake.read(kept.spark, "bundle_load", [w]).collect() for w in own}
    kept.spark.sql(f"OPTIMIZE delta.`{path}`").collect()
    kept.spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.deletedFileRetentionDuration'='0 hours')"
    ).collect()
    kept.spark.sql(f"VACUUM delta.`{path}`").collect()
    twice = [w for w in own if written_files(path, [w]) is None]
    assert len(twice) >= 2, "files of the day with two cycles, at least, were put together"
    for write in own:
        found = kept.lake.read(kept.spark, "bundle_load", [write]).collect()
        assert sorted(map(repr, found)) == sorted(map(repr, before[write.write_id]))


def test_a_table_that_promises_less_is_raised_and_more_is_left_unless_told(kept) -> None:
    low, high = kept.lake.path("settings"), kept.lake.path("outcomes")
    for path, days in ((low, 1), (high, 300)):
        set_to = f"'delta.deletedFileRetentionDuration'='{days} days', 'delta.logRetentionDuration'='{days} days'"
        kept.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({set_to})").collect()
    look = upkeep._Run(
        kept.spark,
        kept.lake,
        "u",
        Periods(),
        NOW,
        DatesOnRecord({}, {}, frozenset()),
        upkeep._Last(),
        Request(kept.lake.root, "t"),
        lambda _: None,
        lambda *_: None,
    )
    with speaking(kept.spark, json.dumps({"upkeep": "u"})):
        look._promise({name: look._inventory(name) for name in ("settings", "outcomes")})
    kept_for = {
        name: look._inventory(name).properties["delta.logRetentionDuration"] for name in ("settings", "outcomes")
    }
    assert kept_for == {"settings": "interval 90 days", "outcomes": "300 days"}


@pytest.mark.exhaustive
def test_versions_inside_the_period_are_readable_once_the_log_is_cleaned(spark, tmp_path) -> None:
    lake = Lake(str(tmp_path))
    lake.ensure_tables(spark, ["strategy_state"])
    path, log = lake.path("strategy_state"), Path(lake.path("strategy_state")) / "_delta_log"
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval'='10')").collect()

    def append(times: int) -> None:
        from tests.builders import frame
        from tests.maintenance.recorded_lake import rows_of

        body = frame(spark, "strategy_state", rows_of("lab", day(1))["strategy_state"])
        for _ in range(times):
            lake_frame = body.selectExpr("*", "date'2040-09-02' as cycle_date", "'w' as write_id")
            lake_frame.write.format("delta").mode("append").save(path)

    append(24)
    now = time.time()
    for commit in log.iterdir():  # versions 0 to 13 are past the period, 14 and later are not
        digits = commit.name.lstrip(".").split(".")[0]
        if digits.isdigit():
            age = 100 if int(digits) < 14 else 80
            os.utime(commit, (now - age * 86_400, now - age * 86_400))
    append(8)
    clean_log(path)
    left = {commit.name for commit in log.glob("*") if commit.name[0].isdigit()}
    assert min(left) == "00000000000000000010.checkpoint.parquet", "the last one before version 14"
    versions = range(14, newest_version(path) + 1)
    reader = spark.read.format("delta")
    found = {v: reader.option("versionAsOf", v).load(path).count() for v in versions}
    assert found == {v: 2 * (v - 1) for v in versions}


@pytest.mark.exhaustive
@pytest.mark.slow
def test_publishers_and_upkeep_meet_in_the_chain_and_neither_loses(engine, spark, tmp_path) -> None:
    lake = Lake(str(tmp_path))
    lake.ensure_tables(spark, ["cycles"])
    at = datetime(2040, 1, 1, tzinfo=UTC)

    def publish(number: int) -> None:
        own = connect(engine.url, "tests")
        try:
            for n in range(5):
                moment = at + timedelta(minutes=10 * n + number)
                append_manifests(own, lake, [manifest("lab", moment, f"{number}-{n}")])
        finally:
            close(own)

    def compact() -> None:
        for _ in range(8):
            with speaking(spark, json.dumps({"upkeep": "u"})):
                change(spark, lake, "cycles", f"OPTIMIZE delta.`{lake.path('cycles')}`")

    with ThreadPoolExecutor(3) as pool:
        for job in [pool.submit(publish, 0), pool.submit(publish, 1), pool.submit(compact)]:
            job.result()
    rows = sorted(read_table(lake.root, "cycles"), key=lambda row: row["sequence"])
    assert [row["sequence"] for row in rows] == list(range(1, 11))
    assert [row["previous_digest"] for row in rows[1:]] == [row["manifest_digest"] for row in rows[:-1]]


def test_where_there_is_no_lake_it_says_so(spark, tmp_path) -> None:
    with pytest.raises(NoLake, match="there is no lake"):
        keep(spark, Request(str(tmp_path), "tests"), lambda line: None)
