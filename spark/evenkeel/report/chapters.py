"""The content of a report, cluster by cluster: sentences and numbers, without any HTML, so that both can be tested."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evenkeel.explain import wording
from evenkeel.lake.record import Attempt, Row
from evenkeel.model import amounts
from evenkeel.publish.plan import PlannedMove, forecast
from evenkeel.report.compare import ShedderComparison
from evenkeel.report.decisions import Decisions, decisions, held_bundles
from evenkeel.report.gather import ClusterRows, CourseModel, course_model
from evenkeel.report.headline import (
    Headline,
    RejectionSummary,
    Result,
    checks,
    harm_lines,
    headline,
    rejections,
    results,
    tally,
)
from evenkeel.report.plan_cost import traffic_of
from evenkeel.shed.strategies import overload_shedder, threshold_shedder


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of a list of facts."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Provenance:
    """The origin of the cycle, so that it can be found and recomputed: its writes, and those of earlier cycles that it
    read, as the manifest lists them."""

    facts: tuple[Fact, ...]
    writes: tuple[Row, ...]
    reads: tuple[Row, ...]


@dataclass(frozen=True)
class Chapter:
    """The report of one cluster's cycle.

    `limit`: the row that `usage_limit` chooses. `checks_failed` and `checks_passed`: rows of `validation_results`;
    `settings`: rows of `settings` by what their origin begins with: override, observed or default.
    """

    cluster: str
    cycle_at: datetime
    status: str
    decided: bool
    headline: Headline
    harm: tuple[str, ...]
    newer: str
    state: tuple[Fact, ...]
    brokers: tuple[BrokerLine, ...]
    limit: Row | None
    course: CourseModel
    decisions: Decisions
    results: tuple[Result, ...]
    rejections: tuple[RejectionSummary, ...]
    rejected_records: int
    checks_failed: tuple[Row, ...]
    checks_passed: tuple[Row, ...]
    settings: Mapping[str, tuple[Row, ...]]
    provenance: Provenance
    comparison: ShedderComparison | None
    missing: Mapping[str, str]
    planner: PlannerChapter | None = None


@dataclass(frozen=True)
class CycleReport:
    """A whole report: one chapter per cluster."""

    title: str
    lake: str
    chapters: tuple[Chapter, ...]


def build_model(lake: str | Path, clusters: Sequence[ClusterRows]) -> CycleReport:
    """Return the report of the clusters' rows of a lake. Pure: equal rows give equal reports."""
    chapters = tuple(map(_chapter, clusters))
    names = wording.listed([wording.shortened(wording.visible(chapter.cluster), 60) for chapter in chapters])
    return CycleReport(f"Evenkeel: {names}", str(lake), chapters)


def _chapter(rows: ClusterRows) -> Chapter:
    tables, attempt = rows.tables, rows.attempt
    verdicts = checks(tables["validation_results"])
    decided = decisions(tables)
    lines = broker_lines(tables)
    came_of_it = results(rows.commands, {row["command_id"]: row["detail"] for row in rows.harm})
    facts = [*_broker_facts(tables["broker_load"]), *_bundle_facts(tables["bundle_load"])]
    if tables["cluster_policies"]:
        facts += _policy_facts(tables["cluster_policies"][0], tables["broker_load"])
    if attempt.planned["shedder"]:
        facts.append(Fact("Shedding", attempt.planned["shedder"], f"placement: {attempt.planned['placement']}"))
    return Chapter(
        cluster=attempt.cluster,
        cycle_at=attempt.cycle_at,
        status=attempt.status,
        decided=attempt.decided,
        headline=headline(attempt, decided, verdicts, tables["unload_decisions"], tally(came_of_it)),
        harm=harm_lines(rows.harm),
        newer=_newer(rows),
        state=tuple(facts),
        brokers=lines,
        limit=usage_limit(tables["unload_decisions"]),
        course=course_model(rows.course, tables["settings"], attempt),
        decisions=decided,
        results=came_of_it,
        rejections=rejections(tables["rejected"]),
        rejected_records=len(tables["rejected"]),
        checks_failed=tuple(check for check in verdicts if not check["passed"]),
        checks_passed=tuple(check for check in verdicts if check["passed"]),
        settings=_settings(tables["settings"]),
        provenance=_provenance(attempt, rows.signed),
        comparison=rows.comparison,
        missing=rows.missing,
        planner=planner_chapter(tables),
    )


