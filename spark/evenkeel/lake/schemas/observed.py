"""Observed tables, the content of a snapshot; checked and derived ones: verdicts on its rows, loads made of them."""

from __future__ import annotations

from evenkeel.lake.schema import Column, cycle_table

_INGEST = ("ingest",)


def _resource(name: str, unit: str, meaning: str) -> tuple[Column, Column]:
    return (
        Column(f"{name}_usage", "double", f"{meaning} in use", unit),
        Column(f"{name}_limit", "double", f"{meaning} at most", unit),
    )


_RATES = (
    Column("msg_rate_in", "double", "messages published", "msg/s"),
    Column("msg_rate_out", "double", "messages delivered", "msg/s"),
    Column("msg_throughput_in", "double", "bytes published", "byte/s"),
    Column("msg_throughput_out", "double", "bytes delivered", "byte/s"),
)

BROKER_REPORTS = cycle_table(
    "broker_reports",
    "observed",
    "One row per broker and cycle: the broker's own figures, or that it sent none.",
    ("broker",),
    _INGEST,
    Column("broker", "string", "broker id host:port", nullable=False),
    Column("state", "string", "reported, no_answer, not_ready, hung or unreadable", nullable=False),
    Column("state_reason", "string", "why the state is not `reported`, in words"),
    Column("is_listed", "boolean", "in the cluster's list of available brokers", nullable=False),
    Column("is_leader", "boolean", "named as leader of the load manager", nullable=False),
    Column("manager", "string", "load manager that it runs: modular, extensible or unknown", nullable=False),
    Column("pulsar_version", "string", "version that the broker reported"),
    Column("load_manager_class", "string", "loadManagerClassName of the report, or of what it shows to run"),
    Column("report_at", "timestamp", "when the broker computed its report"),
    Column("asked_at", "timestamp", "when the broker was asked"),
    Column("started_at", "timestamp", "when the broker started"),
    Column("resource_origin", "string", "load_report, or metrics_percent (usage is a percent, the limit is 100)"),
    *_resource("cpu", "percent of one core", "CPU"),
    *_resource("memory", "MiB", "JVM heap"),
    *_resource("direct_memory", "MiB", "direct memory"),
    *_resource("bandwidth_in", "kbit/s", "network bandwidth in"),
    *_resource("bandwidth_out", "kbit/s", "network bandwidth out"),
    Column("weighted_max_ema", "double", "published by the extensible manager", "fraction"),
    *_RATES,
    Column("topics", "bigint", "topics that the broker has loaded", "count"),
    Column("consumers", "bigint", "consumers connected", "count"),
    Column("producers", "bigint", "producers connected", "count"),
    Column("bundles", "array<string>", "bundles named in the report, sorted"),
    Column(
        "owned_bundles",
        "bigint",
        "bundles that the broker owns: by its own list, or by its load report (`is_owned`)",
        "count",
    ),
    Column("has_topic_figures", "boolean", "topic figures came and could be read; else unknown", nullable=False),
    Column("persistent_topics_enabled", "boolean", "broker takes persistent topics"),
    Column("non_persistent_topics_enabled", "boolean", "broker takes non-persistent topics"),
    Column("rest", "string", "JSON of what the report holds beyond these columns"),
)

TOPIC_STATS = cycle_table(
    "topic_stats",
    "observed",
    "One row per topic (a partition is a topic) and broker that shows it; while it moves, twice or nowhere.",
    ("topic", "broker"),
    _INGEST,
    Column("topic", "string", "full name with domain and partition suffix", nullable=False),
    Column("namespace", "string", "tenant/namespace", nullable=False),
    Column(
        "domain",
        "string",
        "persistent or non-persistent; topic or segment where a scalable topic is listed only",
        nullable=False,
    ),
    Column("hash", "bigint", "CRC32 of the UTF-8 name, 0 to 4294967295", nullable=False),
    Column("observation", "string", "loaded, or listed (in the topic list, in no broker's figures)", nullable=False),
    Column("broker", "string", "broker that has it loaded; NULL where it is only listed"),
    Column("seen_on", "int", "brokers that show it; 2 while it moves, 0 if only listed", "count", nullable=False),
    Column("bundle_range", "string", "range under which the broker showed it"),
    *_RATES,
    Column("producers", "bigint", "producers connected, replicators left out", "count"),
    Column("consumers", "bigint", "consumers of all subscriptions", "count"),
    Column("subscriptions", "bigint", "subscriptions", "count"),
    Column("storage_size", "bigint", "bytes stored", "byte"),
    Column("backlog_size", "bigint", "bytes not yet acknowledged", "byte"),
    Column("msg_backlog", "bigint", "messages not yet acknowledged, over all subscriptions", "msg"),
    Column("rest", "string", "JSON of the topic's whole answer"),
)

