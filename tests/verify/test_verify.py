"""Real cycles are proved, and whatever is changed about them afterwards is named."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.cli.verify import as_json, as_text
from evenkeel.errors import NoSuchCycle
from evenkeel.explain.trace import of_write
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.manifest import CYCLES, body_digest
from evenkeel.lake.record import Attempt, read_attempts, read_table
from evenkeel.maintenance.upkeep import Request, keep, upkeep_as_text
from evenkeel.pipeline import run_cycle
from evenkeel.sources.recordings import Recording
from evenkeel.spark.sql import compile_queries
from evenkeel.verify import BUNDLES, TOPICS, VerifyReport, verify
from evenkeel.verify.chain import CHAIN, CODE, CONTENT, DATA, DEFINITION, UNKNOWN, Fault
from evenkeel.verify.export import export
from tests.lakes.small_lake import arrow_schema
from tests.lakes.window_lake import as_one_window
from tests.written_rows import rows_digest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
# Splits by topics, unloads, placements, refusals; state from cycle to cycle; both managers.
CLUSTERS = {"modular": "lost-modular", "extensible": "own-transfer"}
SETTINGS = """
loadBalancerNamespaceBundleMaxTopics = 8
loadBalancerNamespaceMaximumBundles = 16
loadBalancerLoadSheddingStrategy = "OverloadShedder"
loadBalancerBrokerOverloadedThresholdPercentage = 1
"""


@pytest.fixture(scope="module")
def recorded(spark: Any, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two cycles of each of two clusters; nobody writes to it."""
    folder = tmp_path_factory.mktemp("verify")
    empty_lake(folder / "lake")
    lines = []
    for cluster, name in CLUSTERS.items():
        lines += [f"[clusters.{cluster}]", f'recording = "{folder / name}"']
    lines += ["[clusters.modular.settings]", SETTINGS]
    (folder / "evenkeel.toml").write_text("\n".join(lines))
    for name in CLUSTERS.values():
        (folder / name).mkdir()
        shutil.copy(Recording(RECORDINGS / name).snapshots[0].path, folder / name)
    both = CycleRequest(str(folder / "lake"), configuration=str(folder / "evenkeel.toml"), run_id="run 0")
    run_cycle(spark, both, lambda task, seconds: None)
    for cluster, name in CLUSTERS.items():
        shutil.copytree(RECORDINGS / name, folder / name, dirs_exist_ok=True)
        decide(spark, folder / "evenkeel.toml", folder / "lake", cluster, -1)
    return folder


def decide(spark: Any, configuration: Path, lake: Path, cluster: str, place: int) -> None:
    """A cycle over one of the recording's snapshots."""
    at = Recording(RECORDINGS / CLUSTERS[cluster]).snapshots[place].cycle_at
    given = {"configuration": str(configuration), "clusters": (cluster,), "at": at, "run_id": f"run {place}"}
    run_cycle(spark, CycleRequest(str(lake), **given), lambda task, seconds: None)


@pytest.fixture
def lake(recorded: Path, tmp_path: Path) -> Path:
    """A copy to be tampered with."""
    return Path(shutil.copytree(recorded / "lake", tmp_path / "lake"))


@pytest.fixture
def verified(spark: Any) -> Callable[..., VerifyReport]:
    @contextmanager
    def session() -> Iterator[Any]:
        yield spark

    return lambda lake, **more: verify(str(lake), session, **more)


def attempt(lake: Path, cluster: str, number: int = -1) -> Attempt:
    return read_attempts(lake, cluster=cluster)[number]


def test_every_cycle_is_reproduced_from_its_topics_on(recorded: Path, verified: Callable[..., VerifyReport]) -> None:
    told: list[tuple[int, int]] = []
    found = verified(recorded / "lake", progress=lambda done, total: told.append((done, total)))
    assert [fault.sentence() for fault in found.faults] == []
    assert sorted(found.verified.reproduced.values()) == [TOPICS] * 4
    assert told[-1] == (4, 4)
    assert found.manifests == {"extensible": 4, "modular": 4}
    assert "4 of 4 cycles reproduced (4 from the topics on)" in as_text(found)
    assert as_json(found)["sound"] is True
    assert as_json(found)["writes_by_rows"] == 0


