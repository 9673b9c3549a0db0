"""Decided tables: one row per subject considered, with the deciding rule and its numbers."""

from __future__ import annotations

from evenkeel.lake.schema import Column, cycle_table

_REASON = (
    Column("subject", "string", "bundle, broker, cluster or topic considered", nullable=False),
    Column("subject_kind", "string", "bundle, broker, cluster or topic", nullable=False),
    Column("namespace", "string", "namespace of a bundle or topic"),
    Column("broker", "string", "present owner, or the broker considered"),
    Column("strategy", "string", "Pulsar's name of the strategy, `wish` or `Planner`", nullable=False),
    Column("outcome", "string", "what was decided", nullable=False),
    Column("rule", "string", "the gate that settled it", nullable=False),
    Column("setting", "string", "configuration key of the threshold"),
    Column("measured", "double", "measured value, in `unit`"),
    Column("threshold", "double", "threshold it was compared with, in `unit`"),
    Column("margin", "double", "measured - threshold, in `unit`"),
    Column("unit", "string", "unit of measured, threshold and margin"),
    Column(
        "alternatives",
        "array<struct<name:string,verdict:string,rule:string,measured:double>>",
        "what else was possible, and what spoke against it",
        nullable=False,
    ),
    Column("numbers", "map<string,double>", "other figures that the rule used", nullable=False),
    Column("sentence", "string", "the reason in words", nullable=False),
    Column("wish_id", "string", "wish that was judged; NULL without one"),
)

SPLIT_DECISIONS = cycle_table(
    "split_decisions",
    "decided",
    "One row per bundle considered for a split, per wish for one, and per split that Evenkeel's planner wants.",
    ("subject", "wish_id", "strategy"),
    ("plan_splits",),
    *_REASON,
    Column("algorithm", "string", "split algorithm, where a cut was looked for"),
    Column("cuts", "array<bigint>", "hash positions of the cuts"),
    Column("children", "array<string>", "bundles after the split"),
    Column("unload_children", "boolean", "whether the children are to be unloaded"),
)

UNLOAD_DECISIONS = cycle_table(
    "unload_decisions",
    "decided",
    "One row per broker and bundle considered for shedding, per wish for an unload of a bundle or topic, and per "
    "draining broker with its bundles.",
    ("subject_kind", "subject", "wish_id", "strategy"),
    ("shed",),
    *_REASON,
)

PLACEMENT_DECISIONS = cycle_table(
    "placement_decisions",
    "decided",
    "One row per bundle that needs a broker: shed, wished away, on a draining broker, or without owner.",
    ("subject",),
    ("place",),
    *_REASON,
    Column("cause", "string", "shed, wish, draining or no_owner", nullable=False),
    Column("destination", "string", "broker chosen; NULL if none"),
    Column("best", "array<string>", "brokers among which the strategy was indifferent, sorted", nullable=False),
    Column(
        "candidates",
        "array<struct<broker:string,removed_by:string,score:double>>",
        "every available broker, the filter that removed it (NULL if it stayed) and its score: msg/s, a fraction for "
        "LeastResourceUsageWithWeight, NULL if nothing is measured",
        nullable=False,
    ),
    Column("without_anti_affinity", "string", "destination had the anti-affinity filter been off"),
    Column("changed_by_anti_affinity", "boolean", "whether that filter changed the destination", nullable=False),
)

