"""Real cycles are proved, and whatever is changed about them afterwards is named."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.cli.verify import as_json, as_text
from evenkeel.errors import NoSuchCycle
from evenkeel.handover import Write
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.digest import ROW_DIGEST, contents, nothing, with_row_digest
from evenkeel.lake.manifest import CYCLES, body_digest
from evenkeel.lake.merkle import root_of
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.store import Lake
from evenkeel.maintenance.upkeep import Request, keep, upkeep_as_text
from evenkeel.pipeline import run_cycle
from evenkeel.record.export import export
from evenkeel.record.read import Attempt, read_attempts, read_table
from evenkeel.record.trace import of_write
from evenkeel.record.verify import (
    BUNDLES,
    CHAIN,
    CODE,
    CONTENT,
    DATA,
    DEFINITION,
    TOPICS,
    UNKNOWN,
    Fault,
    VerifyReport,
    verify,
)
from evenkeel.sources.recordings import Recording
from evenkeel.spark.sql import compile_queries
from tests.record.small_lake import arrow_schema
from tests.record.window_lake import as_one_window

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
    assert as_json(found)["digests"] == {"roots": 4, "sums": 0}


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
    monkeypatch.setattr("evenkeel.record.verify._LONG", 8)
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
        pytest.param(((20, BUNDLES),), id="one"),
        pytest.param(((5, TOPICS), (20, BUNDLES), (40, None)), id="three, compiled"),
    ],
)
def test_after_upkeep_every_cycle_verifies_as_deep_as_its_periods_reach(
    request: pytest.FixtureRequest,
    spark: Any,
    lake: Path,
    verified: Callable[..., VerifyReport],
    upkeeps: tuple[tuple[int, str | None], ...],
) -> None:
    """Compacted first, with topics or without, then by the chain alone. Sessions of operators compile their queries."""
    taken = attempt(lake, "modular").cycle_at
    request.addfinalizer(lambda: compile_queries(spark, compiled=False))
    compile_queries(spark, compiled=len(upkeeps) > 1)
    for days, depth in upkeeps:
        keep(spark, Request(str(lake), by="tests"), lambda text: None, taken + timedelta(days=days))
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
    assert f"version {write.version} of the table cannot be read any more" in vacuumed.words
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
@pytest.mark.parametrize("sum_is_met", [False, True], ids=["another sum", "the same sum"])
def test_upkeep_vouches_for_no_date_whose_rows_are_not_what_manifests_list(
    spark: Any, lake: Path, verified: Callable[..., VerifyReport], sum_is_met: bool
) -> None:
    own = attempt(lake, "modular")
    (write,) = own.writes_of("bundle_load")
    where = f"cluster = 'modular' AND write_id = '{write.write_id}' AND topics IS NOT NULL"
    spark.sql(f"UPDATE delta.`{lake}/bundle_load` SET topics = 4711 WHERE {where}").collect()
    if sum_is_met:
        give_the_sum(spark, lake, write)
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
    # Whose sum is met, that is not told from what was written by looking at an earlier version.
    assert len(of_rows(found)) == (2 if sum_is_met else 1)


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
            for other in (("d2:another", CODE), ("c0de" * 16, DEFINITION))
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


def test_a_manifest_names_the_root_of_each_table_that_its_attempt_wrote(spark: Any, recorded: Path) -> None:
    for one in read_attempts(recorded / "lake"):
        rows = Counter[str]()
        for write in one.writes:
            rows[write.table] += write.rows
        rows = +rows  # tables without rows have no root
        assert one.closed is not None
        assert one.closed["roots"] == one.planned["roots"]
        assert {root["table"]: root["rows"] for root in one.planned["roots"]} == rows
    for table in ("bundle_load", "settings"):
        written = [write for write in one.writes_of(table) if write.rows]
        frame = with_row_digest(Lake(str(recorded / "lake")).read(spark, table, written), table, SCHEMA_VERSION)
        digests = sorted(bytes.fromhex(row[ROW_DIGEST]) for row in frame.select(ROW_DIGEST).collect())
        (named,) = [root["root"] for root in one.planned["roots"] if root["table"] == table]
        assert named == root_of(digests).hex()


def give_the_sum(spark: Any, lake: Path, write: Write, *, roots: bool = True) -> None:
    """Manifests list the sum that the rows of a write have now: as if they had been chosen to have the one on record.

    Without `roots` no manifest names any.
    """
    frame = spark.read.format("delta").load(f"{lake}/{write.table}")
    own = frame.where(f"cluster = '{write.cluster}' AND write_id = '{write.write_id}'")
    ((_, digest),) = contents(own, write.table, SCHEMA_VERSION, ("cluster",)).values()
    assert digest != write.digest

    def with_that_sum(row: dict[str, Any]) -> dict[str, Any]:
        listed = {
            name: [{**one, "digest": digest} if one["digest"] == write.digest else one for one in row[name]]
            for name in ("writes", "reads")
        }
        return {**row, **listed, "roots": row["roots"] if roots else None}

    rewrite_chain(lake, with_that_sum)


@pytest.mark.parametrize("roots", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["roots", "sums"])
def test_rows_with_the_sum_of_those_that_were_written_are_found_by_their_root(
    spark: Any, lake: Path, verified: Callable[..., VerifyReport], roots: bool
) -> None:
    own = attempt(lake, "extensible", 0)
    (write,) = own.writes_of("broker_reports")
    where = f"cluster = 'extensible' AND write_id = '{write.write_id}'"
    spark.sql(f"UPDATE delta.`{lake}/broker_reports` SET topics = 4711 WHERE {where}").collect()
    give_the_sum(spark, lake, write, roots=roots)
    found = verified(lake, cluster="extensible", until=own.cycle_at, depth=BUNDLES, by_rows=True)
    content = [fault for fault in of_rows(found) if fault.kind == CONTENT]
    assert found.sums == (0 if roots else 1)
    if roots:
        assert [(fault.table, fault.attempt_id) for fault in content] == [("broker_reports", own.attempt_id)]
        assert "not the Merkle root" in content[0].words
    else:
        assert content == []


@pytest.mark.parametrize("version", [1, 2, 5])
@pytest.mark.exhaustive
def test_a_lake_of_an_earlier_schema_is_upgraded_and_its_cycles_verify(
    spark: Any, recorded: Path, lake: Path, verified: Callable[..., VerifyReport], version: int
) -> None:
    names, digests = CYCLES.names_at(version), digests_at(spark, lake, version)

    def written_then(row: dict[str, Any]) -> dict[str, Any]:
        listed = {
            name: [{**one, "digest": digests[one["table"], row["cluster"], one["write_id"]]} for one in row[name]]
            for name in ("writes", "reads")
        }
        return {name: {**row, "schema_version": version, **listed}[name] for name in names}

    rewrite_chain(lake, written_then)
    before = verified(lake)  # as it lies there, read by this version
    assert (before.is_sound, before.sums) == (True, 4)
    decide(spark, recorded / "evenkeel.toml", lake, "modular", 1)
    found = verified(lake)
    assert [fault.sentence() for fault in found.faults] == []
    attempts = read_attempts(lake, cluster="modular")
    assert [one.schema_version for one in attempts] == [version, SCHEMA_VERSION, version]
    assert [bool(one.planned["files"]) for one in attempts] == [version >= 3, True, version >= 3]
    assert [bool(one.planned["roots"]) for one in attempts] == [False, True, False]
    assert len(found.verified.reproduced) == 5


def digests_at(spark: Any, lake: Path, version: int) -> dict[tuple[str, str, str], str]:
    """(table, cluster, write id) -> the digest that this version of the schema gave the rows, by its columns."""
    compile_queries(spark, compiled=False)
    manifests = DeltaTable(str(lake / "cycles")).to_pyarrow_table(columns=["cluster", "writes"]).to_pylist()
    listed = {(one["table"], row["cluster"], one["write_id"]) for row in manifests for one in row["writes"]}
    found = dict.fromkeys(listed, nothing()[1])
    for name in sorted({table for table, _, _ in listed}):
        frame = spark.read.format("delta").load(str(lake / name))
        for (cluster, write_id), (_, digest) in contents(frame, name, version, ("cluster", "write_id")).items():
            found[name, cluster, write_id] = digest
    return found


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
    shared = Counter(file["path"] for one in read_attempts(windowed) for file in one.planned["files"])
    assert max(shared.values()) == 2, "both cycles of a cluster list the file that holds them"
    by_rows = verified(windowed, by_rows=True)
    assert [fault.sentence() for fault in by_rows.faults] == []
    assert by_rows.verified.by_rows > 0


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
def test_an_export_of_one_cycle_of_a_window_takes_its_rows_alone(
    windowed: Path, tmp_path: Path, verified: Callable[..., VerifyReport]
) -> None:
    (first, second) = read_attempts(windowed, cluster="modular")
    export(str(windowed), tmp_path / "out", since=first.cycle_at, until=first.cycle_at, cluster="modular")
    rows = read_table(tmp_path / "out", "bundle_load")
    assert {row["cycle_at"] for row in rows} == {first.cycle_at}
    assert len(rows) == sum(write.rows for write in first.writes_of("bundle_load")) > 0
    assert [fault.sentence() for fault in verified(tmp_path / "out").faults] == []
    (write, *_) = second.writes_of("unload_decisions")
    assert [one.cycle_at for one in of_write(windowed, write.write_id, cluster="modular").direct] == [second.cycle_at]
