"""What a worker makes of a chunk of cycles is what the fold makes of them one by one, in one chunk or in two."""

import json
from datetime import datetime
from typing import Any

import pytest

from evenkeel.errors import DecideFailed
from evenkeel.repetition import BUNDLES
from evenkeel.replay.closed_loop import Size, scenario
from evenkeel.replay.fold import CARRIED, DECISIONS, Chosen, Fold, Recorded, decide_part
from evenkeel.replay.modelled_cluster import Cluster
from evenkeel.replay.variants import Variant, settings_of, variants_of
from evenkeel.settings import resolve
from evenkeel.times import utc_text

SETTINGS = resolve(observed=None, overrides={"evenkeelAssumeUnloadsSucceed": True})
EAGER = "loadBalancerMsgRateDifferenceShedderThreshold=10,evenkeelGuardsEnabled=false"
VARIANTS = (
    Variant("again"),
    *variants_of(["AvgShedder"], named=[f"uniform:loadBalancerLoadSheddingStrategy=UniformLoadShedder,{EAGER}"]),
)
SMALL = ("broker_load", "broker_reports", "namespace_bundles", "cluster_policies")
Cycle = tuple[datetime, dict[str, list[Any]]]


@pytest.fixture(scope="module")
def cycles() -> list[Cycle]:
    played = scenario("broker-loss", Size(brokers=3, bundles=18, cycles=6), 5)
    cluster = Cluster("lab", played.fits, played.topics, dict(played.boundaries), dict(played.owners))
    found = []
    for n, at in enumerate(played.moments):
        cluster.observe(at, played.throughputs(n), played.down(n), SETTINGS.settings)
        found.append((at, cluster.rows(SETTINGS.settings)))
    return found


def rows_of(cycles: list[Cycle]) -> dict[str, list[Any]]:
    """The rows of all cycles, in no order of time."""
    found: dict[str, list[Any]] = {kind: [] for kind in (*SMALL, BUNDLES)}
    for at, rows in reversed(cycles):
        for kind in found:
            found[kind] += [{**row, "part": 0, "cycle_at": utc_text(at)} for row in rows[kind]]
    return found


def chosen() -> dict[str, dict[str, Any]]:
    found = {variant.name: settings_of(variant, SETTINGS, "modular", "lab") for variant in VARIANTS}
    return {n: {"settings": s.to_json(), "digest": s.digest, "manager": "modular", "is_recorded": s is SETTINGS}
            for n, s in found.items()}  # fmt: skip


def job(cycles: list[Cycle], part: dict[str, Any]) -> dict[str, Any]:
    known = {"plan_id": "p", "manager": "modular", "chosen": "all", "known": {}, "state": None}
    return {
        "cluster": "lab",
        "limit": 0.85,
        "cycles": {
            utc_text(at): {**known, "rows": {k: len(rows[k]) for k in (*SMALL, BUNDLES)}} for at, rows in cycles
        },
        "chosen": {"all": chosen()},
        "parts": {"0": part},
    }


def folded(cycles: list[Cycle], part: dict[str, Any]) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    made = decide_part({"part": 0}, rows_of(cycles), parameters=json.loads(json.dumps(job(cycles, part))))
    (carried,) = made.pop(CARRIED)
    return made, json.loads(carried["body"])


def first_part() -> dict[str, Any]:
    names = [variant.name for variant in VARIANTS]
    return {"label": "0", "variants": names, "with_recorded": True, "carried": {}, "owners": {}}


def test_a_worker_tells_what_the_fold_tells(cycles: list[Cycle]) -> None:
    rows, _ = folded(cycles, first_part())
    fold = Fold(0.85, True, {})
    variants = {name: Chosen(**body) for name, body in chosen().items()}
    plain = [made for at, found in cycles for made in fold.step(Recorded("lab", at, "p", "modular", variants), found)]
    names = ("variant", "moves", "splits", "bundle", "destination", "after_max_over_mean", "bounces", "rule")
    for output, found in rows.items():
        read = [repr([row.get(name) for name in names]) for row in found]
        assert sorted(read) == sorted(
            repr([row.get(name) for name in names]) for table, row in plain if table == output
        )
        assert [row["cycle_at"] for row in found] == sorted(row["cycle_at"] for row in found)
    assert rows[DECISIONS]


def test_a_chunk_goes_on_where_the_one_before_ended(cycles: list[Cycle]) -> None:
    whole, end = folded(cycles, first_part())
    first, carried = folded(cycles[:2], first_part())
    second, last = folded(cycles[2:], {**first_part(), **carried})
    assert {table: first[table] + second[table] for table in whole} == whole
    assert last == end
    assert end["carried"]["AvgShedder"]["state"]


def test_an_error_names_variants_cluster_and_cycle(cycles: list[Cycle]) -> None:
    broken = [(at, {**rows, "broker_load": [{"broker": "x"}]}) for at, rows in cycles[:1]]
    with pytest.raises(DecideFailed) as refused:
        folded(broken, first_part())
    assert all(word in str(refused.value) for word in ("again, AvgShedder, uniform", "lab", utc_text(cycles[0][0])))


@pytest.mark.parametrize("kind", [BUNDLES, "broker_reports"])
def test_rows_past_their_retention_are_missed_by_table_and_cycle(cycles: list[Cycle], kind: str) -> None:
    rows, third = rows_of(cycles), utc_text(cycles[2][0])
    rows[kind] = [row for row in rows[kind] if row["cycle_at"] != third]
    with pytest.raises(DecideFailed) as refused:
        decide_part({"part": 0}, rows, parameters=job(cycles, first_part()))
    listed = len(cycles[2][1][kind])
    assert all(word in str(refused.value) for word in (f"{kind} holds 0 of the {listed}", third))


def test_a_cycle_of_which_nothing_is_left_is_missed(cycles: list[Cycle]) -> None:
    with pytest.raises(DecideFailed, match="holds 0 of the"):
        decide_part({"part": 0}, rows_of(cycles[1:]), parameters=job(cycles, first_part()))
