"""A plausible lake: two clusters, several cycles, one of them skipped, with every kind of decision in it."""

import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from evenkeel.settings import resolve
from tests.lakes.small_lake import Row, SmallLake, moment
from tests.shared import made_once

LAB = "lab"
SPREAD = "spread"
LAB_FIRST = moment("2026-11-21T08:24:23.371000")
SPREAD_FIRST = moment("2026-11-21T09:10:05.120000")
ODD = '<script>alert("x")</script>\'"&amp; 雪 \u202eabc'
LONG = "n" * 2_000

MIB = 1024.0 * 1024.0
A, B, C = (f"127.0.0.{n}:19080" for n in (1, 2, 3))
HOT = "acme/ns1/0x70000000_0x80000000"
NEXT = "acme/ns0/0xe0000000_0xffffffff"
LARGE = "acme/ns2/0x00000000_0x20000000"


def broker_load(broker: str, usage: float | None, **more: Any) -> Row:
    percent = None if usage is None else usage * 100
    return {
        "broker": broker, "state": "reported" if usage is not None else "no_answer", "weighted_usage": usage,
        "cpu_percent": percent, "memory_percent": 38.2, "direct_memory_percent": 15.6, "bandwidth_in_percent": 0.01,
        "bandwidth_out_percent": 0.01, "cpu_weight": 1.0, "bandwidth_in_weight": 1.0, "bandwidth_out_weight": 1.0,
        "pulsar_version": "4.2.4", "load_manager_class": "ModularLoadManagerImpl", **more,
    }  # fmt: skip


def bundle_load(bundle: str, owner: str | None, throughput: float, **more: Any) -> Row:
    """`throughput` in byte/s, in and out together."""
    half = throughput / 2
    namespace, span = bundle.rsplit("/", 1)
    lower, upper = (int(edge, 16) for edge in span.split("_"))
    figures = {f"{kind}_msg_throughput_{way}": half for kind in ("measured", "used", "short") for way in ("in", "out")}
    rates = {f"{kind}_msg_rate_{way}": half / 940 for kind in ("measured", "used", "short") for way in ("in", "out")}
    return {
        "bundle": bundle, "namespace": namespace, "lower": lower, "upper": upper, "owner": owner, "last_owner": owner,
        "ownership": "owned" if owner else "unowned", "topics": 9, "listed_topics": 9, "consumers": 4, "producers": 9,
        "used_reason": "measured", "short_samples": 7, "long_samples": 7, **figures, **rates, **more,
    }  # fmt: skip


def decision(subject: str, kind: str, outcome: str, rule: str, sentence: str, **more: Any) -> Row:
    measured, threshold = more.get("measured"), more.get("threshold")
    return {
        "subject": subject, "subject_kind": kind, "outcome": outcome, "rule": rule, "sentence": sentence,
        "namespace": subject.rsplit("/", 1)[0] if kind == "bundle" else None, "strategy": "ThresholdShedder",
        "margin": None if measured is None or threshold is None else measured - threshold, **more,
    }  # fmt: skip


def placement(
    bundle: str, destination: str | None, cause: str, sentence: str, candidates: list[Row], **more: Any
) -> Row:
    placed = destination is not None
    row = decision(bundle, "bundle", "placed" if placed else "refused", "least_long_term_rate", sentence)
    row |= {"strategy": "LeastLongTermMessageRate", "destination": destination, "cause": cause}
    row |= {"best": [destination] if placed else [], "candidates": candidates, "without_anti_affinity": destination}
    return row | more


def candidate(broker: str, score: float | None = None, removed_by: str | None = None) -> Row:
    return {"broker": broker, "removed_by": removed_by, "score": score}


def settings(overrides: dict[str, Any]) -> list[Row]:
    effective = resolve(observed={"loadBalancerBrokerThresholdShedderPercentage": "10"}, overrides=overrides)
    return [{**row, "settings_digest": effective.digest} for row in effective.rows()]


