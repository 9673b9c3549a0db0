"""Recorded snapshots of real clusters decided one after the other in this process, without Spark.

Small answers are read as ingest reads them. Sums over topics are made here: of a topic that two brokers show, the
larger figures count.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel import repetition as whole
from evenkeel.aggregate import round as aggregate_round
from evenkeel.cycle import reading
from evenkeel.handover import ClusterCycle, Snapshot
from evenkeel.ingest.snapshot_intake import SettingsInForce, SnapshotIntake, taken_in
from evenkeel.lake.plain_rows import as_read
from evenkeel.model.bundles import bundle_name, bundle_of, parse_boundaries, topic_hash
from evenkeel.model.exact_sums import exact_sum
from evenkeel.model.load import RATES
from evenkeel.pulsar.answers import Answer, Answers, Kind
from evenkeel.settings import EffectiveSettings
from evenkeel.sources.landed_answers import SnapshotsOfRun
from evenkeel.sources.recordings import Recording
from evenkeel.times import moment_in
from tests.snapshot_lines import requests_of

Row = dict[str, Any]
CLUSTER = "lab"


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """A snapshot, the rows that it was decided on, and what came of it; `left_out` says why nothing did."""

    snapshot: Snapshot
    settings: EffectiveSettings | None = None
    rows: Mapping[str, Sequence[Row]] | None = None
    made: whole.DecidedCycle | None = None
    left_out: str | None = None


def recorded_cycles(recording: Path, overrides: Mapping[str, Any]) -> Iterator[RecordedCycle]:
    """The snapshots of a recording, each decided with what the one before left."""
    in_force = SettingsInForce()
    state: list[Row] = []
    before: dict[str, list[Row]] = {}
    for snapshot in Recording(recording).snapshots:
        asked = ClusterCycle(CLUSTER, snapshot.cycle_at, snapshot, dict(overrides))
        intake = taken_in(asked, SnapshotsOfRun([asked]), in_force)
        if intake.left_out is not None or intake.settings is None or intake.observed is None:
            yield RecordedCycle(snapshot, left_out=intake.left_out or "nothing was observed")
            continue
        settings = intake.settings
        cycle = reading.cycle_row(
            CLUSTER, snapshot.cycle_at, settings.to_json(), settings.digest, manager=intake.manager, mode="auto"
        )
        observed = _rows(intake, _answers(snapshot.path), cycle)
        loads = aggregate_round.decide({"cluster": CLUSTER}, {**observed, **before})
        rows = {**observed, **{table: [as_read(table, row) for row in own] for table, own in loads.items()}}
        made = whole.decide({table: rows[table] for table in whole.OBSERVED}, cycle, state)
        state = list(made.rows[whole.STATE])
        before = {
            aggregate_round.LOADS_BEFORE: rows["bundle_load"],
            aggregate_round.SPLITS_BEFORE: list(made.rows["split_decisions"]),
        }
        yield RecordedCycle(snapshot, settings, rows, made)


def _answers(path: str) -> Answers:
    found = (
        Answer(
            n=n,
            broker=one["broker"],
            path=one["path"],
            status=one["status"],
            body=one["body"],
            at=moment_in(one["at"]),
            location=one["location"],
            method=one["method"],
            size=len((one["body"] or "").encode()),
        )
        for n, one in enumerate(requests_of(Path(path)))
    )
    return Answers(found)


def _rows(intake: SnapshotIntake, own: Answers, cycle: Row) -> dict[str, list[Row]]:
    assert intake.observed is not None
    stamp = {"cluster": CLUSTER, "cycle_at": cycle["cycle_at"]}
    rows = {table: [as_read(table, row | stamp) for row in found] for table, found in intake.observed.rows.items()}
    boundaries = {
        row["namespace"]: parse_boundaries(row["boundaries"])
        for row in rows["namespace_bundles"]
        if row["boundaries"] is not None
    }
    by_bundle: dict[str, list[Row]] = {}
    for topic in _topics(own).values():
        edges = boundaries.get(topic["namespace"])
        if edges is not None:
            bundle = bundle_name(topic["namespace"], bundle_of(edges, topic_hash(topic["topic"])))
            by_bundle.setdefault(bundle, []).append(topic)
    sums = [{**stamp, "bundle": bundle, **_sums(found)} for bundle, found in sorted(by_bundle.items())]
    return {**rows, "topic_sums": sums, "cycle": [cycle]}


def _topics(own: Answers) -> dict[str, Row]:
    """Name -> figures of the topics that are shown."""
    found: dict[str, Row] = {}
    for _, answer in own.each(Kind.TOPIC_FIGURES):
        if answer.status != 200 or answer.body is None:
            continue
        for namespace, ranges in json.loads(answer.body).items():
            for domains in ranges.values():
                for domain, topics in domains.items():
                    for topic, figures in topics.items():
                        row = _topic(namespace, domain, topic, figures)
                        if topic not in found or _traffic(row) > _traffic(found[topic]):
                            found[topic] = row
    return found


def _topic(namespace: str, domain: str, topic: str, figures: Mapping[str, Any]) -> Row:
    subscriptions = figures["subscriptions"].values()
    rates = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
    return {
        "topic": topic,
        "namespace": namespace,
        "domain": domain,
        "producers": figures["producerCount"],
        "consumers": sum(len(one["consumers"]) for one in subscriptions),
        "msg_backlog": sum(one["msgBacklog"] for one in subscriptions),
        **dict(zip(RATES, (float(figures[rate]) for rate in rates), strict=True)),
    }


def _traffic(topic: Row) -> float:
    return float(topic["msg_throughput_in"] + topic["msg_throughput_out"])


def _sums(topics: Sequence[Row]) -> Row:
    return {
        "topics": len(topics),
        "listed_topics": len(topics),
        **{name: sum(topic[name] for topic in topics) for name in ("consumers", "producers", "msg_backlog")},
        **{figure: exact_sum(topic[figure] for topic in topics) for figure in RATES},
        "has_non_persistent": any(topic["domain"] == "non-persistent" for topic in topics),
        "all_known": True,
    }
