"""The judge: its model bounds everybody alike, its scenarios can be balanced, and it counts what it says it counts.

Left out: how good any shedder is. That is what the judge measures.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.judge import fault_of, main
from benchmarks.judged_cluster import CPU, BentCurve, Machine
from benchmarks.judged_run import _Day, _over_budget, measure, play
from benchmarks.judged_scenarios import MEANINGS, SIZES, JudgedSize, judged_scenario
from benchmarks.judged_variants import (
    AXES,
    NOBODY,
    PLANNER,
    SHEDDERS,
    TUNED_FILE,
    TUNING_SEEDS,
    grid_of,
    settings_with,
)
from evenkeel.settings import Settings

GENERATED = [name for name in MEANINGS if name != "series"]
SHORT = JudgedSize(6, 48, 60)
EAGER = {"evenkeelGuardsEnabled": False, "loadBalancerMsgRateDifferenceShedderThreshold": 20.0, "minUnloadMessage": 0}
AT = datetime(2026, 3, 2, tzinfo=UTC)


def cluster_of(name: str, seed: int = 7):
    """A scenario's cluster in its first cycle."""
    scenario = judged_scenario(name, SHORT, seed)
    cluster = scenario.cluster("one", "modular")
    cluster.observe(AT, scenario.factors[0], scenario.down(0), Settings())
    return scenario, cluster


@given(st.floats(0.0, 0.5), st.floats(0.25, 4.0), st.floats(0.0, 10.0))
def test_the_bent_curve_is_convex_and_turns_back(base: float, strength: float, work: float) -> None:
    curve = BentCurve(base, strength)
    assert curve.load_within(curve.usage(work)) == pytest.approx(work, rel=1e-6, abs=1e-9)
    assert curve.usage(0.0) == base
    assert curve.usage(strength) == pytest.approx(1.0)
    assert curve.load_within(base / 2) == 0.0
    low, middle, high = (curve.usage(work + step) for step in (0.0, 0.5, 1.0))
    assert low < middle < high
    assert middle - low <= (high - middle) * (1 + 1e-9)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", GENERATED)
def test_all_scenarios_but_one_can_be_balanced(name: str, seed: int) -> None:
    scenario = judged_scenario(name, SIZES["small"], seed)
    assert fault_of(scenario) is None
    bound = scenario.targets(0)[CPU].bound_by
    assert bound == {"unmendable": "bundle", "reserved": "rules"}.get(name, "margin")


def test_a_larger_cluster_can_be_balanced_too() -> None:
    for name in ("uneven", "mixed-hardware", "reserved", "unmendable"):
        assert fault_of(judged_scenario(name, SIZES["medium"], 1)) is None


@pytest.mark.parametrize("name", GENERATED)
def test_a_seed_draws_one_scenario_and_another_seed_another(name: str) -> None:
    one, again, other = (judged_scenario(name, SHORT, seed) for seed in (7, 7, 8))
    assert np.array_equal(one.factors, again.factors)
    assert np.array_equal(one.traffic.bytes_in, again.traffic.bytes_in)
    assert one.owners == again.owners
    assert one.owners != other.owners
    assert all(one.down(n) == again.down(n) for n in range(one.cycles))


@pytest.mark.parametrize("shedder", ["UniformLoadShedder", "TransferShedder"])
@pytest.mark.parametrize("name", ["lost-and-back", "two-resources", "reserved", "unmendable"])
def test_a_run_repeats_itself_and_is_never_below_the_bound(name: str, shedder: str) -> None:
    scenario = judged_scenario(name, SHORT, 7)
    asked = measure(scenario, settings_with(NOBODY))
    one, again = (play(scenario, settings_with(SHEDDERS[shedder], EAGER), asked) for _ in range(2))
    assert one == again
    assert one.ratios
    assert min(one.ratios) >= 1.0 - 1e-9
    assert min(one.uneven) >= 1.0
    assert one.unserved == 0.0
    assert len(one.absorbed) == len(one.floors) == len(scenario.shocks)


def test_bundles_of_a_lost_broker_are_placed_under_both_load_managers() -> None:
    scenario = judged_scenario("two-removed", SHORT, 7)
    asked = measure(scenario, settings_with(NOBODY))
    gone = scenario.down(scenario.cycles - 1)
    assert len(gone) == 2
    lost = sum(owner in gone for owner in scenario.owners.values())
    for shedder in ("OverloadShedder", "TransferShedder"):
        assert play(scenario, settings_with(SHEDDERS[shedder]), asked).placed >= lost


def test_nobody_moves_nothing_and_cycles_of_absorbing_are_not_scored() -> None:
    scenario = judged_scenario("two-removed", SHORT, 7)
    asked = measure(scenario, settings_with(NOBODY))
    found = play(scenario, settings_with(NOBODY), asked)
    assert (found.moves, found.splits, found.moved, found.bounces, found.over_budget) == (0, 0, {}, 0, 0)
    for shock in scenario.shocks:
        # ceil(floor / 9 %) + 2 acting cycles of three minutes each.
        assert not any(asked.scored[shock : shock + 6])
    assert len(found.ratios) == sum(asked.scored)


