"""Clusters of every kind that a number stands for, and all that the planner decides on each while they obey it.

    python -m tests.planner.fixed_courses

A change of a figure, a move, a finding or a sentence is a change of behaviour: the test of these courses shows the rows
that come out otherwise. The command writes `fixed_courses.jsonl.gz` again.
"""

import gzip
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.cycle.memo import SharedRows
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.model.bundles import HIGHEST_HASH, bundle_name, initial_boundaries, ranges_of
from evenkeel.model.past_commands import HARMED
from evenkeel.planner.round import bundles_wanted_split
from evenkeel.replay.fold import goes_to
from evenkeel.replay.modelled_cluster import Cluster, Topic, UsageFit
from evenkeel.settings import resolve
from tests.cycle.fixed_cycles import written
from tests.planner.planner_rows import act

EXPECTED = Path(__file__).with_suffix(".jsonl.gz")
COUNT = 40
BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
MIB = 1_048_576.0
HOLD = 240
"""Default of evenkeelHarmHoldMinutes."""
SETTINGS: dict[str, list[Any]] = {
    "evenkeelPlannerActAbovePercent": [10.0, 2.0],
    "evenkeelPlannerActAtOnceAbovePercent": [25.0, 5.0],
    "evenkeelPlannerStopAtPercent": [6.0, 0.0],
    "evenkeelPlannerLeastGainPoints": [1.0, 0.1],
    "evenkeelPlannerReturnWindowMinutes": [60, 0],
    "evenkeelPlannerSessionsWeight": [1.0, 20.0],
    "evenkeelPlannerTopicsWeight": [1.0, 20.0],
    "evenkeelPlannerTrafficWeight": [1.0, 0.0],
    "evenkeelMaxUnloadsPerCycle": [20, 3],
    "evenkeelMaxUnloadsFromBroker": [5, 1],
    "evenkeelMaxUnloadsToBroker": [5, 2],
    "evenkeelMaxMovedTrafficPercent": [9.0, 40.0, 100.0],
    "evenkeelMovedTrafficOrder": ["fitting_first", "plan_order"],
    "evenkeelMaxBundleTrafficPercent": [25.0, 10.0],
    "evenkeelFreeMovesPerBundlePerDay": [3, 1],
    "evenkeelDrainingBrokers": [["b1:8080"]],
    "evenkeelFrozenNamespaces": [["acme/ns0"]],
    "evenkeelMaxSplitsPerCycle": [2, 1],
    "loadBalancerBrokerMaxTopics": [50_000, 40, 12],
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": [100, 25],
    "loadBalancerNamespaceBundleMaxTopics": [1000, 30],
    "loadBalancerNamespaceMaximumBundles": [128, 9],
    "evenkeelPlanner": ["on", "shadow"],
    "loadBalancerSheddingExcludedNamespaces": [["acme/ns1"]],
}
"""Chosen from in two of five cases each; the lists of names in one of ten."""
MANAGERS: list[dict[str, Any]] = [
    {},
    {
        "evenkeelManager": "extensible",
        "loadManagerClassName": "ExtensibleLoadManagerImpl",
        "loadBalancerLoadSheddingStrategy": "TransferShedder",
        "loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight",
    },
]
OF_PLANNER = {"split_decisions", "unload_decisions", "placement_decisions"}


def decided(number: int) -> list[dict[str, list[Any]]]:
    """Return what the planner decided in each cycle, a minute apart: rows by table, as they are on file."""
    chance = Random(number)
    manager = chance.randrange(2)
    brokers = [f"b{n}:8080" for n in range(1, chance.choice([2, 3, 3, 4, 6]) + 1)]
    chosen = {key: chance.choice(values) for key, values in SETTINGS.items()
              if chance.random() < (0.1 if isinstance(values[0], list) else 0.4)}  # fmt: skip
    effective = resolve(observed=None, overrides={"evenkeelPlanner": "on", **MANAGERS[manager], **chosen})
    cluster, flows = _cluster(chance, brokers, ["modular", "extensible"][manager])
    cluster.acts += _harm(chance, brokers)
    policies, wobble = _policies(chance, brokers), chance.choice([0.0, 0.02, 0.02, 0.5])
    cycles = chance.choice([6, 6, 9, 20])
    down, second = chance.choice([set(), set(), {cycles - 3}]), _second_resource(chance, cycles)
    state: list[Any] = []
    found = []
    for n in range(cycles):
        at = BEGIN + n * timedelta(minutes=1)
        now = [flow * (1.0 + chance.uniform(-wobble, wobble)) for flow in flows]
        cluster.observe(at, now, brokers[-1:] if n in down else (), effective.settings)
        observed = {**cluster.rows(effective.settings), "cluster_policies": policies}
        observed |= {"topic_hashes": cluster.topic_hashes(bundles_wanted_split(state))}
        second(observed["broker_reports"], n)
        cycle = reading.cycle_row(
            "lab", at, effective.to_json(), effective.digest,
            manager=cluster.manager, mode="auto", acts=cluster.acts,
        )  # fmt: skip
        made = whole.decide(SharedRows(observed), cycle, state)
        state = list(made.rows[whole.STATE])
        found.append(written(_of_planner(made.rows)))
        commands = [{**row, "command_id": f"{n}-{row['step']}"} for row in made.rows["commands"]]
        cluster.carry_out(zip(commands, [goes_to(one) for one in made.plan.asked], strict=True), ())
    return found