def check(rule: str, passed: bool, severity: str, detail: str, **more: Any) -> Row:
    return {
        "checked_table": "broker_reports", "rule": rule, "kind": "cross_table", "severity": severity, "passed": passed,
        "checked_rows": 3, "failed_rows": 0 if passed else 1, "detail": detail, **more,
    }  # fmt: skip


CHECKS = [
    check("usage_within_limit", True, "warn", "All 3 brokers are within their limits."),
    check("bundles_owned_once", True, "quarantine", "Each of 24 bundles has one known owner."),
    check("rates_not_negative", True, "reject", "All rates are finite and not negative."),
]


def policies(brokers: list[str], at: datetime, **more: Any) -> Row:
    return {
        "manager": "modular", "generation": "4.x", "leader": B, "brokers": brokers, "configuration_broker": B,
        "configuration_age_seconds": 0.0, "snapshot": "/recordings/lab/0008.json.gz",
        "snapshot_started_at": at - timedelta(seconds=0.185), "snapshot_finished_at": at, **more,
    }  # fmt: skip


def lab_bundles() -> list[Row]:
    """24 bundles: the first broker holds half of the traffic."""
    rows = []
    for n in range(3):
        for i in range(8):
            bundle = f"acme/ns{n}/0x{i * 0x20000000:08x}_0x{min((i + 1) * 0x20000000, 0xFFFFFFFF):08x}"
            owner = (A, B, C)[(n + i) % 3]
            rows.append(bundle_load(bundle, owner, (0.21 if owner == A else 0.09) * MIB * (1 + (i % 4) / 5)))
    rows = [row for row in rows if row["bundle"] not in (NEXT, LARGE)]
    # The hot bundle stands in for one whose range is half as wide; the layout of ns1 is not the point here.
    rows.append(bundle_load(HOT, A, 0.31 * MIB, topics=31, listed_topics=31))
    rows.append(bundle_load(NEXT, A, 0.17 * MIB, topics=17, listed_topics=17))
    rows.append(bundle_load(LARGE, B, 0.2 * MIB, topics=64, listed_topics=64))
    return sorted(rows, key=lambda row: str(row["bundle"]))


def remembered(values: dict[str, float]) -> list[Row]:
    return [
        {"strategy": "ThresholdShedder", "subject": broker, "name": "usage_average", "value": value}
        for broker, value in values.items()
    ]


def kept(broker: str, usage: float, average: float) -> Row:
    over = (usage - average) * 100
    words = f"{over:.1f} points over" if over >= 0 else f"{-over:.1f} points under"
    return decision(
        broker, "broker", "kept", "below_threshold",
        f"{broker} at {usage * 100:.1f} % is {words} the cluster's average of {average * 100:.1f} %; "
        "the limit is 10 points.",
        broker=broker, measured=usage, threshold=average + 0.1, unit="fraction", numbers={"average": average},
        setting="loadBalancerBrokerThresholdShedderPercentage",
    )  # fmt: skip


def kept_bundles(bundles: list[Row]) -> list[Row]:
    return [
        decision(
            row["bundle"], "bundle", "kept", "within_limits",
            f"{row['bundle']} holds {row['topics']} topics, the limit is 60; nothing else is near its limit.",
            broker=row["owner"], measured=float(row["topics"]), threshold=60.0, unit="count",
            setting="loadBalancerNamespaceBundleMaxTopics", strategy="BundleSplitterTask",
        )
        for row in bundles
        if row["bundle"] != LARGE
    ]  # fmt: skip


SPLIT = decision(
    LARGE, "bundle", "split", "topics_over_limit",
    f"{LARGE} holds 64 topics, 4 more than the limit of 60; cut in two by range_equally_divide.",
    broker=B, measured=64.0, threshold=60.0, unit="count", strategy="BundleSplitterTask",
    setting="loadBalancerNamespaceBundleMaxTopics",
) | {
    "algorithm": "range_equally_divide", "cuts": [0x10000000], "unload_children": True,
    "children": ["acme/ns2/0x00000000_0x10000000", "acme/ns2/0x10000000_0x20000000"],
}  # fmt: skip
SPLIT_REFUSED = decision(
    "acme/ns3/0x00000000_0xffffffff", "bundle", "refused", "maximum_bundles",
    "acme/ns3/0x00000000_0xffffffff holds 71 topics, 11 more than the limit of 60, but its namespace already has "
    "128 bundles, the most allowed.",
    broker=C, measured=128.0, threshold=128.0, unit="count", setting="loadBalancerNamespaceMaximumBundles",
)  # fmt: skip