def test_the_cycles_decided_enough_to_be_worth_proving(recorded: Path) -> None:
    planned = [one.planned for one in read_attempts(recorded / "lake")]
    assert sum(row["splits"] for row in planned) > 0
    assert sum(row["unloads"] for row in planned) > 0
    assert any(row["reads"] for row in planned)


def test_of_a_long_chain_it_is_said_that_it_is_looked_at(
    recorded: Path, verified: Callable[..., VerifyReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    verified(recorded / "lake", depth=None, say=said.append)
    monkeypatch.setattr("evenkeel.verify._LONG", 8)
    verified(recorded / "lake", depth=None, say=said.append)
    assert said == ["looking at the links of 8 manifests"]


def test_a_part_is_verified_by_cluster_time_and_depth(recorded: Path, verified: Callable[..., VerifyReport]) -> None:
    last = attempt(recorded / "lake", "modular")
    found = verified(recorded / "lake", cluster="modular", since=last.cycle_at, depth=BUNDLES)
    assert (found.verified.reproduced, found.is_sound) == ({last.attempt_id: BUNDLES}, True)
    chain_only = verified(recorded / "lake", depth=None)
    assert (chain_only.verified.tried, chain_only.is_sound) == (0, True)
    assert (found.read, found.attempts, chain_only.read, chain_only.attempts) == (2, 1, 8, 4)
    assert "of the range, and read in full: 2 manifests" in as_text(found)
    with pytest.raises(NoSuchCycle, match="no cycle of cluster 'else'"):
        verified(recorded / "lake", cluster="else")


@pytest.mark.exhaustive
def test_an_exported_part_verifies_by_itself(
    recorded: Path, tmp_path: Path, verified: Callable[..., VerifyReport]
) -> None:
    own = attempt(recorded / "lake", "modular")
    part = export(str(recorded / "lake"), str(tmp_path / "part"), since=own.cycle_at, until=own.cycle_at)
    found = verified(part.path)
    assert [fault.sentence() for fault in found.faults] == []
    assert found.verified.reproduced == {own.attempt_id: TOPICS}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "upkeeps",
    [
        pytest.param(((("topics",), BUNDLES),), id="one"),
        pytest.param(
            (((), TOPICS), (("topics",), BUNDLES), (("topics", "observed", "considered"), None)), id="three, compiled"
        ),
    ],
)
def test_after_upkeep_every_cycle_verifies_as_deep_as_its_periods_reach(
    request: pytest.FixtureRequest,
    spark: Any,
    lake: Path,
    verified: Callable[..., VerifyReport],
    upkeeps: tuple[tuple[tuple[str, ...], str | None], ...],
) -> None:
    """Compacted first, with topics or without, then by the chain alone. Sessions of operators compile their queries.

    An upkeep that is yet to come counts for nothing, so the periods are such that the cycles are past some of them now.
    """
    age = (datetime.now(UTC) - attempt(lake, "modular").cycle_at).days
    request.addfinalizer(lambda: compile_queries(spark, compiled=False))
    compile_queries(spark, compiled=len(upkeeps) > 1)
    for past, depth in upkeeps:
        given = {f"{kind}_days": 2 if kind in past else age + 2 for kind in ("topics", "observed", "considered")}
        given |= {"audit_days": age + 400, "unlisted_days": 2}
        keep(spark, Request(str(lake), by="tests", given=given, shorten=True), lambda text: None)
        found = verified(lake)
        assert [fault.sentence() for fault in found.faults] == []
        assert found.verified.by_rows == 0
        assert set(found.verified.reproduced.values()) == ({depth} if depth else set())
        assert len(found.verified.expired) == (0 if depth else 4)


@pytest.mark.exhaustive
def test_a_row_changed_through_delta_is_named_and_the_cycle_decided_from_what_it_was(
    spark: Any, lake: Path, verified: Callable[..., VerifyReport]
) -> None:
    own = attempt(lake, "modular")
    (write,) = own.writes_of("bundle_load")
    where = f"cluster = 'modular' AND write_id = '{write.write_id}'"
    row = spark.read.format("delta").load(f"{lake}/bundle_load").where(where).first()
    spark.sql(
        f"UPDATE delta.`{lake}/bundle_load` SET topics = 4711 WHERE {where} AND bundle = '{row.bundle}'"
    ).collect()
    found = verified(lake, depth=BUNDLES)
    (fault,) = of_rows(found)
    assert (fault.kind, fault.table, fault.cycle_at) == (CONTENT, "bundle_load", own.cycle_at)
    assert write.write_id in fault.place
    assert f"{row.bundle}: topics {json.dumps(row.topics)} became 4711" in fault.words
    assert len(found.verified.reproduced) == 4


@pytest.mark.exhaustive
def test_what_a_changed_row_was_cannot_be_told_once_the_files_of_that_version_were_vacuumed(
    spark: Any, lake: Path, verified: Callable[..., VerifyReport]
) -> None:
    own = attempt(lake, "modular")
    (write,) = own.writes_of("bundle_load")
    where = f"cluster = 'modular' AND write_id = '{write.write_id}' AND topics IS NOT NULL"
    spark.sql(f"UPDATE delta.`{lake}/bundle_load` SET topics = 4711 WHERE {where}").collect()
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql(
        f"ALTER TABLE delta.`{lake}/bundle_load` SET TBLPROPERTIES (delta.deletedFileRetentionDuration = '0 hours')"
    )
    spark.sql(f"VACUUM delta.`{lake}/bundle_load`").collect()
    found = verified(lake, cluster="modular", depth=BUNDLES)
    vacuumed, undecided = of_rows(found)
    assert (vacuumed.kind, undecided.kind, undecided.cycle_at) == (CONTENT, UNKNOWN, own.cycle_at)
    assert "its rows cannot be read as they were written: " in vacuumed.words
    assert f"{write.files[0].path} is gone" in vacuumed.words
    assert "rows of bundle_load that it rests on cannot be read as they were" in undecided.words
    assert len(found.verified.reproduced) == 1


@pytest.mark.exhaustive
def test_a_row_removed_through_delta_is_counted_and_named(
    spark: Any, lake: Path, verified: Callable[..., VerifyReport]
) -> None:
    (write,) = attempt(lake, "extensible").writes_of("unload_decisions")
    where = f"cluster = 'extensible' AND write_id = '{write.write_id}' AND outcome = 'unload'"
    gone = spark.read.format("delta").load(f"{lake}/unload_decisions").where(where).orderBy("subject").first()
    spark.sql(f"DELETE FROM delta.`{lake}/unload_decisions` WHERE {where} AND subject = '{gone.subject}'").collect()
    (fault,) = of_rows(verified(lake, cluster="extensible", depth=BUNDLES))
    assert f"{write.rows - 1} rows are there of {write.rows} listed" in fault.words
    assert f"subject_kind broker, subject {gone.subject}, strategy TransferShedder is missing" in fault.words


@pytest.mark.parametrize("checksum", ["none", pytest.param("stale", marks=pytest.mark.exhaustive)])
def test_a_value_changed_in_a_file_is_named_by_that_file(
    lake: Path, verified: Callable[..., VerifyReport], checksum: str
) -> None:
    own = attempt(lake, "modular")
    (write,) = own.writes_of("broker_load")
    there = files(lake / "broker_load" / "cluster=modular")
    ids = {path: pq.read_table(path, partitioning=None)["write_id"][0].as_py() for path in there}
    path = min(path for path, write_id in ids.items() if write_id == write.write_id)
    rows = pq.read_table(path, partitioning=None)
    changed = [(value or 0.0) + 1.0 for value in rows["weighted_usage"].to_pylist()]
    place = rows.schema.get_field_index("weighted_usage")
    pq.write_table(rows.set_column(place, "weighted_usage", pa.array(changed, pa.float64())), path)
    if checksum == "stale":  # Hadoop's, of an earlier version: its head, bytes per sum, and a sum
        path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"0000")
    found = verified(lake, depth=BUNDLES)
    content = [fault for fault in of_rows(found) if fault.kind == CONTENT]
    assert [fault.table for fault in content] == ["broker_load"]
    assert path.name in content[0].words
    assert len(found.verified.reproduced) == 3
    (other,) = [fault for fault in found.faults if fault.kind != CONTENT]
    assert (other.kind, other.cycle_at) == (UNKNOWN, own.cycle_at)


