"""Checked and derived tables: verdicts on the observed rows, and the loads that decisions use."""

from __future__ import annotations

from evenkeel.lake.schema import Column, cycle_table

VALIDATION_RESULTS = cycle_table(
    "validation_results",
    "checked",
    "One row per rule, table and cluster, passed or failed.",
    ("checked_table", "rule"),
    ("validate",),
    Column("checked_table", "string", "table the rule looks at; the first one for a rule over several", nullable=False),
    Column("rule", "string", "name of the rule", nullable=False),
    Column("kind", "string", "expectation (Great Expectations) or cross_table", nullable=False),
    Column("severity", "string", "reject, quarantine or warn", nullable=False),
    Column("passed", "boolean", "whether the rule held", nullable=False),
    Column("checked_rows", "bigint", "rows or subjects looked at", "count"),
    Column("failed_rows", "bigint", "rows or subjects that broke the rule", "count"),
    Column("measured", "double", "worst value found, where the rule compares one"),
    Column("threshold", "double", "limit that the rule compares with"),
    Column("unit", "string", "unit of measured and threshold"),
    Column("sample", "array<string>", "up to ten offenders, sorted"),
    Column("detail", "string", "what was found and what to do, in a sentence", nullable=False),
    Column("definition", "string", "JSON of the rule as it stood"),
)

REJECTED = cycle_table(
    "rejected",
    "checked",
    "One row per record set aside: where it stood, which rule refused it and the record itself.",
    ("rejected_from", "place", "rule"),
    ("ingest", "validate"),
    Column("rejected_from", "string", "table the record was meant for", nullable=False),
    Column("file", "string", "snapshot file", nullable=False),
    Column("place", "string", "where in the file: request, broker, topic, bundle", nullable=False),
    Column("rule", "string", "rule that refused it", nullable=False),
    Column("reason", "string", "what is wrong and what to do", nullable=False),
    Column("record", "string", "the record as it came"),
    Column("record_key", "string", "JSON list of the record's key in `rejected_from`; NULL if it never was a row"),
)

_AVERAGES = tuple(
    Column(f"{term}_{name}", "double", f"{words} average of {what}", unit)
    for term, words in (("short", "short-term (10 samples)"), ("long", "long-term (1000 samples)"))
    for name, what, unit in (
        ("msg_rate_in", "messages published", "msg/s"),
        ("msg_rate_out", "messages delivered", "msg/s"),
        ("msg_throughput_in", "bytes published", "byte/s"),
        ("msg_throughput_out", "bytes delivered", "byte/s"),
    )
)


def _figures(prefix: str, words: str) -> tuple[Column, ...]:
    return (
        Column(f"{prefix}msg_rate_in", "double", f"messages published, {words}", "msg/s"),
        Column(f"{prefix}msg_rate_out", "double", f"messages delivered, {words}", "msg/s"),
        Column(f"{prefix}msg_throughput_in", "double", f"bytes published, {words}", "byte/s"),
        Column(f"{prefix}msg_throughput_out", "double", f"bytes delivered, {words}", "byte/s"),
    )