def unloads(usage: float, average: float) -> list[Row]:
    over = (usage - average) * 100
    to_offload = 0.34 * MIB
    return [
        decision(
            A, "broker", "unload", "above_threshold",
            f"{A} at {usage * 100:.1f} % is {over:.1f} points over the cluster's average of {average * 100:.1f} %; "
            "the limit is 10 points. 0.34 MiB/s of 2.32 MiB/s are to go.",
            broker=A, measured=usage, threshold=average + 0.1, unit="fraction",
            setting="loadBalancerBrokerThresholdShedderPercentage",
            numbers={"average": average, "to_offload": to_offload},
        ),
        decision(
            HOT, "bundle", "unload", "largest_first",
            f"{HOT} carries 0.31 MiB/s, the most on {A}; 0.34 MiB/s are to go.",
            broker=A, measured=0.31 * MIB, threshold=to_offload, unit="byte/s",
        ),
        decision(
            NEXT, "bundle", "unload", "largest_first",
            f"{NEXT} carries 0.17 MiB/s, the next on {A}; 0.03 MiB/s were still to go.",
            broker=A, measured=0.17 * MIB, threshold=0.03 * MIB, unit="byte/s",
        ),
        decision(
            "acme/ns0/0x00000000_0x20000000", "bundle", "skipped", "recently_unloaded",
            "acme/ns0/0x00000000_0x20000000 was unloaded 4 minutes ago; the grace period is 30 minutes.",
            broker=A, measured=240_000.0, threshold=1_800_000.0, unit="ms",
            setting="loadBalancerSheddingGracePeriodMinutes",
        ),
    ]  # fmt: skip


PLACEMENTS = [
    placement(
        HOT, C, "shed", f"{HOT} goes to {C}: 412.7 msg/s in the long term, the least of 2 candidates.",
        [candidate(A, removed_by="source"), candidate(B, 655.2), candidate(C, 412.7)], broker=A,
    ),
    placement(
        NEXT, B, "shed", f"{NEXT} goes to {B}: 655.2 msg/s in the long term, the least of 2 candidates.",
        [candidate(A, removed_by="source"), candidate(B, 655.2), candidate(C, 742.1)], broker=A,
    ),
]  # fmt: skip

USAGES = [
    (0.22, 0.19, 0.18), (0.29, 0.21, 0.17), (0.338, 0.22, 0.18), (0.352, 0.23, 0.19),
    (0.36, 0.22, 0.19), (0.38, 0.24, 0.2), (0.40, 0.24, 0.19), (0.41, 0.25, 0.21),
]  # fmt: skip
LAB_OVERRIDES = {
    "loadBalancerBundleUnloadMinThroughputThreshold": 0.01,
    "loadBalancerHistoryResourcePercentage": 0.2,
    "loadBalancerNamespaceBundleMaxTopics": 60,
}
ACTING = 6
SKIPPED = 3