@pytest.mark.exhaustive
def test_upkeep_vouches_for_no_date_whose_rows_are_not_what_manifests_list(
    spark: Any, lake: Path, verified: Callable[..., VerifyReport]
) -> None:
    own = attempt(lake, "modular")
    (write,) = own.writes_of("bundle_load")
    where = f"cluster = 'modular' AND write_id = '{write.write_id}' AND topics IS NOT NULL"
    spark.sql(f"UPDATE delta.`{lake}/bundle_load` SET topics = 4711 WHERE {where}").collect()
    told: list[str] = []
    done = keep(spark, Request(str(lake), by="tests"), told.append, own.cycle_at + timedelta(days=2))
    day = own.cycle_at.date()
    (words,) = done.wrong
    assert words in told
    assert f"wrong: {words}" in upkeep_as_text(done)
    assert words.startswith(f"bundle_load of modular, {day}: ")
    assert f"`evenkeel verify --cluster modular --from {day} --to {day}`" in words
    proven = {(row["table_name"], row["cluster"], row["cycle_date"]) for row in read_table(lake, "proofs")}
    assert ("bundle_load", "modular", day) not in proven
    assert ("bundle_load", "extensible", attempt(lake, "extensible").cycle_at.date()) in proven
    found = verified(lake, cluster="modular", depth=BUNDLES)
    content = [fault for fault in of_rows(found) if fault.kind == CONTENT]
    assert [(fault.table, fault.cycle_at) for fault in content] == [("bundle_load", own.cycle_at)]
    assert len(of_rows(found)) == 1


