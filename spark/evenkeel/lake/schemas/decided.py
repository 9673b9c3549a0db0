"""Decided tables: one row per subject considered, with the rule that settled it and its numbers."""

from __future__ import annotations

from evenkeel.lake.schema import Column, cycle_table

_REASON = (
    Column("subject", "string", "bundle, broker, cluster or topic considered", nullable=False),
    Column("subject_kind", "string", "bundle, broker, cluster or topic", nullable=False),
    Column("namespace", "string", "namespace of a bundle or topic"),
    Column("broker", "string", "present owner, or the broker considered"),
    Column("strategy", "string", "Pulsar's name of the strategy, or `wish`", nullable=False),
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
    Column("wish_id", "string", "wish that was judged; NULL where no wish had a say"),
)

SPLIT_DECISIONS = cycle_table(
    "split_decisions",
    "decided",
    "One row per bundle considered for a split, and per wish for one.",
    ("subject", "wish_id"),
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
    "broker that is emptied with its bundles.",
    ("subject_kind", "subject", "wish_id", "strategy"),
    ("shed",),
    *_REASON,
)

PLACEMENT_DECISIONS = cycle_table(
    "placement_decisions",
    "decided",
    "One row per bundle that needs a broker: shed, wished away, on a broker that is emptied, or without owner.",
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
    Column("wish_id", "string", "wish that asked for the command; NULL where none did"),
)

DECIDED = (SPLIT_DECISIONS, UNLOAD_DECISIONS, PLACEMENT_DECISIONS, GUARD_DECISIONS)