def test_reports_are_late_and_end_at_one_hundred_percent() -> None:
    scenario, cluster = cluster_of("uneven")
    settings = Settings()
    first, second = sorted(scenario.machines)[:2]
    moving = sorted(bundle for bundle, owner in cluster.owner.items() if owner == first)
    before = cluster.usage()[first]
    for bundle in moving:
        cluster._give(bundle, second, AT)
    cluster.observe(AT + scenario.every, scenario.factors[1], frozenset(), settings)
    base = Machine().base
    assert cluster.demand[CPU][first] == pytest.approx(base)
    assert base + 0.3 * (before - base) < cluster.usage()[first] < before
    cluster.observe(AT + 2 * scenario.every, scenario.factors[2], frozenset(), settings)
    assert cluster.usage()[first] == pytest.approx(base, rel=0.2)
    cluster.observe(AT + 3 * scenario.every, 20.0 * scenario.factors[3], frozenset(), settings)
    assert max(cluster.demand[CPU].values()) > 1.0
    assert max(cluster.usage().values()) == 1.0


def test_a_split_loses_no_load() -> None:
    scenario, cluster = cluster_of("unmendable")
    parent = max(sorted(cluster.owner), key=lambda bundle: cluster.load_of(bundle)[CPU])
    lower, upper = (int(part, 16) for part in parent.rpartition("/")[2].split("_"))
    command = {
        "kind": "split", "bundle": parent, "cuts": [(lower + upper) // 2], "unload_children": True, "command_id": "1",
        "plan_id": "", "from_broker": cluster.owner[parent],
    }  # fmt: skip
    before = math.fsum(cluster.carried()[CPU].values())
    cluster.carry_out([(command, None)], [])
    cluster.observe(AT + scenario.every, scenario.factors[0], frozenset(), Settings())
    assert parent not in cluster.owner
    assert len(cluster.owner) == len(scenario.owners) + 1
    assert math.fsum(cluster.carried()[CPU].values()) == pytest.approx(before)


def test_what_counts_as_over_a_budget() -> None:
    def moves(count: int, sources: int) -> list[tuple[str, str]]:
        return [(f"from-{n % sources}", f"to-{n % sources}") for n in range(count)]

    assert not _over_budget([], 0.0)
    assert not _over_budget(moves(20, 5), 0.09)
    assert _over_budget(moves(21, 7), 0.05)
    assert _over_budget(moves(6, 1), 0.05)
    assert _over_budget(moves(2, 2), 0.10)
    assert not _over_budget(moves(1, 1), 0.20)


def test_a_bundle_returns_unless_a_day_has_gone_or_something_broke() -> None:
    hour = 3_600_000
    day = _Day()
    assert not day.returns("b", "one", "two", 0)
    assert day.returns("b", "two", "one", 5 * hour)
    assert not day.returns("other", "two", "one", 5 * hour)
    assert not day.returns("b", "one", "two", 30 * hour)
    day.forget()
    assert not day.returns("b", "two", "one", 31 * hour)


def test_topics_follow_a_series(tmp_path: Path) -> None:
    file = tmp_path / "counts.csv"
    minutes = SIZES["small"].minutes * 24
    rows = [",".join(["f", *(str(n % 7 + 1) for n in range(minutes))]), ",".join(["idle", *["0"] * minutes])]
    file.write_text("\n".join([",".join(["name", *(f"minute_{n}" for n in range(1, minutes + 1))]), *rows]))
    scenario = judged_scenario("series", SHORT, 7, file)
    assert scenario.factors.shape == (48, len(scenario.traffic.topics))
    assert scenario.factors.mean() == pytest.approx(1.0, rel=0.05)
    with pytest.raises(SystemExit, match="--series FILE"):
        judged_scenario("series", SHORT, 7)


def test_settings_are_tuned_for_every_scenario_on_seeds_of_their_own() -> None:
    tuned = json.loads(TUNED_FILE.read_text(encoding="utf-8"))
    assert tuned.keys() == MEANINGS.keys()
    for found in tuned.values():
        assert found.keys() == SHEDDERS.keys() == AXES.keys()
        for shedder, best in found.items():
            assert best["settings"] in grid_of(shedder)
    with pytest.raises(SystemExit):
        main(["--seeds", "1", str(TUNING_SEEDS[0])])


def test_the_tables_name_every_shedder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "uneven", "--seeds", "1"]) == 0
    printed = capsys.readouterr().out
    for shedder in SHEDDERS:
        assert f"| {shedder} |" in printed
    for how in ("defaults, no guards", "defaults", "tuned"):
        assert f"**{how}**" in printed
    assert "CPU s" in printed


def test_the_package_knows_nothing_of_its_judge() -> None:
    package = Path(__file__).resolve().parents[2] / "spark" / "evenkeel"
    knowing = [path for path in package.rglob("*.py") if "benchmarks" in path.read_text(encoding="utf-8")]
    assert not knowing


@pytest.mark.parametrize("name", ["uneven", "mixed-hardware", "lost-and-back", "on-off"])
@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_the_planner_gets_clusters_even_without_bounces_and_within_its_budgets(name: str, manager: str) -> None:
    scenario = judged_scenario(name, SIZES["small"], 3)
    own = {} if manager == "modular" else SHEDDERS["TransferShedder"]
    found = play(scenario, settings_with(own, PLANNER), measure(scenario, settings_with(NOBODY)))
    assert (found.bounces, found.returns, found.over_budget, found.held) == (0, 0, 0, 0)
    assert found.ratio <= 1.10
    assert 0 < found.moves < 60
