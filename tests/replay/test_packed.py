"""What a worker makes of packed rows is what the fold makes of the rows themselves, in one chunk or in two."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import types as T

from evenkeel.cycle.projections import BUNDLE_COLUMNS, BUNDLES
from evenkeel.lake.schemas import TABLES
from evenkeel.replay.closed_loop import Size, scenario
from evenkeel.replay.fold import CYCLES, DECISIONS, Chosen, Fold, Recorded
from evenkeel.replay.fold_worker import CARRIED, Unpacked, fold_part
from evenkeel.replay.modelled_cluster import Cluster
from evenkeel.replay.variants import Variant, settings_of, variants_of
from evenkeel.rounds import reading
from evenkeel.settings import resolve
from evenkeel.spark.code import runtime_of
from evenkeel.spark.worker import MarkedError, packing_of
from evenkeel.times import utc_text

SETTINGS = resolve(observed=None, overrides={"evenkeelAssumeUnloadsSucceed": True})
EAGER = "loadBalancerMsgRateDifferenceShedderThreshold=10,evenkeelGuardsEnabled=false"
VARIANTS = (
    Variant("again"),
    *variants_of(["AvgShedder"], named=[f"uniform:loadBalancerLoadSheddingStrategy=UniformLoadShedder,{EAGER}"]),
)
SCALARS = {"string": T.StringType(), "double": T.DoubleType(), "bigint": T.LongType(), "int": T.IntegerType(),
           "boolean": T.BooleanType(), "timestamp": T.TimestampType()}  # fmt: skip
NESTED = {"array<string>": T.ArrayType(T.StringType()), "array<bigint>": T.ArrayType(T.LongType()),
          "map<string,string>": T.MapType(T.StringType(), T.StringType()),
          "map<string,array<string>>": T.MapType(T.StringType(), T.ArrayType(T.StringType()))}  # fmt: skip
SMALL = ("broker_load", "broker_reports", "namespace_bundles", "cluster_policies")

OWN = {*BUNDLE_COLUMNS}
BODY = T.StructType([T.StructField("body", T.StringType())]).json()

Cycle = tuple[datetime, dict[str, list[Any]]]


def schema_of(table: str, names: set[str] | None = None) -> str:
    fields = [
        T.StructField(c.name, (SCALARS | NESTED)[c.type])
        for c in TABLES[table].columns
        if c.type in SCALARS | NESTED and c.name not in ("cycle_date", "write_id", "replay_id")
    ]
    return T.StructType([f for f in fields if names is None or f.name in names]).json()


@pytest.fixture(scope="module")
def cycles() -> list[Cycle]:
    played = scenario("broker-loss", Size(brokers=3, bundles=18, cycles=6), 5)
    cluster = Cluster("lab", played.fits, played.topics, dict(played.boundaries), dict(played.owners))
    found = []
    for n, at in enumerate(played.moments):
        cluster.observe(at, played.throughputs(n), played.down(n), SETTINGS.settings)
        found.append((at, cluster.rows(SETTINGS.settings)))
    return found


def inputs(cycles: list[Cycle]) -> dict[str, str]:
    named = {kind: set(cycles[0][1][kind][0]) if cycles[0][1][kind] else None for kind in SMALL}
    return {**{kind: schema_of(kind, names) for kind, names in named.items()}, BUNDLES: schema_of(BUNDLES, OWN)}


def packed(cycles: list[Cycle]) -> pa.Table:
    packing = packing_of(tuple(inputs(cycles).items()))
    parts = []
    for at, rows in cycles:
        bundles = [{name: row[name] for name in BUNDLE_COLUMNS} for row in rows[BUNDLES]]
        part = packing.table({**{kind: rows[kind] for kind in SMALL}, BUNDLES: bundles}, {})
        part = part.append_column("cycle_at", pa.repeat(utc_text(at), part.num_rows))
        parts.append(part.append_column("part", pa.repeat(0, part.num_rows)))
    whole = pa.concat_tables(parts)
    return whole.take(pa.array(range(whole.num_rows - 1, -1, -1)))


def chosen() -> dict[str, dict[str, Any]]:
    found = {variant.name: settings_of(variant, SETTINGS, "modular", "lab") for variant in VARIANTS}
    return {n: {"settings": s.to_json(), "digest": s.digest, "manager": "modular", "is_recorded": s is SETTINGS}
            for n, s in found.items()}  # fmt: skip


def job(cycles: list[Cycle], part: dict[str, Any]) -> dict[str, Any]:
    known = {"plan_id": "p", "manager": "modular", "chosen": "all", "known": {}, "state": None}
    runtime = runtime_of(fold_part.__module__)
    return {
        "code": runtime.digest,
        "files": runtime.files,
        "cluster": "lab",
        "limit": 0.85,
        "inputs": inputs(cycles),
        "outputs": {**{table: schema_of(table) for table in (CYCLES, DECISIONS)}, CARRIED: BODY},
        "cycles": {
            utc_text(at): {**known, "rows": {k: len(rows[k]) for k in (*SMALL, BUNDLES)}} for at, rows in cycles
        },
        "chosen": {"all": chosen()},
        "parts": {"0": part},
    }


def folded(cycles: list[Cycle], part: dict[str, Any]) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    asked = job(cycles, part)
    rows = packing_of(tuple(asked["outputs"].items())).rows(fold_part(asked, packed(cycles)))
    (carried,) = rows.pop(CARRIED)
    return rows, json.loads(carried["body"])


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


def test_what_stands_as_it_stood_is_worked_out_once(cycles: list[Cycle]) -> None:
    packing = packing_of(tuple(inputs(cycles).items()))
    seen = list(Unpacked(packing).cycles(packed(cycles)))
    assert [at for at, _ in seen] == [utc_text(at) for at, _ in cycles]
    first = reading.boundaries(seen[0][1])
    rows_now = packed(cycles)
    shuffled = rows_now.take(pa.array(sorted(range(rows_now.num_rows), key=lambda n: (n * 7919) % 104_729)))
    again = [rows for _, rows in Unpacked(packing).cycles(shuffled)]
    assert again[0]["namespace_bundles"] is again[1]["namespace_bundles"]
    assert first == reading.boundaries(again[1])


def test_an_error_names_variants_cluster_and_cycle(cycles: list[Cycle]) -> None:
    broken = [(at, {**rows, "broker_load": [{"broker": "x"}]}) for at, rows in cycles[:1]]
    with pytest.raises(MarkedError) as refused:
        folded(broken, first_part())
    assert all(word in str(refused.value) for word in ("again, AvgShedder, uniform", "lab", utc_text(cycles[0][0])))


@pytest.mark.parametrize("kind", [BUNDLES, "broker_reports"])
def test_rows_past_their_retention_are_missed_by_table_and_cycle(cycles: list[Cycle], kind: str) -> None:
    table, asked = packed(cycles), job(cycles, first_part())
    gone = pc.and_(pc.equal(table["kind"], kind), pc.equal(table["cycle_at"], utc_text(cycles[2][0])))
    with pytest.raises(MarkedError) as refused:
        fold_part(asked, table.filter(pc.invert(gone)))
    listed = len(cycles[2][1][kind])
    assert all(word in str(refused.value) for word in (f"{kind} holds 0 of the {listed}", utc_text(cycles[2][0])))


def test_a_cycle_of_which_nothing_is_left_is_missed(cycles: list[Cycle]) -> None:
    with pytest.raises(MarkedError, match="holds 0 of the"):
        fold_part(job(cycles, first_part()), packed(cycles[1:]))
