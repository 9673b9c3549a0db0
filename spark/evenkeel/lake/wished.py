"""Wishes: splits and unloads that operators ask for. A wish is put on record once and never changed."""

from __future__ import annotations

from evenkeel.lake.schema import Column, Table

WISHES = Table(
    "wishes",
    "wished",
    "One row per wish; it waits until a cycle takes it, and then stands in that cycle's `wishes` and decisions. "
    "Doubled rows of one id are one wish.",
    ("wish_id",),
    ("ingest",),
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("wish_id", "string", "digest that names the wish", nullable=False),
        Column("made_at", "timestamp", "when it was made; only cycles from this moment on take it", nullable=False),
        Column("made_by", "string", "who made it", nullable=False),
        Column("run_id", "string", "Airflow run that brought it; NULL from the command line"),
        Column("kind", "string", "split or unload", nullable=False),
        Column("namespace", "string", "tenant/namespace", nullable=False),
        Column("bundle", "string", "range of the bundle; LARGEST or HOT for a split", nullable=False),
        Column("algorithm", "string", "split algorithm asked for; empty for the broker's default"),
        Column("positions", "array<bigint>", "cuts asked for, for specified_positions_divide"),
        Column("unload_children", "boolean", "whether the children of a split are to be unloaded"),
        Column("destination", "string", "broker id asked for; NULL leaves it to placement"),
    ),
    partition=("cluster",),
)

WISHED = (WISHES,)
