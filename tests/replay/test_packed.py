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
from evenkeel.spark.worker import MarkedError
from evenkeel.times import utc_text
from tests.record.small_lake import arrow_type

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


def packed(cycles: list[Cycle]) -> pa.Table:
    kinds = {c.name: arrow_type(c.type) for c in TABLES[BUNDLES].columns}
    lines = []
    for at, rows in cycles:
        stamp = {"part": 0, "cycle_at": utc_text(at)}
        lines += [{**stamp, "kind": BUNDLES, **{name: row[name] for name in BUNDLE_COLUMNS}} for row in rows[BUNDLES]]
        lines += [{**stamp, "kind": kind, "body": json.dumps(row)} for kind in SMALL for row in rows[kind]]
    fields = [("part", pa.int32()), *((name, pa.string()) for name in ("cycle_at", "kind", "body"))]
    return pa.Table.from_pylist(lines[::-1], schema=pa.schema([*fields, *((n, kinds[n]) for n in BUNDLE_COLUMNS)]))


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
        "schemas": {
            kind: schema_of(kind, set(cycles[0][1][kind][0]) if cycles[0][1][kind] else None) for kind in SMALL
        },
        "outputs": {table: schema_of(table) for table in (CYCLES, DECISIONS)},
        "cycles": {
            utc_text(at): {**known, "rows": {k: len(rows[k]) for k in (*SMALL, BUNDLES)}} for at, rows in cycles
        },
        "chosen": {"all": chosen()},
        "parts": {"0": part},
    }


def folded(cycles: list[Cycle], part: dict[str, Any]) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    made = fold_part(job(cycles, part), packed(cycles))
    rows = list(zip(made.column("output").to_pylist(), map(json.loads, made.column("body").to_pylist()), strict=True))
    (carried,) = (body for output, body in rows if output == CARRIED)
    return [row for row in rows if row[0] != CARRIED], carried


def first_part() -> dict[str, Any]:
    names = [variant.name for variant in VARIANTS]
    return {"label": "0", "variants": names, "with_recorded": True, "carried": {}, "owners": {}}


def test_a_worker_tells_what_the_fold_tells(cycles: list[Cycle]) -> None:
    rows, _ = folded(cycles, first_part())
    fold = Fold(0.85, True, {})
    variants = {name: Chosen(**body) for name, body in chosen().items()}
    plain = [made for at, found in cycles for made in fold.step(Recorded("lab", at, "p", "modular", variants), found)]
    assert [output for output, _ in rows] == [output for output, _ in plain]
    for (_, read), (_, made) in zip(rows, plain, strict=True):
        names = ("variant", "moves", "splits", "bundle", "destination", "after_max_over_mean", "bounces", "rule")
        assert [read.get(name) for name in names] == [made.get(name) for name in names]
    assert any(output == DECISIONS for output, _ in rows)


def test_a_chunk_goes_on_where_the_one_before_ended(cycles: list[Cycle]) -> None:
    whole, end = folded(cycles, first_part())
    first, carried = folded(cycles[:2], first_part())
    second, last = folded(cycles[2:], {**first_part(), **carried})
    assert first + second == whole
    assert last == end
    assert end["carried"]["AvgShedder"]["state"]


def test_what_stands_as_it_stood_is_worked_out_once(cycles: list[Cycle]) -> None:
    unpacked = Unpacked(job(cycles, first_part())["schemas"])
    seen = list(unpacked.cycles(packed(cycles)))
    assert [at for at, _ in seen] == [utc_text(at) for at, _ in cycles]
    first = reading.boundaries(seen[0][1])
    again = [rows for _, rows in Unpacked(job(cycles, first_part())["schemas"]).cycles(packed(cycles))]
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
