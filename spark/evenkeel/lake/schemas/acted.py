"""Acted tables: commands, their observed outcomes, the cycles themselves, and operators' requests and controls."""

from __future__ import annotations

from evenkeel.lake.schema import CYCLE_COLUMNS, Column, Table, cycle_table

_ACTS = "array<struct<command_id:string,outcome:string,seen_at:string>>"
_CLIENTS = "array<struct<at:string,producers:bigint,consumers:bigint,msg_backlog:bigint>>"
_PAUSES = "array<struct<by:string,reason:string>>"
WRITES_TYPE = "array<struct<table:string,write_id:string,version:bigint,rows:bigint,commit:string>>"
_FILES = "array<struct<table:string,write_id:string,path:string,size:bigint,digest:string>>"

COMMANDS = cycle_table(
    "commands",
    "acted",
    "The outbox: one command per row, on record before anything is sent. Doubled rows of one id are one command.",
    ("command_id",),
    ("publish",),
    Column("command_id", "string", "digest of plan, subject and step", nullable=False),
    Column("plan_id", "string", "plan that asks for it", nullable=False),
    Column("step", "int", "position in the plan: splits, then unloads, then topics", nullable=False),
    Column("kind", "string", "split, unload or unload_topic", nullable=False),
    Column("bundle", "string", "bundle concerned; of a topic its bundle", nullable=False),
    Column("from_broker", "string", "owner when it was decided"),
    Column("destination", "string", "broker asked for; NULL where Pulsar is to find one"),
    Column("algorithm", "string", "split algorithm"),
    Column("cuts", "array<bigint>", "positions of the cuts"),
    Column("unload_children", "boolean", "whether the children are unloaded"),
    Column("mode", "string", "dry_run, approve or auto", nullable=False),
    Column("request", "string", "the admin request that carries it out", nullable=False),
    Column("expires_at", "timestamp", "not to be sent after this moment", nullable=False),
    Column("clients", _CLIENTS, "the bundle in the cycle before, if known, and when it was decided on"),
    Column("topic", "string", "of unload_topic: the topic's full name"),
)

OUTCOMES = cycle_table(
    "outcomes",
    "acted",
    "One row per command and observation of it; `harmed` is a row beside a command's outcome and replaces none.",
    ("command_id", "outcome"),
    ("publish", "ingest"),
    Column("command_id", "string", "command observed", nullable=False),
    Column(
        "outcome",
        "string",
        "dry_run, done, stale, refused, overridden, lost, timed_out, unknown, harmed",
        nullable=False,
    ),
    Column("seen_at", "timestamp", "when it was seen; the cycle's time in a dry run", nullable=False),
    Column("detail", "string", "what was seen, in words", nullable=False),
)

SETTINGS = cycle_table(
    "settings",
    "acted",
    "One row per key of the settings in force in a cycle, with the origin of its value.",
    ("key",),
    ("ingest",),
    Column("settings_digest", "string", "digest of all keys and values", nullable=False),
    Column("key", "string", "Pulsar's configuration key, or one of Evenkeel's own", nullable=False),
    Column("value", "string", "JSON of the value in force", nullable=False),
    Column(
        "origin", "string", "default, observed or override as the first word; what follows says more", nullable=False
    ),
    Column("unit", "string", "unit of the value"),
)

CYCLES = Table(
    "cycles",
    "acted",
    "The manifest chain, one per cluster: two rows (planned, closed) per attempt; readers trust only what it lists.",
    ("sequence",),
    ("publish",),
    (
        *CYCLE_COLUMNS,
        Column("sequence", "bigint", "position in the cluster's chain, from 1", nullable=False),
        Column("attempt", "int", "attempt at this cycle, from 1", nullable=False),
        Column("attempt_id", "string", "digest that names the attempt", nullable=False),
        Column("row_kind", "string", "planned or closed", nullable=False),
        Column("kind", "string", "live, backfill or rerun", nullable=False),
        Column("status", "string", "planned, closed, skipped, failed or withheld", nullable=False),
        Column("reason", "string", "why it was skipped, failed or withheld; what to know of it otherwise"),
        Column("mode", "string", "dry_run, approve or auto", nullable=False),
        Column("plan_id", "string", "digest of the plan's content; NULL where nothing was decided"),
        Column("settings_digest", "string", "settings in force"),
        Column("manager", "string", "load manager whose rules decided"),
        Column("shedder", "string", "shedding strategy; `Planner` where Evenkeel's own planner decided"),
        Column("placement", "string", "placement strategy"),
        Column("splits", "int", "splits decided, those held back included", "count"),
        Column("unloads", "int", "unloads decided, those held back included", "count"),
        Column("placements", "int", "placements decided", "count"),
        Column("refusals", "int", "acts refused: splits, unloads and placements", "count"),
        Column("held", "int", "commands that guards held back", "count"),
        Column("rejected_records", "bigint", "records set aside", "count"),
        Column("before_max_over_mean", "double", "largest broker usage over the mean, as observed", "ratio"),
        Column(
            "after_max_over_mean", "double", "the same with all that is not held back, by share of traffic", "ratio"
        ),
        Column(
            "moved_traffic_share", "double", "share of the cluster's traffic that moves, held back aside", "fraction"
        ),
        Column("predecessor_cycle_at", "timestamp", "cycle whose state was taken over"),
        Column("predecessor_attempt_id", "string", "attempt whose state was taken over"),
        Column("predecessor_expected_at", "timestamp", "cycle that should have come before, by the source"),
        Column("predecessor_status", "string", "used, none (first cycle), missing (not on record) or older"),
        Column("source", "string", "where the snapshot came from"),
        Column("snapshot", "string", "the landed snapshot"),
        Column("snapshot_at", "timestamp", "when the snapshot was taken"),
        Column("wishes", "array<string>", "wishes that the attempt took", nullable=False),
        Column("acts", _ACTS, "commands of the day before that it counted on, with what was known of each"),
        Column("pauses", _PAUSES, "pauses of the cluster that held when it began"),
        Column(
            "writes",
            WRITES_TYPE,
            "every write of this attempt: write id, table version, rows, SHA-256 of the commit in Delta's log",
            nullable=False,
        ),
        Column("files", _FILES, "data files of the writes that were made or read: bytes and SHA-256", nullable=False),
        Column("reads", WRITES_TYPE, "every write of earlier cycles that was read", nullable=False),
        Column("dag_id", "string", "Airflow DAG, or `cli`"),
        Column("run_id", "string", "Airflow run"),
        Column("code_version", "string", "version of Evenkeel"),
        Column("code_digest", "string", "digest of the deciding code"),
        Column("schema_version", "int", "version of the tables", nullable=False),
        Column("recorded_at", "timestamp", "clock of the publisher", nullable=False),
        Column("body_digest", "string", "digest of this row's content", nullable=False),
        Column("previous_digest", "string", "manifest_digest of the row before; empty for the first", nullable=False),
        Column("manifest_digest", "string", "digest of previous_digest and body_digest", nullable=False),
    ),
    partition=("cluster",),
    serializable=True,
)

