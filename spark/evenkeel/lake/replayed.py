"""Replayed tables: what other strategies or settings would have decided. Never part of the record, never sent."""

from __future__ import annotations

from evenkeel.lake.acted import WRITES_TYPE
from evenkeel.lake.schema import Column, Table, cycle_table

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
        Column("made_at", "timestamp", "clock of whoever replayed", nullable=False),
    ),
    partition=("cluster",),
)

REPLAYED = (REPLAY_CYCLES, REPLAY_DECISIONS, REPLAY_RUNS)