def _newer(rows: ClusterRows) -> str:
    """Return a sentence about the newest cycle, if it is not the cycle shown."""
    if rows.newest.cycle_at == rows.attempt.cycle_at:
        return ""
    newest = rows.newest
    at = f"The newest cycle on record is that of {wording.time(newest.cycle_at)}"
    if not newest.decided:
        return f"{at}; it was {newest.status}: {newest.reason or 'no reason is on record'}"
    acts = sum(newest.planned[name] or 0 for name in ("splits", "unloads", "placements", "refusals"))
    return f"{at}." if acts else f"{at}; it would change nothing."


def _broker_facts(loads: Sequence[Row]) -> list[Fact]:
    if not loads:
        return []
    silent = [row for row in loads if row["state"] != "reported"]
    note = ", ".join(f"{row['broker']}: {row['state'].replace('_', ' ')}" for row in silent[:5])
    more = f" and {len(silent) - 5} more" if len(silent) > 5 else ""
    number = f"{len(loads) - len(silent)} of {len(loads)} reported" if silent else str(len(loads))
    return [Fact("Brokers", number, note + more)]


def _bundle_facts(bundles: Sequence[Row]) -> list[Fact]:
    if not bundles:
        return []
    states = {state: sum(row["ownership"] == state for row in bundles) for state in ("unowned", "doubled", "unknown")}
    note = ", ".join(f"{number:,} {state}" for state, number in states.items() if number)
    topics = [row["topics"] for row in bundles if row["topics"] is not None]
    unknown = len(bundles) - len(topics)
    traffic = sum((row["used_msg_throughput_in"] or 0.0) + (row["used_msg_throughput_out"] or 0.0) for row in bundles)
    rate = sum((row["used_msg_rate_in"] or 0.0) + (row["used_msg_rate_out"] or 0.0) for row in bundles)
    return [
        Fact("Bundles", amounts.count(len(bundles)), note),
        Fact(
            "Topics", amounts.count(sum(topics)), f"of {amounts.plural(unknown, 'bundle')} not known" if unknown else ""
        ),
        Fact("Traffic", amounts.throughput(traffic), f"{amounts.rate(rate)}, in and out"),
    ]


def _policy_facts(policies: Row, loads: Sequence[Row]) -> list[Fact]:
    versions = sorted({row["pulsar_version"] for row in loads if row["pulsar_version"]})
    facts = [Fact("Load manager", policies["manager"], f"Pulsar {', '.join(versions)}" if versions else "")]
    if policies["leader"]:
        facts.append(Fact("Leader", policies["leader"]))
    domains, groups = policies["failure_domains"] or {}, policies["anti_affinity_groups"] or {}
    if domains or groups:
        named = sorted(set(groups.values()))
        note = f"{amounts.plural(len(named), 'anti-affinity group')}" if named else ""
        facts.append(Fact("Failure domains", ", ".join(sorted(domains)) or "none", note))
    start, end = policies["snapshot_started_at"], policies["snapshot_finished_at"]
    if start is not None and end is not None:
        facts.append(Fact("Snapshot", wording.time(end), f"took {amounts.duration((end - start).total_seconds())}"))
    return facts


def _settings(rows: Sequence[Row]) -> Mapping[str, tuple[Row, ...]]:
    return {
        kind: tuple(row for row in rows if row["origin"].startswith(kind))
        for kind in ("override", "observed", "default")
    }


def _provenance(attempt: Attempt, signed: str) -> Provenance:
    row = attempt.planned
    before = row["predecessor_cycle_at"]
    predecessor = f"cycle of {wording.time(before)}" if before else "none"
    if before and row["predecessor_attempt_id"]:
        predecessor += f", attempt {row['predecessor_attempt_id']}"
    if row["predecessor_status"] in ("missing", "older"):
        predecessor += f"; expected was {wording.time(row['predecessor_expected_at'])}, which is not on record"
    facts = [
        Fact("Plan", attempt.plan_id or "none: nothing was decided"),
        Fact("Attempt", f"{attempt.number} ({attempt.kind}), {attempt.attempt_id}"),
        Fact("State taken over from", predecessor),
        Fact("Snapshot", row["snapshot"] or "unknown", row["source"] or ""),
        Fact("Settings digest", row["settings_digest"] or "unknown"),
        Fact("Run", f"{row['dag_id'] or 'unknown'} / {row['run_id'] or 'unknown'}"),
        Fact("Code", f"{row['code_version'] or 'unknown'}, digest {row['code_digest'] or 'unknown'}"),
        Fact("Chain", f"row {row['sequence']}, digest {row['manifest_digest']}"),
        Fact("Recorded", wording.time(row["recorded_at"])),
        Fact("Signed", signed),
    ]
    return Provenance(tuple(facts), _writes((attempt.closed or row)["writes"]), _writes(row["reads"]))