NAMESPACE_BUNDLES = cycle_table(
    "namespace_bundles",
    "observed",
    "One row per namespace: the bundle boundaries in force.",
    ("namespace",),
    _INGEST,
    Column("namespace", "string", "tenant/namespace", nullable=False),
    Column("boundaries", "array<string>", "hex boundaries in the answer's order", nullable=False),
    Column("bundles", "int", "number of bundles as answered", "count", nullable=False),
    Column("anti_affinity_group", "string", "group that the namespace belongs to; NULL if none"),
    Column("policies", "string", "JSON of the namespace's policies"),
)

BUNDLE_OWNERSHIP = cycle_table(
    "bundle_ownership",
    "observed",
    "One row per bundle and broker that claims it, with the broker's own figures for it.",
    ("bundle", "broker"),
    _INGEST,
    Column("bundle", "string", "tenant/namespace/0x…_0x…", nullable=False),
    Column("namespace", "string", "tenant/namespace", nullable=False),
    Column("broker", "string", "broker id host:port", nullable=False),
    Column("is_owned", "boolean", "by its own list, or by its load report if that list is not requested"),
    Column("is_active", "boolean", "`is_active` of the owned-bundles answer"),
    Column("is_reported", "boolean", "in the load report's list of bundles; NULL without a report"),
    *_RATES,
    Column("topics", "bigint", "loaded topics by the broker's own count", "count"),
    Column("consumers", "bigint", "consumers by the broker's own count", "count"),
    Column("producers", "bigint", "producers by the broker's own count", "count"),
    Column("cache_size", "bigint", "bytes cached", "byte"),
)

RESOURCE_QUOTAS = cycle_table(
    "resource_quotas",
    "observed",
    "One row per bundle that was asked about and has a resource quota of its own: what it counts for unmeasured.",
    ("bundle",),
    _INGEST,
    Column("bundle", "string", "tenant/namespace/0x…_0x…", nullable=False),
    Column("namespace", "string", "tenant/namespace", nullable=False),
    Column("msg_rate_in", "double", "messages published, `msgRateIn`", "msg/s", nullable=False),
    Column("msg_rate_out", "double", "messages delivered, `msgRateOut`", "msg/s", nullable=False),
    Column("msg_throughput_in", "double", "bytes published, `bandwidthIn`", "byte/s", nullable=False),
    Column("msg_throughput_out", "double", "bytes delivered, `bandwidthOut`", "byte/s", nullable=False),
    Column("memory", "double", "`memory`; no decision looks at it", "MB"),
    Column("is_dynamic", "boolean", "`dynamic`; no decision looks at it"),
    Column("age_seconds", "double", "age against the snapshot, if an earlier one lent it", "s"),
)

CLUSTER_POLICIES = cycle_table(
    "cluster_policies",
    "observed",
    "One row per cluster: what holds for all its brokers and namespaces.",
    (),
    _INGEST,
    Column("manager", "string", "modular, extensible, mixed or unknown", nullable=False),
    Column(
        "generation",
        "string",
        "3.0, 3.3, 4.0, 4.x (4.1 and later 4) or 5.0, by the oldest broker's version",
        nullable=False,
    ),
    Column("leader", "string", "broker id of the leader"),
    Column("brokers", "array<string>", "available brokers as listed, sorted", nullable=False),
    Column("failure_domains", "map<string,array<string>>", "domain to broker ids"),
    Column("anti_affinity_groups", "map<string,string>", "namespace to group; namespaces without group are left out"),
    Column("isolation_policies", "string", "JSON of the isolation policies, and the names that they match"),
    Column("configuration", "map<string,string>", "runtime configuration of the leader, else of the first broker"),
    Column("configuration_broker", "string", "whose configuration it is"),
    Column("configuration_age_seconds", "double", "age against the snapshot, if an earlier one lent it", "s"),
    Column("configuration_differs", "string", "JSON: key to broker to value, where brokers differ"),
    Column("topic_lists_age_seconds", "double", "age of the topic lists against the snapshot", "s"),
    Column("snapshot", "string", "the landed snapshot that was read", nullable=False),
    Column("snapshot_started_at", "timestamp", "first request of the snapshot"),
    Column("snapshot_finished_at", "timestamp", "last answer of the snapshot"),
)

RAW_ANSWERS = cycle_table(
    "raw_answers",
    "observed",
    "Every answer of the snapshot but the topic figures (which `topic_stats.rest` keeps), unaltered.",
    ("n",),
    _INGEST,
    Column("n", "int", "position in the snapshot", nullable=False),
    Column("broker", "string", "broker that was asked"),
    Column("method", "string", "HTTP method"),
    Column("path", "string", "path and query"),
    Column("status", "int", "HTTP status; 0 if no answer came"),
    Column("at", "timestamp", "when it was asked"),
    Column("elapsed_ms", "double", "time to the answer", "ms"),
    Column("location", "string", "Location header of a redirect"),
    Column("body", "string", "the answer's text; NULL for topic figures, kept in topic_stats"),
)

OBSERVED = (
    *(BROKER_REPORTS, TOPIC_STATS, NAMESPACE_BUNDLES, BUNDLE_OWNERSHIP, RESOURCE_QUOTAS, CLUSTER_POLICIES),
    RAW_ANSWERS,
)


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
