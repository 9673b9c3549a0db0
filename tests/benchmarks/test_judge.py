"""The judge: its model bounds everybody alike, its scenarios can be balanced, and it counts what it says it counts.

Left out: how good any shedder is. That is what the judge measures.
"""

import hashlib
import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import judged_series
from benchmarks.judge import fault_of, main
from benchmarks.judged_cluster import CPU, BentCurve, Machine
from benchmarks.judged_goals import missed
from benchmarks.judged_knowing import heaviest_first, play_at_will, play_knowing
from benchmarks.judged_run import (
    STOP,
    Measure,
    Outcome,
    _Day,
    _over_budget,
    _over_unloaded,
    cycles_to_absorb,
    level,
    measure,
    play,
)
from benchmarks.judged_scenarios import BOOK, BOOK_LEFT, MEANINGS, SIZES, JudgedSize, judged_scenario
from benchmarks.judged_series import PublicFiles
from benchmarks.judged_variants import AXES, NOBODY, PLANNER, SHEDDERS, TUNED_FILE, TUNING_SEEDS, grid_of, settings_with
from evenkeel.settings import Settings
from evenkeel.settings.keys.balancing import SPLIT_ALGORITHMS

pytestmark = pytest.mark.slow

GENERATED = [name for name in MEANINGS if PublicFiles().suffice_for(name)]
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
def test_all_scenarios_but_two_can_be_balanced(name: str, seed: int) -> None:
    scenario = judged_scenario(name, SIZES["small"], seed)
    assert fault_of(scenario) is None
    if name == "zipf":
        return
    bound = scenario.targets(0)[CPU].bound_by
    assert bound == {"unmendable": "bundle", "reserved": "rules", "isolation": "rules"}.get(name, "margin")


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
    assert len(one.absorbed) == len(one.time) == len(scenario.shocks)


def test_bundles_of_a_lost_broker_are_placed_under_both_load_managers() -> None:
    scenario = judged_scenario("two-removed", SHORT, 7)
    asked = measure(scenario, settings_with(NOBODY))
    gone = scenario.down(scenario.cycles - 1)
    assert len(gone) == 2
    lost = sum(owner in gone for owner in scenario.owners.values())
    for shedder in ("OverloadShedder", "TransferShedder"):
        assert play(scenario, settings_with(SHEDDERS[shedder]), asked).placed >= lost


def test_the_tightest_budget_says_how_many_cycles_a_shock_takes() -> None:
    assert cycles_to_absorb(0.0, {}) == 2
    assert cycles_to_absorb(0.1, {"b1": 5, "b2": 5}) == 2 + 2, "9 % of the load"
    assert cycles_to_absorb(0.1, {"b1": 11, "b2": 1}) == 3 + 2, "5 bundles from a broker"
    assert cycles_to_absorb(0.1, dict.fromkeys("abcdefghijklmnop", 4)) == 4 + 2, "20 bundles"


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


