"""Whole cycles through the real tasks and tables answer what Pulsar's ModularLoadManagerImpl answers.

Golden cases of `cycle` are recorded as clusters of one run, a snapshot a round; what the tables say afterwards is
compared with Pulsar's own answers: splits, unloads with destinations, placements, what counts as recently unloaded,
and every broker's long-term message rate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devtools.conformance.cases import case_files, read_cases
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import Attempt, read_attempts, read_rows_of
from evenkeel.pipeline import run_cycle
from tests.pipeline import recorded_case as rc
from tests.pipeline.recorded_case import RecordedCase

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CASES = {c.id: c for file in case_files([GOLDEN]) if file.name.startswith("cycle") for c in read_cases(file)}
# Every shedder and placement, and each rule of the round at least once. A run takes longer with every cluster in it.
CHOSEN = (
    "cycle-001-simple",  # ThresholdShedder, three rounds
    "cycle-003-simple",  # LeastResourceUsageWithWeight remembers usage
    "cycle-005-simple",  # RoundRobinBrokerSelector remembers whose turn it is
    "cycle-007-simple",  # OverloadShedder, the grace period ends
    "cycle-008-simple",  # UniformLoadShedder
    "cycle-009-avg",  # AvgShedder counts hits
    "cycle-013-excluded",  # namespaces left out of shedding
    "cycle-016-all-overloaded",  # a bundle without owner
    "cycle-017-overload-retry",  # two bundles without owner
    "cycle-018-only-owner-allowed",  # isolation
    "cycle-021-group",  # anti-affinity
    "cycle-022-group",  # and failure domains
    "cycle-024-split",  # splits, their children unloaded
    "cycle-027-split-cap",
    "cycle-029-split-no-unload",
    "cycle-031-versions",
    "cycle-040",  # isolation, splits, several rounds with other figures
    "cycle-063",  # anti-affinity and domains, splits, three rounds
    "cycle-065",  # anti-affinity, domains and isolation, four rounds
    "cycle-067",  # UniformLoadShedder with isolation and splits
    "cycle-068",  # ThresholdShedder, four rounds with other figures
    "cycle-069",  # OverloadShedder, anti-affinity, domains and isolation
    "cycle-071",  # OverloadShedder with RoundRobinBrokerSelector, ten brokers
    "cycle-073",  # AvgShedder with splits, three rounds
)
# Splits whose children are unloaded, and three rounds of AvgShedder; the others in `make test-all`.
ALWAYS = ("cycle-024-split", "cycle-073")
MOST_ROUNDS = 4  # and as many snapshots: cases in which a bundle loses its owner first have one round
QUICK_ROUNDS = 2  # where no other case is asked for than those of `ALWAYS`: what a cycle remembers, the next one has
# What a snapshot cannot say, or not in the time of a test; every other case could be chosen.
LEFT_ASIDE = {
    rc.TWO_REPORTS: ("cycle-903", "cycle-904", "cycle-905", "cycle-906"),
    rc.HASH_ORDER: ("cycle-901", "cycle-902"),
    rc.UNKNOWN_BUNDLES: ("cycle-028",),
    rc.LOAD_WITHOUT_TOPICS: ("cycle-056", "cycle-074"),
    rc.NO_SHEDDING: ("cycle-015",),
}
TABLES = ("split_decisions", "placement_decisions", "strategy_state", "broker_load")

Answer = dict[str, Any]


@dataclass(frozen=True)
class Answers:
    """What the tables say of the first rounds of each chosen case, at most `rounds`."""

    rounds: int
    of_case: Mapping[str, list[Answer]]


@pytest.fixture(scope="module")
def answers(request, spark, empty_lake, tmp_path_factory) -> Answers:
    """The answers of every chosen case that this run asks for."""
    folder = tmp_path_factory.mktemp("cycles")
    empty_lake(folder / "lake")
    asked = {item.name for item in request.session.items}
    chosen = {name: CASES[name] for name in CHOSEN if f"test_the_tables_say_what_pulsar_says[{name}]" in asked}
    rounds = QUICK_ROUNDS if chosen.keys() <= {*ALWAYS} else MOST_ROUNDS
    recorded = [RecordedCase(case, folder / "recordings" / name, rounds) for name, case in chosen.items()]
    runs = max(one.steps for one in recorded)
    for run in range(runs):
        steps = [(one, run - first_run(n, one, runs)) for n, one in enumerate(recorded)]
        taking_part = [(one, step) for one, step in steps if 0 <= step < one.steps]
        for one, step in taking_part:
            one.land(step)
        rc.write_configuration(folder / "evenkeel.toml", taking_part)
        cycles = CycleRequest(lake=str(folder / "lake"), configuration=str(folder / "evenkeel.toml"), run_id=str(run))
        run_cycle(spark, cycles, lambda task, seconds: None)
    return Answers(rounds, read_answers(folder / "lake", recorded))


def first_run(number: int, one: RecordedCase, runs: int) -> int:
    """The run in which a case begins: spread, since a run over many clusters at once costs more than two over half."""
    return number % (runs - one.steps + 1)


def read_answers(lake: Path, recorded: list[RecordedCase]) -> dict[str, list[Answer]]:
    """Case -> an answer for each of its rounds, in the form of the golden ones."""
    attempts = read_attempts(lake)
    rows = {table: read_rows_of(lake, attempts, table) for table in TABLES}
    for table in TABLES:
        for attempt in attempts:
            assert len(rows[table][attempt.attempt_id]) == sum(write.rows for write in attempt.writes_of(table))
    found = {}
    for one in recorded:
        own = [attempt for attempt in attempts if attempt.cluster == one.case.id]
        found[one.case.id] = [answer(attempt, rows) for attempt in own[one.past :]]
    return found


def answer(attempt: Attempt, rows: Mapping[str, Mapping[str, list[Answer]]]) -> Answer:
    splits, placed, state, load = (rows[table][attempt.attempt_id] for table in TABLES)
    return {
        "status": attempt.status,
        "reason": attempt.reason,
        "split": {row["subject"]: row["unload_children"] for row in splits if row["outcome"] == "split"},
        "unload": {row["subject"]: row["destination"] for row in of_cause(placed, "shed")},
        "place": {row["subject"]: row["destination"] for row in of_cause(placed, "no_owner")},
        "recentlyUnloaded": sorted({row["subject"] for row in state if row["name"] == "assumed_unloaded"}),
        "longTermMsgRate": {row["broker"]: row["long_msg_rate_in"] + row["long_msg_rate_out"] for row in load},
    }


def of_cause(placements: list[Answer], cause: str) -> list[Answer]:
    return [row for row in placements if row["cause"] == cause and row["outcome"] == "placed"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.exhaustive, id=name) for name in CHOSEN]
)
def test_the_tables_say_what_pulsar_says(name: str, answers: Answers) -> None:
    golden, own = (CASES[name].expected or {})["rounds"][: answers.rounds], answers.of_case[name]
    assert [one["status"] for one in own] == ["closed"] * len(golden), own[0]["reason"]
    for number, (found, expected) in enumerate(zip(own, golden, strict=True), start=1):
        for what in ("split", "unload", "recentlyUnloaded"):
            assert found[what] == expected[what], f"round {number}: {what}"
        if rc.looks_up_ownerless(CASES[name]):
            assert found["place"] == expected["place"], f"round {number}: place"
        rates = expected["state"]["longTermMsgRate"]
        assert found["longTermMsgRate"] == pytest.approx(rates, rel=1e-12, abs=0.0), f"round {number}"


def test_what_is_left_aside_is_known_by_name() -> None:
    reasons = {name: rc.why_left_aside(case) for name, case in CASES.items()}
    assert not [reasons[name] for name in CHOSEN if reasons[name]]
    found = {reason: tuple(n[:9] for n in sorted(reasons) if reasons[n] == reason) for reason in reasons.values()}
    assert {reason: found.get(reason) for reason in LEFT_ASIDE} == LEFT_ASIDE
    assert set(found) <= {None, rc.TOO_LARGE, *LEFT_ASIDE}


def test_the_choice_holds_all_that_the_golden_cases_hold() -> None:
    def strategies(names: Iterable[str]) -> set[tuple[str, str]]:
        return {(CASES[name].input["shedder"], CASES[name].input["placement"]) for name in names}

    assert strategies(CHOSEN) == strategies(CASES)
    for policy in ("groups", "domains", "isolation"):
        assert any(CASES[name].input.get(policy) for name in CHOSEN)
    assert len(CHOSEN) >= 20