ACTED = (COMMANDS, OUTCOMES, SETTINGS, CYCLES)


CONTROLS = Table(
    "controls",
    "acted",
    "One row per pause, resumption, takeover, handback, and step of a publisher's lease. The last pause or resumption "
    "of a cluster holds; so do its last takeover or handback, and the lease with the highest token.",
    ("kind", "token", "at"),
    ("publish",),
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("kind", "string", "pause, resume, takeover, handback or lease", nullable=False),
        Column("at", "timestamp", "when the row was made, by the maker's clock", nullable=False),
        Column("by", "string", "who: an operator, or a publisher's try", nullable=False),
        Column("reason", "string", "why, in words"),
        Column("token", "bigint", "of a lease: rises with every new holder, 0 otherwise", "count", nullable=False),
        Column("until", "timestamp", "of a lease: to be renewed before this moment; the moment it was given back"),
        Column("switches", "string", "of a takeover: JSON of the brokers' dynamic values that it found"),
    ),
    partition=("cluster",),
    serializable=True,
)

APPROVALS = Table(
    "approvals",
    "acted",
    "One row per answer of an operator to a plan. It holds for that very plan, and for no other.",
    ("plan_id", "at"),
    ("publish",),
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("plan_id", "string", "the plan", nullable=False),
        Column("answer", "string", "approved, approved_without_splits or rejected", nullable=False),
        Column("by", "string", "who answered", nullable=False),
        Column("at", "timestamp", "when", nullable=False),
        Column("note", "string", "the operator's text"),
    ),
    partition=("cluster",),
)

STEERED = (CONTROLS, APPROVALS)


# Wishes: operators' requests. A wish is recorded once and never changed.

SPLIT, UNLOAD, UNLOAD_TOPIC, DRAIN, UNDRAIN = "split", "unload", "unload_topic", "drain", "undrain"

WISHES = Table(
    "wishes",
    "wished",
    "One row per wish; it waits until a cycle takes it, and is then listed in that cycle's `wishes` and decisions. A "
    "drain is taken by each cycle until an undrain of its broker. Doubled rows of one id are one wish.",
    ("wish_id",),
    ("ingest",),
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("wish_id", "string", "digest that names the wish", nullable=False),
        Column("made_at", "timestamp", "when it was made; only cycles from this moment on take it", nullable=False),
        Column("made_by", "string", "who made it", nullable=False),
        Column("run_id", "string", "Airflow run that brought it; NULL from the command line"),
        Column("kind", "string", "split, unload, unload_topic, drain or undrain", nullable=False),
        Column("namespace", "string", "tenant/namespace; empty for a drain", nullable=False),
        Column(
            "bundle",
            "string",
            "range of the bundle; LARGEST or HOT for a split, ALL for unloads; empty for a drain or a topic",
            nullable=False,
        ),
        Column("algorithm", "string", "split algorithm asked for; empty for the broker's default"),
        Column("positions", "array<bigint>", "cuts asked for, for specified_positions_divide"),
        Column("unload_children", "boolean", "whether the children of a split are to be unloaded"),
        Column("destination", "string", "broker id asked for; NULL leaves it to placement"),
        Column("broker", "string", "of a drain: broker id of the broker that is to be emptied"),
        Column("topic", "string", "of unload_topic: the topic's full name"),
    ),
    partition=("cluster",),
)

WISHED = (WISHES,)