def fill_lab(lake: SmallLake) -> None:
    """Eight cycles a minute apart: the fourth is skipped, the seventh unloads, splits and refuses."""
    memory: dict[str, float] = {}
    for n, usage in enumerate(USAGES):
        at = LAB_FIRST + timedelta(minutes=n)
        brokers, bundles = dict(zip((A, B, C), usage, strict=True)), lab_bundles()
        if n == SKIPPED:
            _add_skipped(lake, at)
            continue
        memory = {name: 0.2 * memory.get(name, value) + 0.8 * value for name, value in brokers.items()}
        average = sum(memory.values()) / 3
        acting = n == ACTING
        shedding = [kept(name, memory[name], average) for name in ((B, C) if acting else (A, B, C))]
        tables = {
            "broker_load": [broker_load(name, value, is_leader=name == B) for name, value in brokers.items()],
            "bundle_load": bundles,
            "cluster_policies": [policies([A, B, C], at)],
            "settings": settings(LAB_OVERRIDES),
            "strategy_state": remembered(memory),
            "validation_results": CHECKS + ([_late_report()] if acting else []),
            "rejected": [_rejected()] if acting else [],
            "split_decisions": kept_bundles(bundles) + ([SPLIT, SPLIT_REFUSED] if acting else []),
            "unload_decisions": shedding + (unloads(memory[A], average) if acting else []),
            "placement_decisions": PLACEMENTS if acting else [],
        }
        top, mean = max(usage), sum(usage) / 3
        lake.add(
            LAB, at, tables, plan_id=f"{n:02x}" + "9f1c" * 15, splits=int(acting), unloads=2 * acting,
            placements=2 * acting, refusals=0, rejected_records=int(acting), before_max_over_mean=top / mean,
            after_max_over_mean=1.21 if acting else top / mean, moved_traffic_share=0.118 if acting else 0.0,
            manager="modular", shedder="ThresholdShedder", placement="LeastLongTermMessageRate",
        )  # fmt: skip


def _late_report() -> Row:
    return check(
        "report_not_old", False, "warn",
        f"The report of {C} is 1,260 s older than the snapshot, 60 s over the limit: see if its load manager hangs.",
        measured=1260.0, threshold=1200.0, unit="s", sample=[C],
    )  # fmt: skip


def _rejected() -> Row:
    return {
        "rejected_from": "topic_stats", "file": "0006.json.gz", "place": f"topic persistent://acme/ns1/{ODD}",
        "rule": "rates_not_negative", "reason": "msgRateIn is -3.5: a rate is not negative. The topic is left out.",
        "record": '{"msgRateIn": -3.5}',
    }  # fmt: skip


def _add_skipped(lake: SmallLake, at: datetime) -> None:
    hole = check(
        "ranges_cover_the_hash_space", False, "quarantine",
        "acme/ns1 has a hole from 0x40000000 to 0x60000000: a split may be under way. If it is still there in the next "
        "cycle, compare `pulsar-admin namespaces bundles acme/ns1` on two brokers.",
        sample=["acme/ns1"],
    )  # fmt: skip
    lake.add(
        LAB, at, {"cluster_policies": [policies([A, B, C], at)], "validation_results": [*CHECKS, hole]},
        status="skipped", reason="acme/ns1 has a hole from 0x40000000 to 0x60000000",
    )  # fmt: skip


def fill_spread(lake: SmallLake) -> None:
    """Three cycles: in the last one broker 3 is gone and anti-affinity says where one of its bundles goes."""
    groups = {f"acme/spread{n}": "spread" for n in (1, 2, 3)}
    domains = {"east": [A, B], "west": [C]}
    for n in range(3):
        at, lost = SPREAD_FIRST + timedelta(seconds=18 * n), n == 2
        whole = "0x00000000_0xffffffff"
        bundles = [bundle_load(f"acme/spread{i}/{whole}", (A, B, C)[i - 1], 0.05 * MIB * i) for i in (1, 2)]
        bundles.append(bundle_load(f"acme/spread3/{whole}", None if lost else C, 0.11 * MIB))
        bundles.append(bundle_load(f"acme/plain/{whole}", None if lost else C, 0.02 * MIB))
        usage = {A: 0.31, B: 0.12, C: None if lost else 0.18}
        tables = {
            "broker_load": [broker_load(name, value, is_leader=name == A) for name, value in usage.items()],
            "bundle_load": bundles,
            "cluster_policies": [policies([A, B] if lost else [A, B, C], at, failure_domains=domains,
                                          anti_affinity_groups=groups)],
            "settings": settings({"failureDomainsEnabled": True}),
            "validation_results": CHECKS,
            "unload_decisions": [decision(
                SPREAD, "cluster", "skipped", "not_due",
                "Shedding is due once a minute; the last one was 18 s ago.", measured=18_000.0, threshold=60_000.0,
                unit="ms", setting="loadBalancerSheddingIntervalMinutes")],
            "placement_decisions": _spread_placements(whole) if lost else [],
        }  # fmt: skip
        lake.add(
            SPREAD, at, tables, plan_id=f"{n:02x}" + "ab40" * 15, splits=0, unloads=0, placements=1 * lost,
            refusals=1 * lost, rejected_records=0, before_max_over_mean=1.44,
            after_max_over_mean=1.21 if lost else 1.44, moved_traffic_share=0.3 if lost else 0.0,
            manager="modular", shedder="ThresholdShedder",
            placement="LeastLongTermMessageRate",
        )  # fmt: skip