def of_rows(found: VerifyReport) -> list[Fault]:
    """All faults but those of the commits that brought them about."""
    return [fault for fault in found.faults if not fault.place.startswith("commit ")]


def files(table: Path) -> list[Path]:
    return [path for path in table.rglob("*.parquet") if "_delta_log" not in path.parts]


def test_a_manifest_changed_through_delta_is_named_with_the_commit(
    spark: Any, lake: Path, verified: Callable[..., VerifyReport]
) -> None:
    spark.sql(f"UPDATE delta.`{lake}/cycles` SET mode = 'auto' WHERE cluster = 'modular' AND sequence = 2").collect()
    found = [fault for fault in verified(lake, depth=None).faults if fault.kind == CHAIN]
    assert any(fault.place == "row 2, closed" and "changed after it was written" in fault.words for fault in found)
    assert any("is a UPDATE of" in fault.words for fault in found)
    # Of a range that it is not in only the links are looked at, and these it has left as they were.
    later = verified(lake, depth=None, cluster="modular", since=attempt(lake, "modular").cycle_at)
    assert (len(later.faults), of_rows(later)) == (1, [])


def test_a_manifest_replaced_outside_the_range_does_not_fit_its_neighbour(
    spark: Any, lake: Path, verified: Callable[..., VerifyReport]
) -> None:
    forged = f"UPDATE delta.`{lake}/cycles` SET body_digest = sha2('', 256), manifest_digest = sha2('x', 256)"
    spark.sql(f"{forged} WHERE cluster = 'modular' AND sequence = 2").collect()
    found = verified(lake, depth=None, cluster="modular", since=attempt(lake, "modular").cycle_at)
    assert [fault.place for fault in of_rows(found)] == ["row 2, closed", "row 3, planned"]


def test_the_newest_manifests_cut_off_show_in_the_log_alone(
    spark: Any, lake: Path, verified: Callable[..., VerifyReport]
) -> None:
    spark.sql(f"DELETE FROM delta.`{lake}/cycles` WHERE cluster = 'modular' AND sequence > 2").collect()
    (fault,) = verified(lake, depth=None).faults
    assert "is a DELETE of" in fault.words


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (None, DATA),
        *(
            pytest.param(*other, marks=pytest.mark.exhaustive)
            for other in (("d3:3.11/4.1:another", CODE), ("c0de" * 16, DEFINITION))
        ),
    ],
)
def test_a_plan_that_does_not_come_out_is_told_apart_by_the_code_that_decided(
    lake: Path, verified: Callable[..., VerifyReport], code: str | None, kind: str
) -> None:
    """The whole chain is forged, so that it alone has no fault."""

    def forge(row: dict[str, Any]) -> dict[str, Any]:
        changed = {"unloads": row["unloads"] + 1} | ({"code_digest": code, "code_version": "0.0.9"} if code else {})
        return {**row, **changed} if row["cluster"] == "modular" and row["sequence"] > 2 else row

    rewrite_chain(lake, forge)
    own = attempt(lake, "modular")
    (fault,) = verified(lake, depth=BUNDLES).faults
    assert (fault.kind, fault.attempt_id) == (kind, own.attempt_id)
    assert f"unloads {own.planned['unloads']} became {own.planned['unloads'] - 1}" in fault.words
    assert ("decided by version 0.0.9" in fault.words) == bool(code)
    assert ("other definition" in fault.words) == (kind == DEFINITION)