BUNDLE_LOAD = cycle_table(
    "bundle_load",
    "derived",
    "One row per bundle of the boundaries in force: owner, latest load, short- and long-term averages.",
    ("bundle",),
    ("aggregate",),
    Column("bundle", "string", "tenant/namespace/0x…_0x…", nullable=False),
    Column("namespace", "string", "tenant/namespace", nullable=False),
    Column("lower", "bigint", "first hash of the range", nullable=False),
    Column("upper", "bigint", "hash after the range; 4294967295 closes the last one", nullable=False),
    Column("owner", "string", "broker that owns it; NULL if none or more than one"),
    Column("ownership", "string", "owned, unowned, doubled or unknown", nullable=False),
    Column("last_owner", "string", "owner when one was last known, this cycle's or an earlier one's"),
    Column("is_system", "boolean", "heartbeat, SLA-monitor or pulsar/system namespace", nullable=False),
    Column("has_non_persistent", "boolean", "holds a loaded non-persistent topic", nullable=False),
    Column("topics", "bigint", "loaded topics; NULL if its broker's topic figures are missing", "count"),
    Column("listed_topics", "bigint", "topics known, loaded or not", "count", nullable=False),
    Column("consumers", "bigint", "consumers", "count"),
    Column("producers", "bigint", "producers", "count"),
    *_figures("measured_", "sum over its topics; NULL if unknown"),
    *_figures("used_", "what decisions use: measured, else the last trusted figures"),
    Column("used_reason", "string", "measured, carried, inherited (by a split's child) or unknown", nullable=False),
    Column(
        "measured_gap",
        "string",
        "why what was measured is not used: not_owned, no_topic_figures, topics_rejected, unsettled, just_moved",
    ),
    Column("trusted_at", "timestamp", "cycle of the figures in use"),
    Column("short_samples", "int", "samples in the short-term average, at most 10", "count", nullable=False),
    Column("long_samples", "int", "samples in the long-term average, at most 1000", "count", nullable=False),
    *_AVERAGES,
    *_figures("reported_", "by the owner's own report"),
    Column("reported_topics", "bigint", "loaded topics by the owner's own report", "count"),
    Column("msg_backlog", "bigint", "messages not yet acknowledged, over all subscriptions", "msg"),
    Column("consumers_before", "bigint", "consumers in the cycle before", "count"),
    Column("producers_before", "bigint", "producers in the cycle before", "count"),
    Column("msg_backlog_before", "bigint", "msg_backlog in the cycle before", "msg"),
    Column(
        "samples_since_quota",
        "bigint",
        "samples since the averages began from the bundle's resource quota; NULL where they did not begin from one",
        "count",
    ),
)

BROKER_LOAD = cycle_table(
    "broker_load",
    "derived",
    "One row per broker: usage in percent, weighted usage, sums over its bundles.",
    ("broker",),
    ("aggregate",),
    Column("broker", "string", "broker id host:port", nullable=False),
    Column("state", "string", "as in broker_reports, or rejected if validate set its report aside", nullable=False),
    Column("is_leader", "boolean", "leader of the load manager", nullable=False),
    Column("pulsar_version", "string", "version that the broker reported"),
    Column("load_manager_class", "string", "loadManagerClassName of the report, or of what it shows to run"),
    Column("cpu_percent", "double", "32-bit arithmetic as Pulsar's", "percent"),
    Column("memory_percent", "double", "JVM heap; 32-bit arithmetic as Pulsar's", "percent"),
    Column("direct_memory_percent", "double", "32-bit arithmetic as Pulsar's", "percent"),
    Column("bandwidth_in_percent", "double", "32-bit arithmetic as Pulsar's", "percent"),
    Column("bandwidth_out_percent", "double", "32-bit arithmetic as Pulsar's", "percent"),
    Column("cpu_weight", "double", "weight in force", "factor", nullable=False),
    Column("memory_weight", "double", "weight in force (extensible manager only)", "factor", nullable=False),
    Column("direct_memory_weight", "double", "weight in force", "factor", nullable=False),
    Column("bandwidth_in_weight", "double", "weight in force", "factor", nullable=False),
    Column("bandwidth_out_weight", "double", "weight in force", "factor", nullable=False),
    Column("weighted_usage", "double", "largest weighted usage; NULL if the broker did not report", "fraction"),
    *_figures("", "sum over its bundles as used"),
    *_figures("reported_", "by its own report"),
    Column("topics", "bigint", "loaded topics, sum over its bundles", "count", nullable=False),
    Column("reported_topics", "bigint", "loaded topics by its own report", "count"),
    Column("bundles", "bigint", "bundles that it owns", "count", nullable=False),
    *_AVERAGES,
)

STRATEGY_STATE = cycle_table(
    "strategy_state",
    "derived",
    "What a strategy remembers from one cycle to the next.",
    ("strategy", "subject", "name"),
    ("plan_splits", "shed", "place"),
    Column("strategy", "string", "Pulsar's name of the strategy, or `frame` for what all share", nullable=False),
    Column("subject", "string", "broker, bundle or cluster remembered", nullable=False),
    Column("name", "string", "what is remembered, e.g. usage_average", nullable=False),
    Column("value", "double", "number remembered"),
    Column("at", "timestamp", "time remembered"),
)

DERIVED = (VALIDATION_RESULTS, REJECTED, BUNDLE_LOAD, BROKER_LOAD, STRATEGY_STATE)
