"""Observed tables: the content of a snapshot, nothing inferred."""

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
    Column("generation", "string", "4.x or 5.0, by the brokers' versions", nullable=False),
    Column("leader", "string", "broker id of the leader"),
    Column("brokers", "array<string>", "available brokers as listed, sorted", nullable=False),
    Column("failure_domains", "map<string,array<string>>", "domain to broker ids"),
    Column("anti_affinity_groups", "map<string,string>", "namespace to group; namespaces without group are left out"),
    Column("isolation_policies", "string", "JSON of the namespace isolation policies"),
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
