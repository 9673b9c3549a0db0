"""Tables beside the record: upkeep's records, results of replays, and the data of the heat map.

Heat rows are derived from the record and outside its chain. They have no write id, and no manifest lists them. They are
made again if the record differs, and all of them can be made again as long as the source rows are kept. They are
neither verified, exported nor logged. Values are bytes that only `evenkeel.heat` reads, and rules never see them.
"""

from __future__ import annotations

from evenkeel.lake.schema import Column, Table, cycle_table
from evenkeel.lake.schemas.acted import WRITES_TYPE

_TABLES_DONE = (
    "array<struct<table:string,files_before:bigint,files_after:bigint,bytes_before:bigint,bytes_after:bigint,"
    "rows_expired:bigint,rows_unlisted:bigint,bytes_freed:bigint,oldest_kept:date>>"
)

_PLAIN_FILES = "array<struct<path:string,size:bigint,digest:string>>"

ANCHORS = Table(
    "anchors",
    "kept",
    "One row each time that rows at the beginning of a cluster's chain in `cycles` are dropped, written before they "
    "are: the last row that goes. The rest of the chain is verified from it. Duplicate rows of one sequence are "
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
    "Two rows per upkeep: `begun`, with the periods from then on, and `done`, with its result. A "
    "killed upkeep has no second row. The periods of the newest row apply to the lake.",
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
    "One row for each table and date whose files upkeep has put together, or taken rows out of: it compared the rows "
    "of all writes that manifests list in the files before and in the files after, and they were the same. As long as "
    "the files after are what they were, `verify` takes that for their rows.",
    ("upkeep_id", "table_name", "cycle_date"),
    ("upkeep",),
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("cycle_date", "date", "UTC date of the cycles", nullable=False),
        Column("table_name", "string", "table of the files", nullable=False),
        Column("upkeep_id", "string", "the upkeep that looked", nullable=False),
        Column("version", "bigint", "version of the table that was looked at", nullable=False),
        Column("writes", "bigint", "writes that manifests list of the date", "count", nullable=False),
        Column("rows", "bigint", "rows of these writes", "count", nullable=False),
        Column("files_before", _PLAIN_FILES, "files that the rows came from, with bytes and SHA-256", nullable=False),
        Column("files_after", _PLAIN_FILES, "files that hold the rows since, with bytes and SHA-256", nullable=False),
        Column("proven_at", "timestamp", "when it was done", nullable=False),
        Column("code_version", "string", "version of Evenkeel", nullable=False),
    ),
    partition=("cluster",),
)

KEPT = (ANCHORS, UPKEEPS, PROOFS)


# Replayed tables: the decisions of other strategies or settings. Never part of the record, never sent.

_WHOSE = (
    Column("replay_id", "string", "the replay that made the row", nullable=False),
    Column("variant", "string", "what decided: a variant by its name, or `recorded`", nullable=False),
)

REPLAY_CYCLES = cycle_table(
    "replay_cycles",
    "replayed",
    "One row per replay, variant and cycle: what would have been asked, and the brokers' load before and after.",
    ("replay_id", "variant"),
    ("replay", "simulate"),
    *_WHOSE,
    Column("plan_id", "string", "digest of the plan; only where recorded settings were decided again"),
    Column("reproduced", "boolean", "whether that is the recorded plan_id; NULL where settings are others"),
    Column("splits", "int", "splits asked", "count", nullable=False),
    Column("moves", "int", "unloads asked", "count", nullable=False),
    Column("held", "int", "commands that guards held back", "count", nullable=False),
    Column("refusals", "int", "acts refused: splits, unloads and placements", "count"),
    Column("bounces", "int", "moves back to an owner of the hour before", "count", nullable=False),
    Column("moved_traffic_share", "double", "share of the cluster's traffic that would move", "fraction"),
    Column("before_max_usage", "double", "usage of the busiest broker before", "fraction"),
    Column("after_max_usage", "double", "usage of the busiest broker after, by share of traffic", "fraction"),
    Column("before_max_over_mean", "double", "largest broker usage over the mean, before", "ratio"),
    Column("after_max_over_mean", "double", "the same after", "ratio"),
    Column("before_spread", "double", "standard deviation of the brokers' usage, before", "fraction"),
    Column("after_spread", "double", "the same after", "fraction"),
    Column("over_limit", "boolean", "whether a broker is over the replay's limit after the plan"),
    Column("only_here", "int", "commands that the record does not have", "count"),
    Column("only_recorded", "int", "recorded commands that the variant does not ask for", "count"),
)

REPLAY_DECISIONS = cycle_table(
    "replay_decisions",
    "replayed",
    "One row per command that a variant would ask for, and per one that its guards would hold back.",
    ("replay_id", "variant", "kind", "bundle"),
    ("replay", "simulate"),
    *_WHOSE,
    Column("kind", "string", "split or unload", nullable=False),
    Column("bundle", "string", "bundle concerned", nullable=False),
    Column("from_broker", "string", "owner at that moment"),
    Column("destination", "string", "where the bundle would go"),
    Column("cuts", "array<bigint>", "hash positions of a split's cuts"),
    Column("outcome", "string", "asked, or held", nullable=False),
    Column("rule", "string", "rule of the strategy, or of the guard that held it back", nullable=False),
    Column("strategy", "string", "strategy that decided"),
    Column("sentence", "string", "the reason in words"),
    Column("on_record", "boolean", "whether the record has the same command", nullable=False),
    Column("bounce", "boolean", "whether it goes back to an owner of the hour before", nullable=False),
)