def _spread_placements(whole: str) -> list[Row]:
    changed = placement(
        f"acme/spread3/{whole}", A, "no_owner",
        f"acme/spread3/{whole} has no owner and goes to {A}: group `spread` has one namespace on each broker of domain "
        f"east, and {A} is the first by name.",
        [candidate(A, 180.2), candidate(B, 61.0, removed_by="anti_affinity")],
        without_anti_affinity=B, changed_by_anti_affinity=True,
    )  # fmt: skip
    refused = placement(
        f"acme/plain/{whole}", None, "no_owner",
        f"acme/plain/{whole} has no owner, and no broker is left: both are over 50,000 topics.",
        [candidate(A, removed_by="max_topics"), candidate(B, removed_by="max_topics")],
    )  # fmt: skip
    return [changed, refused | {"setting": "loadBalancerBrokerMaxTopics", "rule": "no_candidate"}]


def fill_odd(lake: SmallLake, cluster: str = ODD) -> None:
    """One cycle of a cluster whose names try to break the page, one of them 2,000 characters long."""
    at = moment("2026-11-21T10:00:00")
    broker, bundle = f"{ODD}:8080", f"acme/{LONG}/0x00000000_0xffffffff"
    tables = {
        "broker_load": [broker_load(broker, 0.7), broker_load(f"{LONG}:8080", 0.2)],
        "bundle_load": [bundle_load(bundle, broker, MIB), bundle_load(f"{ODD}/0x00000000_0xffffffff", broker, MIB)],
        "cluster_policies": [policies([broker], at)],
        "settings": settings({}),
        "validation_results": [check(ODD, False, "warn", f"{ODD} {LONG}", sample=[LONG])],
        "rejected": [{**_rejected(), "reason": ODD, "record": LONG}],
        "unload_decisions": [
            decision(bundle, "bundle", "unload", ODD, f"{bundle} leaves {broker}.", broker=broker, measured=1.0)
        ],
        "placement_decisions": [
            placement(bundle, f"{LONG}:8080", "shed", f"{bundle} goes to {LONG}.", [candidate(broker, None, ODD)])
        ],
    }
    lake.add(cluster, at, tables, plan_id="0d" * 32, splits=0, unloads=1, placements=1, refusals=0)


def add_first_plan_sent(lake: SmallLake, at: datetime) -> None:
    """Two attempts at a cycle of LAB, of which the first one's plan was sent."""
    for number, plan in enumerate(("first", "second"), start=1):
        lake.add(LAB, at, {}, attempt=number, plan_id=plan, mode="auto")
    stamp = {"cluster": LAB, "cycle_at": at, "cycle_date": at.date(), "write_id": "w"}
    sent = {"command_id": "c1", "plan_id": "first", "kind": "unload", "bundle": HOT, "expires_at": at}
    lake.append("commands", [{**stamp, **sent}])
    lake.append("outcomes", [{**stamp, "command_id": "c1", "outcome": "done", "seen_at": at}])


def plausible_lake(root: Path) -> Path:
    """Both clusters: a copy of a lake that is written once in a run, since its hundred commits take a second."""

    def fill(folder: Path) -> None:
        lake = SmallLake(folder)
        fill_lab(lake)
        fill_spread(lake)

    return Path(shutil.copytree(made_once("plausible-lake", fill), root, dirs_exist_ok=True))
