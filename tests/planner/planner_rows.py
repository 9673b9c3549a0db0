"""Rows of small clusters of every kind, as the planner's round is given them."""

import json
import math
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from tests.cycle.rows import AT, MIB, bundle, cycle, report, rows

BROKERS = [f"b{n}.eu:8080" for n in range(1, 7)]
FLOWS = [0.0, 1.0, MIB, 7 * MIB, 20 * MIB, 20 * MIB + 1, 60 * MIB, 1e9 * MIB, math.nan, None]
USAGES = [0.0, 1e-9, 5.0, 30.0, 45.0, 60.0, 85.0, 97.0, 100.0, 180.0, math.nan, math.inf, None]
ON = {"evenkeelPlanner": "on"}
BUDGETS = {
    "evenkeelMaxUnloadsPerCycle": [20, 0, 1, 3, -1],
    "evenkeelMaxUnloadsFromBroker": [5, 0, 1, 2, -1],
    "evenkeelMaxUnloadsToBroker": [5, 0, 1, 2, -1],
    "evenkeelMaxMovedTrafficPercent": [9.0, 0.0, 1.0, 30.0, 100.0],
    "evenkeelMovedTrafficOrder": ["fitting_first", "plan_order"],
    "evenkeelMaxBundleTrafficPercent": [25.0, 0.0, 10.0, 100.0],
    "evenkeelFreeMovesPerBundlePerDay": [3, 0, 1, -1],
    "evenkeelBounceWindowMinutes": [30, 0, 120],
    "evenkeelPlannerReturnWindowMinutes": [60, 0],
    "evenkeelGuardsEnabled": [True, True, True, False],
    "evenkeelDrainingBrokers": [[], [], [BROKERS[0]]],
    "evenkeelFrozenBrokers": [[], [], [BROKERS[1]]],
    "loadBalancerBrokerMaxTopics": [50_000, 3],
}
OUTCOMES = ["done", "done", None, "refused"]
Tables = dict[str, list[dict[str, Any]]]


def used(number: int, owner: str | None, flow: float | None, **more: Any) -> dict[str, Any]:
    """A bundle with this traffic, messages of a KiB; None: neither way is known. A namespace has 15 bundles."""
    figures: dict[str, Any] = {}
    for term in ("used", "short", "long"):
        known = flow if flow is not None or term == "used" else 0.0
        figures |= {f"{term}_msg_throughput_in": known, f"{term}_msg_rate_in": None if known is None else known / 1024}
    if flow is None:
        figures |= {"used_msg_throughput_out": None, "used_msg_rate_out": None}
    made = bundle(number % 15, owner, 0.0, **figures, **more)
    return made | {"bundle": made["bundle"].replace("ns0", f"ns{number // 15}")}


def act(number: int, one: str, source: str, destination: str, minutes: float, outcome: str | None) -> dict[str, Any]:
    """An unload so many minutes before the cycle."""
    moment = (datetime.fromisoformat(AT) - timedelta(minutes=minutes)).isoformat()
    return {
        "command_id": f"c{number:04}", "kind": "unload", "bundle": one, "from_broker": source,
        "destination": destination, "cycle_at": moment, "outcome": outcome, "seen_at": moment if outcome else None,
        "cuts": None, "unload_children": None,
    }  # fmt: skip


def given(
    reports: list[dict[str, Any]],
    bundles: list[dict[str, Any]],
    acts: list[dict[str, Any]] | None = None,
    policies: list[dict[str, Any]] | None = None,
    manager: str = "modular",
    **settings: Any,
) -> Tables:
    """The tables of a cycle with these settings, on top of a planner that is on."""
    moment = cycle(**{**ON, **settings})
    moment |= {"manager": manager, "steering": json.dumps({"acts": acts or [], "pauses": []})}
    found = rows(reports, bundles, cycle=[moment], cluster_policies=policies or [])
    for one in found["broker_load"]:
        one |= {"weighted_usage": None, "msg_throughput_in": None, "msg_throughput_out": None}
    return found