GUARD_DECISIONS = cycle_table(
    "guard_decisions",
    "decided",
    "One row per command that a guard held back, or let through in spite of an objection; and one per reason to ask "
    "nothing of the cluster at all. A command without a row met no objection.",
    ("position", "rule"),
    ("publish",),
    Column("subject", "string", "bundle of the command, or the cluster", nullable=False),
    Column("subject_kind", "string", "bundle or cluster", nullable=False),
    Column("namespace", "string", "namespace of a bundle"),
    Column(
        "position",
        "int",
        "the command's place in the plan before anything was held back; 0 for the cluster",
        "count",
        nullable=False,
    ),
    Column("kind", "string", "split or unload; NULL for the cluster"),
    Column("broker", "string", "owner when it was decided"),
    Column("destination", "string", "broker where an unloaded bundle is expected"),
    Column("outcome", "string", "held or allowed", nullable=False),
    Column("rule", "string", "the guard that settled it", nullable=False),
    Column("setting", "string", "configuration key of the threshold"),
    Column("measured", "double", "measured value, in `unit`"),
    Column("threshold", "double", "threshold it was compared with, in `unit`"),
    Column("margin", "double", "measured - threshold, in `unit`"),
    Column("unit", "string", "unit of measured, threshold and margin"),
    Column("numbers", "map<string,double>", "other figures that the rule used", nullable=False),
    Column("sentence", "string", "the reason in words", nullable=False),
    Column("wish_id", "string", "wish that asked for the command; NULL without one"),
)

PLANNER_TARGETS = cycle_table(
    "planner_targets",
    "decided",
    "One row for the cluster, one per broker, and one per bundle that Evenkeel's planner moves, plans to move, or has "
    "looked at instead. Only in cycles with evenkeelPlanner on or shadow.",
    ("subject_kind", "subject"),
    ("plan_splits",),
    *_REASON,
    Column("destination", "string", "broker where the planner wants the bundle; NULL if it stays"),
    Column("position", "int", "order of the moves, 1 comes first; NULL where nothing moves", "count"),
    Column("gain", "double", "usage that the move takes off the broker that gives", "fraction"),
    Column("cost", "double", "weighted share of the cluster's sessions, topics and traffic that moves", "fraction"),
    Column(
        "needs_split",
        "boolean",
        "whether the bundle has to be split before it can be moved; its result: `split_decisions` of the "
        "next cycle, strategy `Planner`",
    ),
    Column("basis", "string", "what the figures rest on: usage or traffic"),
)

PLANNER_MODELS = cycle_table(
    "planner_models",
    "decided",
    "One row per broker and resource: how its usage grows with its load, as Evenkeel's planner has fitted it. Only in "
    "cycles with evenkeelPlanner on or shadow.",
    ("broker", "resource"),
    ("plan_splits",),
    Column("broker", "string", "broker id (host:port)", nullable=False),
    Column("resource", "string", "cpu, direct_memory, bandwidth_in or bandwidth_out", nullable=False),
    Column("base", "double", "usage without any load", "fraction"),
    Column("slope", "double", "usage added per unit of `regressor`", "fraction per byte/s"),
    Column(
        "regressor",
        "string",
        "what the usage grows with: `byte/s` of a direction of the network; else `byte/s and "
        "messages`, byte/s with each message counted as the bytes that one of the cluster has on average",
    ),
    Column("error", "double", "mean absolute error on cycles that the fit has not seen", "fraction"),
    Column("mean_error", "double", "the same error, had the mean usage been taken instead", "fraction"),
    Column("samples", "int", "settled cycles that the fit rests on", "count", nullable=False),
    Column("is_used", "boolean", "whether the fit is used; else the broker's share of traffic", nullable=False),
    Column("sentence", "string", "the reason in words", nullable=False),
)

PLANNER_FINDINGS = cycle_table(
    "planner_findings",
    "decided",
    "One row per thing that no plan mends, with its figures: a bundle hotter than a broker's share, a cluster that is "
    "too small, a broker above the target by its base alone. Only in cycles with evenkeelPlanner on or shadow.",
    ("subject_kind", "subject", "rule"),
    ("plan_splits",),
    *_REASON,
)

PLANNED = (PLANNER_TARGETS, PLANNER_MODELS, PLANNER_FINDINGS)
"""The planner's tables, written if it is not off."""
PLANNER_TABLES = tuple(table.name for table in PLANNED)

DECIDED = (SPLIT_DECISIONS, UNLOAD_DECISIONS, PLACEMENT_DECISIONS, GUARD_DECISIONS, *PLANNED)
