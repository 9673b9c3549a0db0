"""Clusters of every kind that a number stands for, and all that is decided on each in two cycles, with its words.

    python -m tests.cycle.fixed_cycles

A change of a figure, a rule, an alternative, an act or a sentence is a change of behaviour: the test of these cycles
shows the rows that come out otherwise. The command writes `fixed_cycles.jsonl.gz` again.
"""

import gzip
import json
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from evenkeel import repetition as whole
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from tests.cycle.rows import AT, BOUNDARIES, CLASS, MIB, bundle, cycle, report, rows
from tests.planner.planner_rows import act
from tests.shed.fitted import FITTED

EXPECTED = Path(__file__).with_suffix(".jsonl.gz")
COUNT = 70
PLACEMENTS = ["LeastLongTermMessageRate", "LeastResourceUsageWithWeight", "RoundRobinBrokerSelector", "AvgShedder"]
SETTINGS: dict[str, list[Any]] = {
    "evenkeelMaxUnloadsPerCycle": [20, 2],
    "evenkeelMaxUnloadsFromBroker": [5, 1],
    "evenkeelMaxUnloadsToBroker": [5, 2],
    "evenkeelMaxMovedTrafficPercent": [100.0, 30.0],
    "evenkeelMovedTrafficOrder": ["fitting_first", "plan_order"],
    "evenkeelMaxBundleTrafficPercent": [100.0, 20.0],
    "evenkeelMaxSplitsPerCycle": [2, 1],
    "evenkeelFreeMovesPerBundlePerDay": [3, 1],
    "evenkeelDrainingBrokers": [[], [], ["b2:8080"]],
    "evenkeelDrainingUnloads": [True, True, False],
    "evenkeelFrozenNamespaces": [[], [], ["acme/ns1"]],
    "evenkeelMaxUnclearOwnershipPercent": [10.0, 1.0],
    "evenkeelReportWaitSeconds": [600, 60],
    "evenkeelHarmClientsBackPercent": [50.0, 90.0],
    "evenkeelAssumeUnloadsSucceed": [True, False],
    "evenkeelPulsarVersion": ["4.x", "5.0"],
    "loadBalancerSheddingIntervalMinutes": [1],
    "loadBalancerSheddingGracePeriodMinutes": [30, 2],
    "loadBalancerDistributeBundlesEvenlyEnabled": [True, False],
    "loadBalancerNamespaceMaximumBundles": [128, 16],
    "loadBalancerNamespaceBundleMaxTopics": [1000, 3],
    "loadBalancerNamespaceBundleMaxSessions": [1000, 5],
    "loadBalancerBrokerMaxTopics": [50_000, 9],
    "loadBalancerNamespaceBundleMaxMsgRate": [30_000, 900, 0],
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": [100, 15],
    "loadBalancerCPUResourceWeight": [1.0, 0.5],
    "loadBalancerMemoryResourceWeight": [0.0, 1.0],
    "loadBalancerHistoryResourcePercentage": [0.9, 0.3],
    "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": [10, 3],
    "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": [4.0, 1.5],
    "loadBalancerSheddingExcludedNamespaces": [[], [], ["acme/ns1"]],
    "loadBalancerBandwidthOutResourceWeight": [1.0, 0.0],
    "defaultNamespaceBundleSplitAlgorithm": ["range_equally_divide", "topic_count_equally_divide",
                                             "flow_or_qps_equally_divide"],
    "maxUnloadPercentage": [0.2, 0.7],
    "maxUnloadBundleNumPerShedding": [-1, 1],
    "minUnloadMessageThroughput": [10 * 1024 * 1024, 100],
    "lowerBoundarySheddingEnabled": [False, True],
    "preferLaterVersions": [False, True],
    "failureDomainsEnabled": [False, True],
}  # fmt: skip
OF_EXTENSIBLE: dict[str, list[Any]] = {
    "loadBalancerBrokerLoadTargetStd": [0.25, 0.05],
    "loadBalancerSheddingConditionHitCountThreshold": [0, 0, 1],
    "loadBalancerMaxNumberOfBrokerSheddingPerCycle": [3, 1],
    "loadBalancerTransferEnabled": [True, True, False],
    "loadBalancerDebugModeEnabled": [False, True],
    "loadBalancerSheddingBundlesWithPoliciesEnabled": [False, True],
    "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": [0, 1],
}
LEFT_OUT = {"command_id", "plan_id", "settings_digest", "cluster"}
"""Columns of digests, which also change with the settings there are, and one that is the same in all rows."""