@st.composite
def any_rows(draw: st.DrawFn, *, guarded: bool = False, lopsided: bool = False) -> Tables:
    """A cluster of any kind, also one that makes no sense. `guarded`: guards are on. `lopsided`: the first broker has
    most of the traffic, and usage goes with traffic."""
    names = BROKERS[: draw(st.integers(3 if lopsided else 1, 6))]
    is_modular = draw(st.booleans())
    kind = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
    if not is_modular:
        kind = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
    reports = [
        report(name, draw(st.sampled_from(USAGES)), is_listed=True, load_manager_class=kind,
               topics=draw(st.sampled_from([2, 3, 4])), bandwidth_out_limit=100.0,
               bandwidth_out_usage=draw(st.sampled_from([None, 0.0, 40.0])))
        for name in names
    ]  # fmt: skip
    owners = [*names[:1] * 2 * len(names), *names] if lopsided else [*names, *names, None, "gone.eu:8080"]
    flows = [7 * MIB, 1.0, 6 * MIB, 6 * MIB + 1, 3 * MIB] if lopsided else FLOWS
    samples = [*[10] * 12, 1] if lopsided else [10, 10, 10, 1]
    bundles = [
        used(n, draw(st.sampled_from(owners)), draw(st.sampled_from(flows)), topics=draw(st.sampled_from([1, 5])),
             short_samples=draw(st.sampled_from(samples)))
        for n in range(draw(st.integers(10 if lopsided else 0, 15)))
    ]  # fmt: skip
    if lopsided:
        carried = {
            name: sum(one["used_msg_throughput_in"] for one in bundles if one["owner"] == name) for name in names
        }
        usages = [90.0 * carried[name] / max(carried.values()) for name in names]
        reports = [one | {"cpu_usage": usage} for one, usage in zip(reports, usages, strict=True)]
    for one in bundles:
        one["last_owner"] = one["owner"] or draw(st.sampled_from([names[0], None]))
    acts = [
        act(n, draw(st.sampled_from(bundles))["bundle"], draw(st.sampled_from(names)), draw(st.sampled_from(names)),
            draw(st.sampled_from([0.5, 1.5, 20.0, 45.0, 300.0])), draw(st.sampled_from(OUTCOMES)))
        for n in range(draw(st.integers(0, 2 if lopsided else 6)) if bundles else 0)
    ]  # fmt: skip
    policies: list[dict[str, Any]] = []
    if draw(st.booleans()):
        failover = {"policy_type": "min_available", "parameters": {"min_limit": "1"}}
        reserved: dict[str, Any] = {"namespaces": ["acme/ns0"], "primary": ["b[123].*"], "secondary": []}
        reserved["auto_failover_policy"] = failover
        groups = {"acme/ns0": "g"} if draw(st.booleans()) else {}
        policies = [{"isolation_policies": json.dumps({"p": reserved}), "anti_affinity_groups": groups,
                     "failure_domains": {}, "brokers": names, "manager": "modular"}]  # fmt: skip
    is_set = st.sampled_from([False, False, False, True] if lopsided else [False, True])
    settings = {key: draw(st.sampled_from(values)) for key, values in BUDGETS.items() if draw(is_set)}
    if lopsided:
        settings.setdefault("evenkeelMaxMovedTrafficPercent", 30.0)
    if guarded:
        settings.pop("evenkeelGuardsEnabled", None)
    if not is_modular:
        settings["loadManagerClassName"] = "ExtensibleLoadManagerImpl"
    if settings.get("evenkeelDrainingBrokers") or settings.get("evenkeelGuardsEnabled") is False:
        settings.pop("evenkeelFrozenBrokers", None)
    return given(reports, bundles, acts, policies, "modular" if is_modular else "extensible", **settings)