def _writes(rows: Sequence[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows, key=lambda row: (row["table"], row["write_id"])))


# Load per broker, as observed and with the plan carried out: a forecast by share of traffic.

_RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")


@dataclass(frozen=True, slots=True)
class BrokerLine:
    """One broker: weighted usage and share of the cluster's traffic (fractions), traffic in byte/s.

    None if unknown. `resource` names the resource of its weighted usage.
    """

    broker: str
    state: str
    state_reason: str
    is_leader: bool
    resource: str
    usage_before: float | None
    usage_after: float | None
    traffic_before: float
    traffic_after: float
    share_before: float | None
    share_after: float | None
    bundles_before: int
    bundles_after: int

    @property
    def changes(self) -> bool:
        """Return True if the plan moves a bundle from or to it."""
        return self.bundles_before != self.bundles_after or self.traffic_before != self.traffic_after


def broker_lines(tables: Mapping[str, Sequence[Row]]) -> tuple[BrokerLine, ...]:
    """Return the cluster's brokers by name; splits and held unloads do not count in the forecast."""
    held = held_bundles(tables.get("guard_decisions", ()))["unload"]
    loads = tables["broker_load"]
    traffic = traffic_of(tables["bundle_load"])
    moves = [
        PlannedMove(row["subject"], row["broker"], row["destination"], traffic.get(row["subject"], 0.0))
        for row in tables["placement_decisions"]
        if row["outcome"] == "placed" and row["destination"] is not None and row["subject"] not in held
    ]
    owned: dict[str, list[str]] = {row["broker"]: [] for row in loads}
    for row in tables["bundle_load"]:
        if row["owner"] in owned:
            owned[row["owner"]].append(row["bundle"])
    before = {broker: sum(traffic[bundle] for bundle in bundles) for broker, bundles in owned.items()}
    usage = {row["broker"]: row["weighted_usage"] for row in loads if row["weighted_usage"] is not None}
    after_usage = forecast(usage, before, moves).after
    after, bundles_after = dict(before), {broker: len(bundles) for broker, bundles in owned.items()}
    for move in moves:
        for broker, sign in ((move.source, -1), (move.destination, 1)):
            if broker in after:
                after[broker] += sign * move.throughput
                bundles_after[broker] += sign
    total, total_after = sum(before.values()), sum(after.values())
    reasons = {row["broker"]: row["state_reason"] or "" for row in tables["broker_reports"]}
    return tuple(
        BrokerLine(
            broker=row["broker"],
            state=row["state"],
            state_reason=reasons.get(row["broker"], ""),
            is_leader=bool(row["is_leader"]),
            resource=_heaviest(row),
            usage_before=usage.get(row["broker"]),
            usage_after=after_usage.get(row["broker"]),
            traffic_before=before[row["broker"]],
            traffic_after=after[row["broker"]],
            share_before=before[row["broker"]] / total if total > 0 else None,
            share_after=after[row["broker"]] / total_after if total_after > 0 else None,
            bundles_before=len(owned[row["broker"]]),
            bundles_after=bundles_after[row["broker"]],
        )
        for row in sorted(loads, key=lambda row: str(row["broker"]))
    )


def usage_limit(rows: Sequence[Row]) -> Row | None:
    """Return the row whose `threshold` is the usage (a fraction) from which a broker is shed from.

    None for a shedder without a limit on a broker's usage.

    `rows` are of `unload_decisions`. Of two limits the smaller is the lower boundary, below which a broker receives.
    """
    limit_rows = [row for row in rows if row["subject_kind"] == "broker" and row.get("setting") in USAGE_LIMITS]
    limit_rows = [row for row in limit_rows if row["unit"] == "fraction" and row["threshold"] is not None]
    return max(limit_rows, key=lambda row: float(row["threshold"]), default=None)


USAGE_LIMITS = (threshold_shedder.THRESHOLD_KEY, overload_shedder.THRESHOLD_KEY)


def foremost(lines: Sequence[BrokerLine]) -> list[BrokerLine]:
    """Return the most informative lines first: changed by the plan, then the busiest; unknown load is first."""
    return sorted(
        lines,
        key=lambda line: (line.usage_before is not None, not line.changes, -(line.usage_before or 0.0), line.broker),
    )


def _heaviest(row: Row) -> str:
    """The resource with the largest weighted percentage, in words; empty where no usage is known."""
    if row["weighted_usage"] is None:
        return ""
    weighted = [(float(row[f"{name}_percent"] or 0.0) * float(row[f"{name}_weight"]), name) for name in _RESOURCES]
    value, name = max(weighted, key=lambda pair: pair[0])
    return name.replace("_", " ").replace("cpu", "CPU") if value > 0 else ""


