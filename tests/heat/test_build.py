"""Building: what the record says, each column once, whatever comes late, is decided again, or is killed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.errors import NoLake, NoSuchCycle
from evenkeel.heat import build
from evenkeel.heat.scale import LAYERS
from evenkeel.heat.tables import BLOCKS, HeatConflict, HeatTables
from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.schemas import HEAT_TABLES, OF_RECORD, TABLES
from evenkeel.spark.server import Engine
from tests.heat.histories import (
    BEGIN,
    CLUSTER,
    HALVES,
    WHOLE,
    History,
    at_minute,
    cells,
    digests,
    kept_lake,
    load,
    marks,
)

pytestmark = pytest.mark.slow

QUARTERS = ((0, 1 << 30), (1 << 30, 1 << 31), (1 << 31, 0xFFFFFFFF))
BUILDER = "evenkeel.heat.builder"


def rows(minute: int) -> list[dict[str, Any]]:
    """Two namespaces; one splits after 40 minutes, the other's owner changes every 20."""
    bundles = HALVES if minute < 40 else QUARTERS
    own = [load("acme/a", one, 10.0 + minute + n) for n, one in enumerate(bundles)]
    return [*own, load("acme/b", WHOLE[0], 5.0, f"b{minute // 20 % 2 + 1}")]


def history(root: Path, minutes: range) -> History:
    made = History(root)
    with made.lake.one_commit():
        for minute in minutes:
            made.cycle(minute, rows(minute))
    return made