def decided(number: int) -> list[dict[str, list[Any]]]:
    """Return the decisions of two cycles of one cluster, five minutes apart: rows by table, as they are on file."""
    chance = Random(number)
    shedder = chance.choice([*FITTED])
    kinds = SETTINGS | (OF_EXTENSIBLE if shedder == "TransferShedder" else {})
    settings = {key: chance.choice(values) for key, values in kinds.items() if chance.random() < 0.6}
    settings |= {"loadBalancerLoadSheddingStrategy": shedder, **FITTED[shedder]}
    settings |= {"evenkeelMinReportedBrokersPercent": chance.choice([20.0, 20.0, 90.0])}
    if shedder == "TransferShedder":
        settings["loadManagerClassName"] = "ExtensibleLoadManagerImpl"
    elif shedder != "AvgShedder":
        settings["loadBalancerLoadPlacementStrategy"] = chance.choice(PLACEMENTS[:3])
    brokers = [f"b{n}:8080" for n in range(1, chance.choice([1, 2, 3, 3, 4, 5]) + 1)]
    owners = [chance.choice([*brokers[:1] * len(brokers), *brokers, None]) for _ in range(12)]
    acts = [_act(chance, n, brokers) for n in range(chance.choice([0, 2, 4]))]
    policies = [_policies(chance, brokers)] if chance.random() < 0.5 else []
    state: list[dict[str, Any]] = []
    found = []
    for minutes in (0, 5):
        at = (datetime.fromisoformat(AT) + timedelta(minutes=minutes)).isoformat(timespec="microseconds")
        moment = cycle(at, **settings) | {"steering": json.dumps({"acts": acts, "pauses": []})}
        moment |= {"manager": "extensible" if shedder == "TransferShedder" else "modular"}
        moment |= {"wishes": json.dumps([_wish(chance)] if chance.random() < 0.3 else [])}
        moment |= {"predecessor_cycle_at": AT if minutes else None}
        observed = _observed(chance, brokers, owners, at, shedder == "TransferShedder")
        made = whole.decide({**observed, "cluster_policies": policies}, moment, state)
        state = list(made.rows[whole.STATE])
        rows_made = {table: own for table, own in made.rows.items() if table not in PLANNER_TABLES}
        found.append(written({**rows_made, "plan": [made.plan.figures], "outcomes": made.plan.harm}))
    return found


def _observed(chance: Random, brokers: list[str], owners: list[str | None], at: str, extensible: bool) -> Any:
    pick = chance.choice
    bundles = []
    for n, owner in enumerate(owners):
        flow = pick([0.0, 0.25, 1.0, 3.0, 3.0, 8.0, 20.0])
        figures: dict[str, Any] = {}
        for term in ("used", "short", "long"):
            for way in ("in", "out"):
                figures[f"{term}_msg_throughput_{way}"] = flow * pick([0.5, 1.0, 1.0, 2.0]) * MIB
                figures[f"{term}_msg_rate_{way}"] = flow * pick([1.0, 4.0, 16.0, 16.0, 900.0])
        if chance.random() < 0.05:
            figures[f"used_msg_{pick(['rate', 'throughput'])}_{pick(['in', 'out'])}"] = None
        counts = {"topics": pick([0, 1, 2, 4, 7, None]), "consumers": pick([0, 1, 3, None]),
                  "producers": pick([0, 2, 5, None]), "short_samples": pick([0, 1, 10, 10]),
                  "long_samples": pick([1, 10]), "has_non_persistent": chance.random() < 0.1}  # fmt: skip
        row = bundle(n, owner, **figures, **counts) | {"last_owner": owner or pick([*brokers, None])}
        ownership = "owned_twice" if owner and chance.random() < 0.03 else row["ownership"]
        name = row["bundle"].replace("ns0", f"ns{n % 2}")
        bundles.append(row | {"bundle": name, "namespace": name.rpartition("/")[0], "ownership": ownership})
    reports = []
    for n, name in enumerate(brokers):
        own = [row for row in bundles if row["owner"] == name]
        sums = {f"msg_{kind}_{way}": sum(row[f"used_msg_{kind}_{way}"] or 0.0 for row in own)
                for kind in ("rate", "throughput") for way in ("in", "out")}  # fmt: skip
        usage = {f"{one}_usage": pick([0.0, 5.0, 20.0, 45.0]) for one in ("memory", "direct_memory", "bandwidth_in")}
        limits = {f"{one}_limit": 100.0 for one in ("memory", "direct_memory", "bandwidth_in")}
        made = report(
            name, 8.0 * len(own) + pick([1.0, 7.0, 25.0]) if chance.random() < 0.98 else None,
            bandwidth_out_limit=200.0, bandwidth_out_usage=pick([10.0, 60.0, 150.0]), **usage, **limits, **sums,
            bundles=[row["bundle"] for row in own], topics=sum(row["topics"] or 0 for row in own), is_listed=True,
            pulsar_version=pick(["4.2.4", "4.2.4", "4.2.3"]),
            report_at=(datetime.fromisoformat(at) - timedelta(seconds=pick([1, *[40] * 9, 1500]))).isoformat(),
        )  # fmt: skip
        if n and chance.random() < 0.03:
            made["state"] = "listed"
        reports.append(made | ({"load_manager_class": CLASS} if extensible else {}))
    found = rows(reports, bundles)
    for load, one in zip(found["broker_load"], reports, strict=True):
        figures = {"weighted_usage": (one["cpu_usage"] or 0.0) / 100.0}
        load |= figures | {f"msg_throughput_{way}": one[f"msg_throughput_{way}"] for way in ("in", "out")}
    spread = [n << 24 for n in range(0, 256, 3)]
    found["namespace_bundles"] = [{"namespace": f"acme/ns{n}", "boundaries": BOUNDARIES} for n in (0, 1)]
    found["topic_hashes"] = [
        {
            "cluster": "lab", "bundle": row["bundle"], "hashes": own, "loaded_hashes": own,
            "loaded_rates": [1.0 + n for n in range(len(own))],
            "loaded_throughputs": [MIB * pick([0.5, 1.0, 2.0]) for _ in own],
        }
        for n, row in enumerate(bundles)
        for own in [[one for one in spread if n << 28 <= one < (n + 1) << 28]]
    ]  # fmt: skip
    return found