def rewrite_chain(lake: Path, changed: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The table `cycles` made anew, in one commit, with digests to match."""
    rows = sorted(DeltaTable(str(lake / "cycles")).to_pyarrow_table().to_pylist(), key=lambda r: r["sequence"])
    heads: dict[str, str] = {}
    made = []
    for old in rows:
        row = changed(old)
        before = heads.get(row["cluster"], "")
        row = {**row, "body_digest": body_digest(row), "previous_digest": before}
        heads[row["cluster"]] = row["manifest_digest"] = hashlib.sha256(
            (before + row["body_digest"]).encode()
        ).hexdigest()
        made.append(row)
    shutil.rmtree(lake / "cycles")
    names = list(made[0])
    whole = arrow_schema(CYCLES)
    schema = pa.schema([whole.field(name) for name in whole.names if name in names])
    write_deltalake(str(lake / "cycles"), pa.Table.from_pylist(made, schema), partition_by=["cluster"])


@pytest.fixture(scope="module")
def windowed(spark: Any, recorded: Path, empty_lake: Callable[[Path], Path]) -> Path:
    """The same cycles as one window wrote them; nobody writes to it."""
    lake = empty_lake(recorded / "windowed")
    as_one_window(spark, recorded / "lake", lake)
    return lake


@pytest.mark.exhaustive
def test_cycles_of_a_window_are_proved_by_the_files_that_they_share(
    windowed: Path, verified: Callable[..., VerifyReport]
) -> None:
    found = verified(windowed)
    assert [fault.sentence() for fault in found.faults] == []
    assert sorted(found.verified.reproduced.values()) == [TOPICS] * 4
    assert found.verified.by_rows == 0
    shared = Counter(
        path for one in read_attempts(windowed) for path in {file["path"] for file in one.planned["files"]}
    )
    assert max(shared.values()) == 2, "both cycles of a cluster list the file that holds them"


@pytest.mark.exhaustive
def test_of_a_file_that_cycles_share_the_one_is_named_whose_rows_were_changed(
    spark: Any, windowed: Path, tmp_path: Path, verified: Callable[..., VerifyReport]
) -> None:
    lake = Path(shutil.copytree(windowed, tmp_path / "lake"))
    first, second = read_attempts(lake, cluster="modular")
    ((write,), (other,)) = (one.writes_of("broker_load") for one in (first, second))
    assert {*write.files} == {*other.files}
    where = f"cluster = 'modular' AND write_id = '{write.write_id}'"
    spark.sql(f"UPDATE delta.`{lake}/broker_load` SET weighted_usage = weighted_usage + 1 WHERE {where}").collect()
    found = verified(lake, cluster="modular", depth=BUNDLES)
    content = [fault for fault in of_rows(found) if fault.kind == CONTENT]
    assert [(fault.table, fault.cycle_at) for fault in content] == [("broker_load", first.cycle_at)]


@pytest.mark.exhaustive
def test_an_export_of_one_cycle_of_a_window_takes_the_files_of_its_rows(
    windowed: Path, tmp_path: Path, verified: Callable[..., VerifyReport]
) -> None:
    (first, second) = read_attempts(windowed, cluster="modular")
    export(str(windowed), tmp_path / "out", since=first.cycle_at, until=first.cycle_at, cluster="modular")
    rows = [row for row in read_table(tmp_path / "out", "bundle_load") if row["cycle_at"] == first.cycle_at]
    assert len(rows) == sum(write.rows for write in first.writes_of("bundle_load")) > 0
    for write in first.writes:
        assert rows_digest(tmp_path / "out", write) == rows_digest(windowed, write)
    assert [fault.sentence() for fault in verified(tmp_path / "out").faults] == []
    (write, *_) = second.writes_of("unload_decisions")
    assert [one.cycle_at for one in of_write(windowed, write.write_id, cluster="modular").direct] == [second.cycle_at]