REPLAY_RUNS = Table(
    "replay_runs",
    "replayed",
    "One row per replay that came to its end, written last; readers trust only the writes that it lists.",
    ("replay_id",),
    ("replay", "simulate"),
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("replay_id", "string", "names the replay", nullable=False),
        Column("kind", "string", "open_loop (decided on what was seen) or closed_loop (a model)", nullable=False),
        Column("since", "timestamp", "first cycle", nullable=False),
        Column("until", "timestamp", "last cycle", nullable=False),
        Column("cycles", "bigint", "cycles replayed", "count", nullable=False),
        Column("variants", "string", "JSON: name of each variant to what differs from the record", nullable=False),
        Column("limit", "double", "usage that counts as over the limit", "fraction", nullable=False),
        Column("scenario", "string", "JSON: the model, its traffic and the seed; NULL in an open loop"),
        Column("summary", "string", "JSON: the comparison, a row per variant", nullable=False),
        Column("writes", WRITES_TYPE, "every write of the replay: write id, version, rows, digest", nullable=False),
        Column("code_version", "string", "version of Evenkeel"),
        Column("code_digest", "string", "digest of the deciding code"),
        Column("made_at", "timestamp", "clock of the replaying process", nullable=False),
    ),
    partition=("cluster",),
)

REPLAYED = (REPLAY_CYCLES, REPLAY_DECISIONS, REPLAY_RUNS)


_PRODUCERS = ("heat",)

HEAT_BLOCKS = Table(
    "heat_blocks",
    "derived",
    "Outside the record, can be made again: a row per cluster, layer, metric, namespace and block of time, and per "
    "piece of it with the same bundles; beside them an overview of the whole cluster in 1,536 key ranges at most. One "
    "set of rows per block is visible at any time.",
    ("layer_seconds", "grain", "block_start", "namespace", "metric", "piece"),
    _PRODUCERS,
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("layer_seconds", "int", "length of a column: 60, 600, 3600 or 21600; 0 in `state`", "s", nullable=False),
        Column(
            "grain", "string", "overview, namespaces, or state: what the cluster's heat is built from", nullable=False
        ),
        Column("block_start", "bigint", "first moment of the block, since 1970", "s", nullable=False),
        Column("namespace", "string", "tenant/namespace; empty in an overview", nullable=False),
        Column(
            "metric",
            "string",
            "message_rate, byte_rate, topics, sessions, broker_share, owner; `columns` says which columns there are, "
            "`state` up to where the record was looked at",
            nullable=False,
        ),
        Column("piece", "int", "position among the block's pieces of this namespace", "count", nullable=False),
        Column("first_column", "int", "the piece's first column among those of `columns`", "count"),
        Column("columns", "int", "columns of the piece", "count"),
        Column("ranges", "int", "key ranges of the piece", "count"),
        Column("boundaries", "binary", "64-bit integers: first hash of each range, then hash after each range"),
        Column(
            "names",
            "array<string>",
            "of an overview: its namespaces in order; a boundary is 2^32 times the namespace's position, plus the hash",
        ),
        Column("bundles", "binary", "of an overview: bundles in each range, 32-bit integers"),
        Column(
            "cells",
            "binary",
            "column after column: a byte per range on the metric's scale, 0 unknown, 1 nothing; "
            "of owner 16 bits, 0 unknown, 65535 several, else position in `brokers` from 1",
        ),
        Column(
            "shared",
            "binary",
            "column after column, a bit per range: a bundle's figure was shared by width; NULL: none",
        ),
        Column("starts", "array<bigint>", "of `columns`: first moment of each column, since 1970", "s"),
        Column("digests", "array<string>", "of `columns`: digest of the attempts that each column was built from"),
        Column("brokers", "array<string>", "of `columns`: brokers that own anything in the block"),
        Column("through_sequence", "bigint", "of `state`: the newest row of `cycles` that was looked at", "count"),
        Column("through_at", "timestamp", "of `state`: the newest cycle by then"),
        Column("exact_since", "timestamp", "of `state`: first moment of the kept rows of `bundle_load`"),
        Column("format", "int", "version of what the bytes mean", "count", nullable=False),
    ),
    partition=("cluster", "layer_seconds", "grain", "block_start"),
)

HEAT_MARKS = Table(
    "heat_marks",
    "derived",
    "Outside the record, can be made again: a row per move, split, held command and bounce, for the heat map.",
    ("at", "kind", "namespace", "lower", "text"),
    _PRODUCERS,
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column(
            "block_start", "bigint", "first moment of the ten days that hold the cycle, since 1970", "s", nullable=False
        ),
        Column("at", "timestamp", "the cycle that decided it, or of a bounce first saw it", nullable=False),
        Column(
            "kind",
            "string",
            "move, split, held, or bounce: back at a broker that it left in the hour before",
            nullable=False,
        ),
        Column("namespace", "string", "tenant/namespace", nullable=False),
        Column("lower", "bigint", "first hash of the bundle's range", nullable=False),
        Column("upper", "bigint", "hash after the range; 4294967295 closes the last one", nullable=False),
        Column("text", "string", "source and destination, and the outcome", nullable=False),
    ),
    partition=("cluster", "block_start"),
)

HEAT = (HEAT_BLOCKS, HEAT_MARKS)