# The chapter's part on Evenkeel's own planner: its target, steps, findings and inputs.

PLANNER_KEY = "evenkeelPlanner"
OFF, SHADOW = "off", "shadow"
MOST_STEPS = 60
_PLACES = ("unload", "placed", "planned")


@dataclass(frozen=True, slots=True)
class PlannerChapter:
    """The planner's part of a cycle.

    `mode`: shadow or on. `target`: the row of the cluster in a sentence, and its `figures` by name. `due`: rows of
    bundles that move now (`unload`, `placed`: without an owner); `planned`: the first that a rule or a budget keeps for
    later, of `planned_count`; `split_first`: bundles that stay until they are split; `looked_at`: how many others stay.
    `brokers`: their rows; `models_used` of `models` are used; the other brokers use shares of traffic.
    """

    mode: str
    target: str
    figures: tuple[tuple[str, str], ...]
    due: tuple[Row, ...]
    planned: tuple[Row, ...]
    planned_count: int
    looked_at: int
    split_first: tuple[Row, ...]
    brokers: tuple[Row, ...]
    findings: tuple[Row, ...]
    models: tuple[Row, ...]
    basis: str

    @property
    def only_looks_on(self) -> bool:
        """Return True if the planner only watches and sends nothing."""
        return self.mode == SHADOW

    @property
    def models_used(self) -> int:
        """Return how many of the models are used."""
        return sum(model["is_used"] for model in self.models)


def planner_chapter(tables: Mapping[str, Sequence[Row]]) -> PlannerChapter | None:
    """Return the chapter of the rows of the planner's tables; None if it was off."""
    targets = tables.get("planner_targets", ())
    mode = next((json.loads(row["value"]) for row in tables.get("settings", ()) if row["key"] == PLANNER_KEY), OFF)
    if not targets and mode == OFF:
        return None
    whole = next((row for row in targets if row["subject_kind"] == "cluster"), None)
    bundles = [row for row in targets if row["subject_kind"] == "bundle"]
    moving = [row for row in bundles if row["outcome"] in _PLACES]
    moving.sort(key=lambda row: (row["position"] is None, row["position"] or 0, row["subject"]))
    due = [row for row in moving if row["outcome"] != "planned"]
    planned = [row for row in moving if row["outcome"] == "planned"]
    brokers = [row for row in targets if row["subject_kind"] == "broker"]
    brokers.sort(key=lambda row: (-(row["measured"] or 0.0), row["subject"]))
    count_of = Counter(row["basis"] for row in brokers if row["basis"])
    return PlannerChapter(
        mode=str(mode),
        target="" if whole is None else str(whole["sentence"]),
        figures=() if whole is None else _figures(whole),
        due=tuple(due),
        planned=tuple(planned[:MOST_STEPS]),
        planned_count=len(planned),
        looked_at=sum(row["outcome"] == "kept" and not row["needs_split"] for row in bundles),
        split_first=tuple(
            row
            for row in sorted(bundles, key=lambda row: str(row["subject"]))
            if row["outcome"] == "kept" and row["needs_split"]
        ),
        brokers=tuple(brokers),
        findings=tuple(tables.get("planner_findings", ())),
        models=tuple(tables.get("planner_models", ())),
        basis=", ".join(f"{name} for {amounts.plural(number, 'broker')}" for name, number in sorted(count_of.items())),
    )


_FIGURES: tuple[tuple[str, str, str], ...] = (
    ("even", "Evenly used", "fraction"),
    ("stop", "Target", "fraction"),
    ("busiest", "Busiest broker", "fraction"),
    ("busiest_after_due", "Busiest after the steps due", "fraction"),
    ("busiest_after", "Busiest after all steps", "fraction"),
    ("floor_load", "Load that has to move at least", "fraction"),
    ("floor_moves", "Moves at least", "count"),
    ("promised_gain", "Promised gain", "fraction"),
    ("due_cost", "Cost of the steps due", "fraction"),
    ("misses", "Promises not kept in a row", "count"),
)


def _figures(row: Row) -> tuple[tuple[str, str], ...]:
    """The numbers of the cluster's row that a reader looks for, by name; promises that were kept are not counted."""
    numbers = {name: value for name, value in row["numbers"].items() if value or name != "misses"}
    return tuple((words, amounts.quantity(numbers[name], unit)) for name, words, unit in _FIGURES if name in numbers)