def _act(chance: Random, number: int, brokers: list[str]) -> dict[str, Any]:
    one = chance.randrange(12)
    name = bundle(one, None)["bundle"].replace("ns0", f"ns{one % 2}")
    made = act(number, name, chance.choice(brokers), chance.choice(brokers), chance.choice([0.5, 4.0, 25.0, 300.0]),
               chance.choice(["done", "done", "done", None, "refused"]))  # fmt: skip
    before = {"at": made["cycle_at"], "producers": chance.choice([2, 9]), "consumers": 5, "msg_backlog": 0}
    return made | {"clients": [before] if chance.random() < 0.5 else None}


def _wish(chance: Random) -> dict[str, Any]:
    one = chance.randrange(12)
    namespace, _, found = bundle(one, None)["bundle"].replace("ns0", f"ns{one % 2}").rpartition("/")
    made = {"wish_id": "w1", "kind": chance.choice(["unload", "split"]), "namespace": namespace, "bundle": found}
    return made | {"algorithm": "", "positions": [], "unload_children": True, "destination": None}


def _policies(chance: Random, brokers: list[str]) -> dict[str, Any]:
    policy = {"namespaces": ["acme/ns0"], "primary": ["b[12].*"], "secondary": ["b3.*"]}
    failover = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}}
    isolation = {"p": policy | {"auto_failover_policy": failover}} if chance.random() < 0.5 else {}
    groups = {"acme/ns0": "g", "acme/ns1": "g"} if chance.random() < 0.5 else {}
    domains = {"d1": brokers[::2], "d2": brokers[1::2]}
    return {"isolation_policies": json.dumps(isolation), "anti_affinity_groups": groups, "failure_domains": domains,
            "brokers": brokers, "manager": "modular"}  # fmt: skip


def written(tables: dict[str, Any]) -> dict[str, list[Any]]:
    """Rows without what is not known and what is left out; figures to twelve digits."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in sorted(value.items()) if one is not None and name not in LEFT_OUT}
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        return (
            float(f"{value:.12g}") if isinstance(value, float) else str(value) if isinstance(value, datetime) else value
        )

    return {
        table: sorted((plain(row) for row in found), key=json.dumps) for table, found in sorted(tables.items()) if found
    }


def on_file() -> list[Any]:
    """Return the decisions by number of the cluster."""
    return [json.loads(line) for line in gzip.decompress(EXPECTED.read_bytes()).splitlines()]


if __name__ == "__main__":
    lines = "".join(json.dumps(decided(number)) + "\n" for number in range(COUNT))
    EXPECTED.write_bytes(gzip.compress(lines.encode(), mtime=0))