MINUTES = [f"minute_{n}" for n in range(1, 1441)]


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A series of twelve functions of three owners, one of them never invoked, which is taken for the public one."""
    file = tmp_path / "counts.csv"
    counts = [[0 if n == 11 else (n + 1) * (1 + minute // 720) for minute in range(1440)] for n in range(12)]
    rows = [f"f{n},app,owner-{n % 3},{','.join(map(str, own))}" for n, own in enumerate(counts)]
    file.write_text("\n".join([f"HashFunction,HashApp,HashOwner,{','.join(MINUTES)}", *rows]))
    monkeypatch.setattr(judged_series, "SHA256", hashlib.sha256(file.read_bytes()).hexdigest())
    return file


def test_topics_follow_a_public_series(series: Path) -> None:
    scenario = judged_scenario("series", SHORT, 7, PublicFiles(series=series))
    topics = scenario.traffic.topics
    assert scenario.factors.shape == (96, len(topics))
    # The second half of the day has twice the traffic of the first, but for the noise of topics.
    halves = scenario.factors[:48].mean(), scenario.factors[48:].mean()
    assert halves == (pytest.approx(2 / 3, rel=0.05), pytest.approx(4 / 3, rel=0.05))
    assert np.array_equal(scenario.factors, judged_scenario("series", SHORT, 7, PublicFiles(series=series)).factors)
    drawn = judged_series.series_traffic(judged_series.public_series(series), ["a", "b", "c"], 11, 96, Random(1))
    assert sorted(drawn.weights) == pytest.approx([1.5 * n for n in range(1, 12)])
    # An owner's functions are topics of one namespace: those with a weight of 1.5, 6.0, 10.5 and 15.0 have one owner.
    homes = {topic.namespace for topic, weight in zip(drawn.topics, drawn.weights, strict=True) if weight % 4.5 == 1.5}
    assert len(homes) == 1


def test_a_series_has_to_be_the_one_that_figures_come_from(series: Path) -> None:
    with pytest.raises(SystemExit, match=r"--series FILE: data/traces/10-1000-10/500_inv\.csv"):
        judged_scenario("series", SHORT, 7)
    series.write_text(series.read_text() + "\n")
    with pytest.raises(SystemExit, match=r"SHA-256 is .*; expected is .*vhive-serverless/invitro at cb0077f"):
        judged_scenario("series", SHORT, 7, PublicFiles(series=series))


@pytest.fixture
def cloudwatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two measures of two days every five minutes, one of them mostly nothing, which are taken for the public ones."""
    for name, values in (("a", [5.0 + n // 144 % 2 * 10.0 for n in range(576)]), ("b", [0.0] * 575 + [9.0])):
        lines = [f"2014-02-14 14:30:00,{value}" for value in values]
        (tmp_path / f"{name}.csv").write_text("\n".join(["timestamp,value", *lines]))
    content = b"".join((tmp_path / f"{name}.csv").read_bytes() for name in "ab")
    monkeypatch.setattr(judged_series, "CLOUDWATCH_SHA256", hashlib.sha256(content).hexdigest())
    return tmp_path


def test_topics_follow_a_day_of_public_measures(cloudwatch: Path) -> None:
    public = PublicFiles(cloudwatch=cloudwatch)
    scenario = judged_scenario("cloudwatch", SHORT, 7, public)
    assert scenario.factors.shape == (96, len(scenario.traffic.topics))
    assert scenario.factors.mean() == pytest.approx(1.0, rel=0.05)
    assert np.array_equal(scenario.factors, judged_scenario("cloudwatch", SHORT, 7, public).factors)
    # Half of a day has three times the traffic of the other half, wherever the day begins.
    factors = judged_series.measured_factors(judged_series.public_measures(cloudwatch), 20, 96, Random(1))
    assert {round(low, 6) for low in factors.min(axis=0)} == {0.5}
    assert {round(high, 6) for high in factors.max(axis=0)} == {1.5}


def test_a_scenario_without_its_files_is_refused_before_any_is_played(cloudwatch: Path) -> None:
    with pytest.raises(SystemExit, match=r"the scenario series needs --series FILE"):
        main(["--scenario", "uneven", "series"])
    found = PublicFiles(cloudwatch=cloudwatch).scenarios([], MEANINGS)
    assert found == [name for name in MEANINGS if name != "series"]


def test_measures_have_to_be_those_that_figures_come_from(cloudwatch: Path) -> None:
    with pytest.raises(SystemExit, match=r"--cloudwatch FOLDER: data/realAWSCloudwatch of github\.com/numenta/NAB"):
        judged_scenario("cloudwatch", SHORT, 7)
    (cloudwatch / "b.csv").unlink()
    with pytest.raises(SystemExit, match=r"SHA-256 of its 1 \.csv files.*; expected is .*numenta/NAB at ea702d7"):
        judged_scenario("cloudwatch", SHORT, 7, PublicFiles(cloudwatch=cloudwatch))


@pytest.mark.parametrize("seed", [1, 2])
def test_the_books_cases_begin_and_go_on_as_the_book_says(seed: int) -> None:
    def usages(name: str, n: int) -> dict[str, float]:
        scenario = judged_scenario(name, SIZES["small"], seed)
        cluster = scenario.cluster("one", "modular")
        cluster.observe(AT, scenario.factors[n], scenario.down(n), Settings())
        return cluster.demand[CPU]

    for name in ("book", "book-mixed"):
        assert [*usages(name, 0).values()] == pytest.approx(BOOK, abs=0.03)
    mixed = judged_scenario("book-mixed", SIZES["small"], seed).machines
    assert [machine.strength for _, machine in sorted(mixed.items())] == [1.0, 1.0, 2.0, 1.0, 1.0]
    removed = judged_scenario("book-removed", SIZES["small"], seed)
    assert removed.shocks == (0, 20)
    assert [*removed.machines][2::2] == sorted(removed.down(20))
    assert removed.targets(20)[CPU].even == pytest.approx(BOOK_LEFT, abs=0.04)
    begins = usages("book-removed", 0)
    assert sorted(begins, key=lambda one: begins[one]) == sorted(begins, key=lambda one: usages("book", 0)[one])


def test_what_a_cycle_unloads_too_far_and_what_had_to_move_are_counted() -> None:
    scenario = judged_scenario("uneven", SHORT, 7)
    asked = measure(scenario, settings_with(NOBODY))
    cluster = scenario.cluster("one", "modular")
    cluster.observe(AT, scenario.factors[0], frozenset(), Settings())
    usage = cluster.demand[CPU]
    low, high = min(usage, key=lambda one: usage[one]), max(usage, key=lambda one: usage[one])
    assert usage[low] < asked.even[0] / 1.1 < usage[high]
    assert _over_unloaded(cluster, scenario, asked, 0, [high]) == 0
    assert _over_unloaded(cluster, scenario, asked, 0, [high, low, low, "gone"]) == 1
    found = play(scenario, settings_with(NOBODY), asked)
    assert (found.rounds, found.last_round, found.over_unloaded) == (0, [0.0], 0)
    # Nobody moves: in each scored cycle at least so much stands above the target as the floor of 1.06 says at most.
    above = max(
        math.fsum(
            max(0.0, load - cluster.machines[broker].curves()[CPU].load_within(level(asked.targets[n][CPU], STOP)))
            for broker, load in cluster.carried_with(scenario.factors[n])[CPU].items()
        )
        / math.fsum(cluster.carried_with(scenario.factors[n])[CPU].values())
        for n in range(scenario.cycles)
        if asked.scored[n]
    )
    assert found.kept_floor[CPU] == pytest.approx(above)


def test_goals_that_are_missed_are_named() -> None:
    scenario = judged_scenario("book", SIZES["small"], 7)
    asked = [measure(scenario, settings_with(NOBODY))]
    planner = play(scenario, settings_with(PLANNER), asked[0])
    nobody = play(scenario, settings_with(NOBODY), asked[0])
    assert missed("book", asked, {("planner", ""): [planner]}) == []
    faults = missed("book", asked, {("planner", ""): [nobody]})
    assert len(faults) == 3
    assert faults[0].startswith("book: max/U* 1.28")
    assert faults[1:] == [
        "book: 1 of 1 shocks not absorbed in time",
        "book: absorbed after None, goal 5 min and 2 rounds",
    ]
    worse = replace(planner, bounces=1, over_unloaded=2, moved=dict.fromkeys(planner.moved, 9.0))
    faults = missed("book", asked, {("planner", ""): [worse], ("AvgShedder", "tuned"): [replace(planner, moves=1)]})
    assert [fault.partition(": ")[2][:8] for fault in faults] == ["moved lo", "1 bounce", "2 broker", "AvgShedd"]


def test_the_goal_of_evenness_is_that_of_the_scored_cycles() -> None:
    asked = [Measure(targets=[], scored=[False, True], even=[0.5, 0.5], aim=[1.0, 0.6])]
    planner = Outcome(ratios=[1.3], uneven=[1.3], floor={CPU: 0.1}, kept_floor={CPU: 0.1})
    assert missed("uneven", asked, {("planner", ""): [planner]}) == ["uneven: max/U* 1.300, goal 1.200"]


def test_settings_are_tuned_for_every_scenario_on_seeds_of_their_own() -> None:
    tuned = json.loads(TUNED_FILE.read_text(encoding="utf-8"))
    assert MEANINGS.keys() == tuned.keys()
    for found in tuned.values():
        assert found.keys() == SHEDDERS.keys() == AXES.keys()
        for shedder, best in found.items():
            assert best["settings"] in grid_of(shedder)
    with pytest.raises(SystemExit):
        main(["--seeds", "1", str(TUNING_SEEDS[0])])


def test_the_planner_alone_has_the_rows_that_it_has_among_shedders(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "book-removed", "--seeds", "7", "--planner-alone"]) == 0
    rows = [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert rows == ["| variant", "| nobody", "| planner"]


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


def test_who_knows_all_traffic_keeps_what_swings_even_by_one_placement() -> None:
    scenario = judged_scenario("on-off", SHORT, 2)
    nobody = settings_with(NOBODY)
    asked = measure(scenario, nobody)
    untouched, found = play(scenario, nobody, asked), play_knowing(scenario, nobody, asked)
    assert found.ratio < min(untouched.ratio, play(scenario, settings_with(PLANNER), asked).ratio)
    assert 1.0 <= found.ratio <= 1.10
    assert 0 < found.moves < len(scenario.owners)
    assert 0.0 < found.moved_over_floor[0] < 1.0
    assert found.moved_over_floor[1:] == untouched.moved_over_floor[1:]


def test_who_moves_at_will_is_as_even_as_the_last_window_tells() -> None:
    steady, changing = (judged_scenario(name, SHORT, 2) for name in ("uneven", "on-off"))
    nobody = settings_with(NOBODY)
    found = play_at_will(steady, nobody, measure(steady, nobody))
    assert 1.0 <= found.ratio < 1.03
    assert found.moves > len(steady.owners) // 2
    asked = measure(changing, nobody)
    assert found.ratio < play_at_will(changing, nobody, asked).ratio < play(changing, nobody, asked).ratio


def test_heaviest_first_goes_where_bundles_may_be_and_to_no_broker_that_is_away() -> None:
    reserved, removed = (judged_scenario(name, SHORT, 2) for name in ("reserved", "two-removed"))
    owners = heaviest_first(reserved, 0)
    assert owners.keys() == reserved.owners.keys()
    assert all(owner in reserved.may_own[bundle.rpartition("/")[0]] for bundle, owner in owners.items())
    last = removed.cycles - 1
    assert set(heaviest_first(removed, last).values()) == set(removed.machines) - removed.down(last)


@pytest.mark.parametrize(("takes_positions", "splits"), [(True, {1}), (False, {3, 4, 5})])
def test_a_bundle_is_split_until_its_parts_can_go_one_by_one(takes_positions: bool, splits: set[int]) -> None:
    """On this seed half of the bundle could go only together with others, and that is more than a cycle's budget."""
    scenario = judged_scenario("hot-bundle", SIZES["small"], 2)
    known = [name for name in SPLIT_ALGORITHMS if takes_positions or name != "specified_positions_divide"]
    effective = settings_with(PLANNER, {"supportedNamespaceBundleSplitAlgorithms": known})
    found = play(scenario, effective, measure(scenario, settings_with(NOBODY)))
    assert found.splits in splits
    assert found.ratio < 1.10
    assert found.over_budget == found.bounces == 0