@pytest.fixture(scope="module")
def seven_hours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cycle every ten minutes from BEGIN on, not built yet."""
    return history(tmp_path_factory.mktemp("history") / "lake", range(0, 425, 10)).root


@pytest.fixture(scope="module")
def built(seven_hours: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = Path(shutil.copytree(seven_hours, tmp_path_factory.mktemp("built") / "lake"))
    build(str(lake))
    return lake


def test_each_layer_has_the_columns_that_are_over_and_the_finest_all(built: Path) -> None:
    found = digests(built)
    counts = {layer.seconds: sum(seconds == layer.seconds for seconds, _ in found) for layer in LAYERS}
    assert counts == {60: 43, 600: 42, 3_600: 7, 21_600: 1}
    assert len({*found.values()}) == 43 + 7 + 1, "each column is made of other cycles"


def test_building_again_does_nothing(built: Path) -> None:
    before = newest_version(str(built / BLOCKS))
    (done,) = build(str(built))
    assert (done.cycles, done.columns, done.marks) == (0, 0, 0)
    assert newest_version(str(built / BLOCKS)) == before


def test_bit_by_bit_is_the_same_as_at_once(built: Path, tmp_path: Path) -> None:
    made = History(tmp_path / "lake")
    for begin in range(0, 425, 120):
        with made.lake.one_commit():
            for minute in range(begin, min(begin + 120, 425), 10):
                made.cycle(minute, rows(minute))
        build(str(made.root))
    assert cells(made.root) == cells(built)
    assert digests(made.root) == digests(built)
    assert marks(made.root) == marks(built)


@pytest.mark.parametrize(
    "minute",
    [
        pytest.param(70, id="decided again"),
        pytest.param(67, id="late", marks=pytest.mark.exhaustive),
        pytest.param(400, id="in the last hour", marks=pytest.mark.exhaustive),
    ],
)
def test_a_cycle_that_is_late_or_decided_again_leads_to_its_own_columns_and_no_others(
    seven_hours: Path, built: Path, tmp_path: Path, minute: int
) -> None:
    lake = Path(shutil.copytree(built, tmp_path / "lake"))
    before = digests(lake)
    made = History(lake)
    made.lake._sequence[CLUSTER], made.lake._writes = 2 * 43, 1_000
    own = [load("acme/a", one, 1_000.0) for one in QUARTERS]
    made.cycle(minute, own, attempt=2, attempt_id=f"again at {minute}")
    (done,) = build(str(lake))
    after = digests(lake)
    at = int(at_minute(minute).timestamp())
    changed = {place for place in after if before.get(place) != after[place]}
    expected = {(layer.seconds, layer.column_of(at)) for layer in LAYERS}
    assert changed == {place for place in expected if place in after}
    assert done.columns == len(changed)
    for name in HEAT_TABLES:
        shutil.rmtree(lake / name)
    anew = cells_after(lake)
    shutil.rmtree(lake / BLOCKS)
    assert anew == cells_after(lake)
    del seven_hours


def cells_after(lake: Path) -> dict[Any, Any]:
    build(str(lake))
    return cells(lake)


class Killed(BaseException):
    """As a kill: nobody catches it."""


@pytest.mark.parametrize("kill_at", [0, 4, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (1, 2, 3, 5))])
def test_killed_at_any_commit_and_run_again_there_is_one_set_of_rows(
    seven_hours: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill_at: int
) -> None:
    lake = Path(shutil.copytree(seven_hours, tmp_path / "lake"))
    monkeypatch.setattr(f"{BUILDER}._FLUSH_WINDOWS", 1)
    count = iter(range(100))
    committed = HeatTables._committed

    def sometimes(self: HeatTables, name: str, write: Callable[[], None]) -> None:
        number = next(count)
        if number == kill_at // 2 and kill_at % 2 == 0:
            raise Killed
        committed(self, name, write)
        if number == kill_at // 2:
            raise Killed

    monkeypatch.setattr(HeatTables, "_committed", sometimes)
    with pytest.raises(Killed):
        build(str(lake))
    monkeypatch.setattr(HeatTables, "_committed", committed)
    build(str(lake))
    assert cells(lake) == cells(built)
    assert marks(lake) == marks(built)


def test_two_at_once_do_no_harm(
    seven_hours: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Path(shutil.copytree(seven_hours, tmp_path / "lake"))
    monkeypatch.setattr(f"{BUILDER}._FLUSH_WINDOWS", 1)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: build(str(lake)), range(3)))
    assert cells(lake) == cells(built)
    assert marks(lake) == marks(built)


def test_a_second_writer_of_a_block_learns_of_the_first(built: Path, tmp_path: Path) -> None:
    lake = Path(shutil.copytree(built, tmp_path / "lake"))
    first, second = HeatTables(str(lake)), HeatTables(str(lake))
    start = LAYERS[0].block_of(BEGIN.timestamp())
    block = first.block(CLUSTER, LAYERS[0], start)
    first.replace(CLUSTER, [block], None)
    with pytest.raises(HeatConflict):
        second.replace(CLUSTER, [block], None)
    assert cells(lake) == cells(built)


def test_what_is_past_its_layers_period_is_forgotten(tmp_path: Path) -> None:
    made = history(tmp_path / "lake", range(0, 30, 5))
    build(str(made.root))
    days = 5 * 24 * 60
    made.cycle(days, rows(0))
    build(str(made.root))
    kept = digests(made.root)
    assert {at for seconds, at in kept if seconds == 60} == {int(at_minute(days).timestamp())}
    assert {at for seconds, at in kept if seconds == 600} >= {int(BEGIN.timestamp())}
    assert (21_600, int(BEGIN.timestamp())) in kept, "a column that is over by now, though nothing joined it"


def test_rows_that_are_gone_leave_what_was_built_of_them(tmp_path: Path) -> None:
    made = history(tmp_path / "lake", range(0, 30, 5))
    build(str(made.root))
    before = cells(made.root)
    from deltalake import DeltaTable

    DeltaTable(str(made.root / "bundle_load")).delete(f"cycle_date = '{BEGIN.date()}'")
    made.cycle(24 * 60, rows(0))
    build(str(made.root))
    assert before.items() <= cells(made.root).items()


def test_an_attempt_without_bundles_takes_its_column_away(tmp_path: Path) -> None:
    made = history(tmp_path / "lake", range(0, 30, 5))
    build(str(made.root))
    made.cycle(10, [], attempt=2, status="failed", reason="no answer")
    build(str(made.root))
    at = int(at_minute(10).timestamp())
    assert (60, at) not in digests(made.root)
    assert (60, at - 300) in digests(made.root)


def test_a_chain_that_was_set_back_is_looked_at_as_a_whole(tmp_path: Path) -> None:
    made = history(tmp_path / "lake", range(0, 30, 5))
    build(str(made.root))
    shutil.rmtree(made.root / "cycles")
    shutil.rmtree(made.root / "bundle_load")
    copy = History(made.root)
    copy.cycle(0, rows(0), attempt_id="another")
    copy.cycle(60, rows(0))
    build(str(made.root))
    assert (60, int(at_minute(60).timestamp())) in digests(made.root)


def test_clusters_have_heat_of_their_own_and_one_can_be_built_alone(tmp_path: Path) -> None:
    made = History(tmp_path / "lake")
    for cluster, rate in (("eu-1", 10.0), ("it's", 20.0)):
        made.cycle(0, [load("acme/a", WHOLE[0], rate)], cluster=cluster)
    assert [one.cluster for one in build(str(made.root), "it's")] == ["it's"]
    assert [*HeatTables(str(made.root)).places()] == ["it's"]
    assert [one.cycles for one in build(str(made.root))] == [1, 0]
    ours, theirs = (cells(made.root, cluster) for cluster in ("eu-1", "it's"))
    assert ours.keys() == theirs.keys()
    assert ours != theirs
    with pytest.raises(NoSuchCycle, match="Did you mean 'eu-1'"):
        build(str(made.root), "eu-2")


def test_without_a_lake_there_is_a_word_for_it(tmp_path: Path) -> None:
    with pytest.raises(NoLake):
        build(str(tmp_path / "none"))


def test_heat_is_no_part_of_the_record() -> None:
    assert not {*HEAT_TABLES} & {*OF_RECORD}
    assert not {*HEAT_TABLES} & {*TABLES}


# Marks


def test_a_bundle_that_comes_back_within_the_hour_is_a_bounce(tmp_path: Path) -> None:
    made = History(tmp_path / "lake")
    owners = {0: "b1", 10: "b2", 20: None, 30: "b1", 100: "b2", 110: "b1", 300: "b2"}
    last = None
    for minute, owner in owners.items():
        last = owner or last
        made.cycle(minute, [load("acme/a", WHOLE[0], 1.0, owner, last_owner=last)])
        build(str(made.root))  # bit by bit: who had it before is read from the record
    # b2 had it until minute 30, and back it came after 70 minutes; b1 until 100.
    assert marks(made.root) == [
        (at_minute(30), "bounce", "acme/a", 0, "b2 → b1, which it left 20 min before"),
        (at_minute(110), "bounce", "acme/a", 0, "b2 → b1, which it left 10 min before"),
    ]


def test_what_a_cycle_asked_for_and_what_was_held_is_marked_with_what_became_of_it(tmp_path: Path) -> None:
    made, at = History(tmp_path / "lake"), at_minute(0)
    halves = [load("acme/a", one, 1.0)["bundle"] for one in HALVES]
    command = {"command_id": "c1", "plan_id": "p", "step": 1, "bundle": halves[0], "mode": "auto", "expires_at": at}
    commands = [
        {**command, "kind": "unload", "from_broker": "b1", "destination": "b2"},
        {**command, "command_id": "c2", "kind": "split"},
        {**command, "command_id": "c3", "kind": "unload", "plan_id": "of another attempt"},
    ]
    outcome = {"command_id": "c1", "outcome": "done", "seen_at": at + timedelta(seconds=9), "detail": "moved"}
    guard = {"subject": halves[1], "subject_kind": "bundle", "position": 2, "kind": "unload", "broker": "b1",
             "destination": "b3", "outcome": "held", "rule": "harm"}  # fmt: skip
    whole = {**guard, "subject": CLUSTER, "subject_kind": "cluster", "position": 0, "kind": None}
    tables = {"commands": commands, "outcomes": [outcome], "guard_decisions": [guard, whole]}
    made.cycle(0, [load("acme/a", one, 1.0) for one in HALVES], tables, plan_id="p", mode="auto")
    build(str(made.root))
    assert marks(made.root) == [
        (at, "held", "acme/a", HALVES[1][0], "b1 → b3 held by harm"),
        (at, "move", "acme/a", 0, "b1 → b2, done"),
        (at, "split", "acme/a", 0, "split"),
    ]


@pytest.mark.spark
def test_the_record_is_as_sound_with_heat_as_without(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    lake = kept_lake(tmp_path)

    def told(*words: str) -> list[str]:
        assert main([*words, "--lake", str(lake)]) == 0
        return capsys.readouterr().out.splitlines()

    before = told("verify", "--json")
    assert told("heat")[0].startswith("extensible: up to 2026-11-21T08:27:23Z; 2 cycles looked at, 2 columns and ")
    assert told("verify", "--json") == before
    assert [line.split()[0] for line in told("storage") if line.startswith("heat")] == ["heat_blocks", "heat_marks"]
    out = tmp_path / "out"
    told("export", "--from", "2026-11-21", "--to", "2026-11-21", "--out", str(out))
    assert not (out / BLOCKS).exists()
    assert json.loads(told("heat", "--json", "--cluster", "lab")[0])["columns"] == 0