def _cluster(chance: Random, brokers: list[str], manager: str) -> tuple[Cluster, list[float]]:
    """Return a cluster whose brokers answer to load as each of them likes, and the byte/s of its topics."""
    fits = {
        name: UsageFit(chance.choice([0.0, 0.02, 0.2]), chance.choice([1.0, 1.0, 1.0, 2.0, 0.3, 0.0]) / (400.0 * MIB))
        for name in brokers
    }
    topics, flows, owner = list[Topic](), list[float](), dict[str, str | None]()
    boundaries = {}
    lopsided = [*brokers[:1] * chance.choice([0, 2, len(brokers)]), *brokers]
    for number in range(chance.choice([1, 2, 3])):
        namespace = chance.choice(["acme/ns2", "pulsar/system"]) if number == 2 else f"acme/ns{number}"
        boundaries[namespace] = initial_boundaries(chance.choice([4, 8]))
        for piece in ranges_of(boundaries[namespace]):
            owner[bundle_name(namespace, piece)] = chance.choice([*lopsided * 4, None])
            count = chance.choice([0, 1, 3, 3, 8, 40])
            width = (min(piece.upper, HIGHEST_HASH - 1) - piece.lower) // 41
            topics += [Topic(namespace, piece.lower + n * width, chance.choice([512.0, 4096.0])) for n in range(count)]
            flow = chance.choice([1.0, 5.0, 5.0, 20.0, 60.0])
            flows += [MIB * flow * chance.choice([1.0, 1.0, 0.1]) / max(count, 1) for _ in range(count)]
    return Cluster(name="lab", fits=fits, topics=topics, boundaries=boundaries, owner=owner, manager=manager), flows


def _harm(chance: Random, brokers: list[str]) -> list[dict[str, Any]]:
    """Return an unload of the first namespace that did harm, for so long ago that its hold ends in the third cycle."""
    if chance.random() < 0.7:
        return []
    seen_at = (BEGIN + timedelta(minutes=2 - HOLD)).isoformat()
    made = act(1, bundle_name("acme/ns0", ranges_of(initial_boundaries(4))[0]), brokers[0], brokers[-1], 0.0, HARMED)
    return [made | {"seen_at": seen_at, "cycle_at": seen_at}]


def _policies(chance: Random, brokers: list[str]) -> list[dict[str, Any]]:
    if chance.random() < 0.4:
        return []
    failover = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}}
    policy = {"namespaces": ["acme/ns0"], "primary": [chance.choice(["b[12].*", "b1.*", "b9.*"])], "secondary": []}
    isolation = {"p": policy | {"auto_failover_policy": failover}} if chance.random() < 0.5 else {}
    groups = chance.choice([{}, {"acme/ns0": "g", "acme/ns1": "g"}, {f"acme/ns{n}": "g" for n in range(3)}])
    domains = chance.choice([{}, {"d1": brokers[::2], "d2": brokers[1::2]}])
    return [{"isolation_policies": json.dumps(isolation), "anti_affinity_groups": groups, "failure_domains": domains,
             "brokers": brokers, "manager": "modular"}]  # fmt: skip


def _second_resource(chance: Random, cycles: int) -> Callable[[list[Any], int], None]:
    """Return what adds a resource beside CPU to reports, or takes a figure or a whole report from one of them."""
    kind, factor = (
        chance.choice(["none", "none", "bandwidth_out", "direct_memory", "silent"]),
        chance.choice([1.0, 3.0]),
    )

    def added(reports: list[Any], n: int) -> None:
        for report in reports:
            if kind == "bandwidth_out":
                report |= {
                    "bandwidth_out_limit": 1000.0 * MIB,
                    "bandwidth_out_usage": factor * report["msg_throughput_out"],
                }
            elif kind == "direct_memory":
                used = 10.0 + factor * report["msg_throughput_in"] / (10.0 * MIB)
                report |= {"direct_memory_limit": 100.0, "direct_memory_usage": used}
        if kind == "silent" and n > cycles // 2:
            reports[0] |= {"cpu_usage": None}

    return added


def _of_planner(rows: Any) -> dict[str, Iterable[Any]]:
    return {table: rows[table] for table in PLANNER_TABLES} | {
        table: [row for row in rows[table] if row["strategy"] == "Planner"] for table in OF_PLANNER
    }


def on_file() -> list[Any]:
    """Return the decisions by number of the cluster."""
    return [json.loads(line) for line in gzip.decompress(EXPECTED.read_bytes()).splitlines()]


if __name__ == "__main__":
    lines = "".join(json.dumps(decided(number)) + "\n" for number in range(COUNT))
    EXPECTED.write_bytes(gzip.compress(lines.encode(), mtime=0))
