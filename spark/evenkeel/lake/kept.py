"""What upkeep puts on record: where a truncated chain begins, and what every upkeep did."""

from __future__ import annotations

from evenkeel.lake.schema import Column, Table

_TABLES_DONE = (
    "array<struct<table:string,files_before:bigint,files_after:bigint,bytes_before:bigint,bytes_after:bigint,"
    "rows_expired:bigint,rows_unlisted:bigint,bytes_freed:bigint,oldest_kept:date>>"
)

ANCHORS = Table(
    "anchors",
    "kept",
    "One row each time that rows at the beginning of a cluster's chain in `cycles` are dropped, written before they "
    "are: the last row that goes. What is left of the chain is verified from there. Doubled rows of one sequence are "
    "one anchor.",
    ("sequence",),
    ("upkeep",),
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("sequence", "bigint", "`sequence` of the last row dropped", nullable=False),
        Column(
            "manifest_digest", "string", "its `manifest_digest`: `previous_digest` of the row after", nullable=False
        ),
        Column("cycle_at", "timestamp", "its cycle", nullable=False),
        Column("recorded_at", "timestamp", "when it had been recorded", nullable=False),
        Column("made_at", "timestamp", "when the anchor was written", nullable=False),
        Column("code_version", "string", "version of Evenkeel that wrote the anchor", nullable=False),
    ),
    partition=("cluster",),
)

UPKEEPS = Table(
    "upkeeps",
    "kept",
    "Two rows per upkeep: `begun`, with the periods that hold from then on, and `done`, with what came of it. An "
    "upkeep that was killed has no second one. The periods of the newest row hold for the lake.",
    ("upkeep_id", "state"),
    ("upkeep",),
    (
        Column("upkeep_id", "string", "names the run", nullable=False),
        Column("state", "string", "begun or done", nullable=False),
        Column("begun_at", "timestamp", "when it began", nullable=False),
        Column("ended_at", "timestamp", "when it was done"),
        Column("by", "string", "who: an Airflow run, or a user of the command line", nullable=False),
        Column("periods", "map<string,bigint>", "days that each kind of row and version is kept", nullable=False),
        Column("tables", _TABLES_DONE, "what was done to each table; empty where it has only begun", nullable=False),
        Column("code_version", "string", "version of Evenkeel", nullable=False),
    ),
    partition=(),
)

KEPT = (ANCHORS, UPKEEPS)
