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

PROOFS = Table(
    "proofs",
    "kept",
    "One row for each table and date of which upkeep held the rows against the manifests, after it had put files "
    "together or taken rows out: all of the date's rows that a manifest lists and that were promised then were what it "
    "lists. As long as these files are what they were, `verify` takes that for their rows; of several rows for a file "
    "any will do.",
    ("upkeep_id", "table_name", "cycle_date"),
    ("upkeep",),
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("cycle_date", "date", "UTC date of the cycles", nullable=False),
        Column("table_name", "string", "table of the files", nullable=False),
        Column("upkeep_id", "string", "the upkeep that looked", nullable=False),
        Column("version", "bigint", "version of the table that was looked at", nullable=False),
        Column("writes", "bigint", "writes that were held against their manifests", "count", nullable=False),
        Column("rows", "bigint", "rows of these writes", "count", nullable=False),
        Column(
            "files",
            "array<struct<path:string,size:bigint,digest:string>>",
            "files of the date that no manifest lists, with bytes and SHA-256",
            nullable=False,
        ),
        Column("proven_at", "timestamp", "when it was done", nullable=False),
        Column("code_version", "string", "version of Evenkeel", nullable=False),
    ),
    partition=("cluster",),
)

KEPT = (ANCHORS, UPKEEPS, PROOFS)
