"""Every metric that is exported: name, kind, unit, labels and meaning. The reference page is made of this."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.lake.outbox import SENT
from evenkeel.model.past_commands import HARMED, UNTOUCHED

GAUGE, COUNTER = "gauge", "counter"
CLUSTER = ("cluster",)

OPEN_COMMAND = "open"
"""The outcome of a command without any observed outcome yet."""
OUTCOMES = (*sorted(SENT | UNTOUCHED), HARMED, OPEN_COMMAND)
"""The values of the label `outcome`."""
SEVERITIES = ("reject", "quarantine", "warn")
"""The values of the label `severity`."""


@dataclass(frozen=True, slots=True)
class ExportedMetric:
    """A metric. `unit`: of its value, in words; `labels`: the names of its labels."""

    name: str
    unit: str
    meaning: str
    labels: tuple[str, ...] = CLUSTER
    kind: str = GAUGE


@dataclass(frozen=True, slots=True)
class NeedMetric:
    """The metric of a kind of need (`status.attention.KINDS`): its count, 0 without the need.

    `rests_on`: the tables read for it, by the names in `LakeStatus.unread`. While one of them is unread, a missing need
    is not known to be 0.
    """

    need: str
    metric: ExportedMetric
    rests_on: frozenset[str] = frozenset()


def _need(need: str, name: str, unit: str, meaning: str, *rests_on: str) -> NeedMetric:
    return NeedMetric(need, ExportedMetric(name, unit, meaning), frozenset(rests_on))


NEEDS: tuple[NeedMetric, ...] = (
    _need(
        "newer_version",
        "evenkeel_newer_version",
        "0 or 1",
        "a newer version of Evenkeel wrote the newest cycle; other needs of the cluster are missing then",
    ),
    _need(
        "harm",
        "evenkeel_harmed_commands",
        "commands",
        "commands of the day before the newest cycle that harmed clients",
        "harm",
    ),
    _need(
        "hung_broker",
        "evenkeel_hung_brokers",
        "brokers",
        "brokers that answered, and whose metadata store or load manager did not",
        "broker_reports",
    ),
    _need("failed", "evenkeel_cycle_failed", "0 or 1", "the newest cycle failed"),
    _need(
        "stale",
        "evenkeel_cycle_late",
        "0 or 1",
        "no cycle for three usual intervals, and for five minutes at least; 0 for a recording",
    ),
    _need(
        "approval",
        "evenkeel_waiting_commands",
        "commands",
        "commands of a plan that waits for an answer",
        "approvals",
        "settings",
    ),
    _need(
        "bounces",
        "evenkeel_bounces",
        "moves",
        "moves back to a broker that the bundle had left within the hour, or that a guard looked at as such",
        "moves",
        "guard_decisions",
    ),
    _need(
        "quarantined",
        "evenkeel_quarantined_rules",
        "rules",
        "rules that kept the newest cycle from deciding, 1 where no rule did but nothing was to be had",
        "validation_results",
    ),
    _need("withheld", "evenkeel_plan_withheld", "0 or 1", "the newest plan was not sent"),
    _need(
        "too_hot",
        "evenkeel_hot_bundles",
        "bundles",
        "bundles that would overload any broker, so that no move mends them",
        "unload_decisions",
        "guard_decisions",
    ),
    _need(
        "idle_broker",
        "evenkeel_idle_brokers",
        "brokers",
        "brokers that report and own no bundle or have no messages while others have some; drained ones aside",
        "broker_load",
        "unload_decisions",
    ),
    _need(
        "planner_set_aside",
        "evenkeel_planner_set_aside",
        "0 or 1",
        "three plans of the planner in a row brought less than half of their promise: it does not decide for a day",
        "planner_findings",
    ),
    _need(
        "misconfigured",
        "evenkeel_misconfigurations",
        "rules",
        "kinds of namespaces, isolation policies, failure domains or anti-affinity groups that cannot work",
        "validation_results",
    ),
    _need(
        "held",
        "evenkeel_held_commands",
        "commands",
        "commands of the newest cycle that guards held back",
        "guard_decisions",
    ),
    _need("paused", "evenkeel_paused", "0 or 1", "an operator paused the cluster", "controls"),
    _need("draining", "evenkeel_draining_brokers", "brokers", "brokers that are being emptied", "unload_decisions"),
)
"""A metric for each kind of need, in the same order."""

OF_CLUSTERS: tuple[ExportedMetric, ...] = (
    ExportedMetric(
        "evenkeel_balance_ratio",
        "ratio",
        "usage of the busiest broker over the mean, in the newest cycle with such a figure",
    ),
    ExportedMetric("evenkeel_brokers", "brokers", "brokers that reported in the newest cycle that came to decisions"),
    ExportedMetric("evenkeel_cycle_timestamp_seconds", "seconds since 1970", "time of the newest cycle"),
    ExportedMetric(
        "evenkeel_cycle_recorded_timestamp_seconds",
        "seconds since 1970",
        "when the newest cycle was put on record, by the publisher's clock",
    ),
    ExportedMetric(
        "evenkeel_cycle_interval_seconds", "seconds", "usual distance between cycles: the median of the newest"
    ),
    ExportedMetric(
        "evenkeel_snapshot_timestamp_seconds",
        "seconds since 1970",
        "when the newest snapshot was taken, of the newest cycle that had one",
    ),
    ExportedMetric(
        "evenkeel_cycle_unloads", "commands", "unloads that the newest cycle decided, those held back included"
    ),
    ExportedMetric(
        "evenkeel_cycle_splits", "commands", "splits that the newest cycle decided, those held back included"
    ),
    ExportedMetric("evenkeel_rejected_records", "records", "records that the newest cycle set aside"),
    ExportedMetric(
        "evenkeel_validation_failures", "rules", "rules that the newest cycle's data broke", (*CLUSTER, "severity")
    ),
    ExportedMetric(
        "evenkeel_commands",
        "commands",
        "commands of the day before the newest cycle, by what that cycle knew of them; `harmed` counts one once more",
        (*CLUSTER, "outcome"),
    ),
    ExportedMetric(
        "evenkeel_task_duration_seconds",
        "seconds",
        "of the newest cycle: from the last commit of the task before (of ingest: from the snapshot, where Evenkeel "
        "took it) to the last commit of this task (of publish: to the plan on record), waiting included",
        (*CLUSTER, "task"),
    ),
)

OF_THE_LOG: tuple[ExportedMetric, ...] = (
    ExportedMetric("evenkeel_log_leaves", "leaves", "size of the transparency log's newest checkpoint", ()),
    ExportedMetric(
        "evenkeel_checkpoint_timestamp_seconds",
        "seconds since 1970",
        "when the newest checkpoint was written, by the clock of the folder or store",
        (),
    ),
    ExportedMetric(
        "evenkeel_unlogged_commits", "commits", "commits of the record's tables without a leaf in the log", ()
    ),
    ExportedMetric(
        "evenkeel_lost_commits", "commits", "commits that have a leaf in the log and are newer than their table", ()
    ),
    ExportedMetric(
        "evenkeel_witness_timestamp_seconds",
        "seconds since 1970",
        "when the witness last took a checkpoint, 0: never",
        ("witness",),
    ),
    ExportedMetric("evenkeel_witness_behind_leaves", "leaves", "leaves that the witness has not seen", ("witness",)),
    ExportedMetric(
        "evenkeel_witness_failing",
        "0 or 1",
        "the witness did not take a checkpoint when it was last asked",
        ("witness",),
    ),
    ExportedMetric(
        "evenkeel_witness_inconsistent",
        "0 or 1",
        "the witness has seen another tree: two clients are shown different pasts",
        ("witness",),
    ),
)

OF_VERIFY: tuple[ExportedMetric, ...] = (
    ExportedMetric(
        "evenkeel_verify_timestamp_seconds", "seconds since 1970", "when `evenkeel verify` last ran over the lake", ()
    ),
    ExportedMetric(
        "evenkeel_verify_faults", "places", "places that this run found not as they should be, 0: all is well", ()
    ),
)

CONFIGURATION_USABLE = ExportedMetric(
    "evenkeel_configuration_usable",
    "0 or 1",
    "1 if the current configuration file can be used, 0 if not (the earlier lakes are still watched); missing if "
    "`--lake` names the lake, or without such a file",
    (),
)
"""The one metric that is not of a lake."""

OF_THE_EXPORTER: tuple[ExportedMetric, ...] = (
    ExportedMetric("evenkeel_up", "0 or 1", "whether the last reading of the lake succeeded", ()),
    ExportedMetric(
        "evenkeel_reading_age_seconds",
        "seconds",
        "age of what is exported: since the last reading that succeeded ended; missing before the first",
        (),
    ),
    ExportedMetric("evenkeel_reading_duration_seconds", "seconds", "how long the last reading took", ()),
    ExportedMetric(
        "evenkeel_reading_failures_total",
        "readings",
        "readings of the lake that failed since the exporter began",
        (),
        COUNTER,
    ),
    ExportedMetric(
        "evenkeel_unread_parts",
        "parts",
        "parts of the lake (tables, log) that the last reading could not read; what rests on them is missing",
        (),
    ),
    CONFIGURATION_USABLE,
)

METRICS: tuple[ExportedMetric, ...] = (
    *OF_THE_EXPORTER,
    *OF_CLUSTERS,
    *(one.metric for one in NEEDS),
    *OF_THE_LOG,
    *OF_VERIFY,
)
"""All metrics, in the order of the reference page."""
BY_NAME = {metric.name: metric for metric in METRICS}
EMITTED = (
    "evenkeel_balance_ratio",
    "evenkeel_cycle_unloads",
    "evenkeel_cycle_splits",
    "evenkeel_rejected_records",
    "evenkeel_commands",
    *(one.metric.name for one in NEEDS),
)
"""Metrics that tasks also send to Airflow's own metrics, if these are on."""
