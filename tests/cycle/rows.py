"""Rows of small clusters, as the tables of a lake hold them, for rounds of either load manager."""

from typing import Any

from evenkeel.model.load import RATES
from evenkeel.settings import resolve

AT = "2026-11-21T08:27:04.000000+00:00"
MIB = 1048576.0
BOUNDARIES = [f"0x{n << 28:08x}" for n in range(16)] + ["0xffffffff"]
CLASS = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"


def cycle(at: str = AT, **overrides: Any) -> dict[str, Any]:
    effective = resolve(observed=None, overrides=overrides)
    return {"cluster": "lab", "cycle_at": at, "settings": effective.to_json(), "settings_digest": effective.digest,
            "manager": "modular", "mode": "dry_run"}  # fmt: skip


def report(broker: str, cpu: float | None, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(("memory", "direct_memory", "bandwidth_in", "bandwidth_out"))
    row = {f"{name}_{end}": None for name in row for end in ("usage", "limit")}
    row |= dict.fromkeys(RATES) | {"bundles": None, "topics": None, "pulsar_version": "4.2.4"}
    row |= {"broker": broker, "state": "reported", "cpu_usage": cpu, "cpu_limit": 100.0}
    row |= {"load_manager_class": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"}
    row |= {"persistent_topics_enabled": True, "non_persistent_topics_enabled": True, "report_at": AT}
    return row | more


def bundle(number: int, owner: str | None, throughput: float = 0.0, **more: Any) -> dict[str, Any]:
    name = f"acme/ns0/0x{number << 28:08x}_0x{(number + 1) << 28:08x}"
    row: dict[str, Any] = {"bundle": name, "owner": owner, "ownership": "owned" if owner else "unowned"}
    row |= {"last_owner": owner, "has_non_persistent": False, "topics": 5, "consumers": 1, "producers": 1}
    for prefix in ("used_", "short_", "long_"):
        row |= {prefix + name: 0.0 for name in RATES}
        row[prefix + "msg_throughput_in"] = throughput
    row |= {"short_samples": 10, "long_samples": 10, "samples_since_quota": None}
    return row | more


def broker_load(*reports: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"broker": row["broker"], "state": row["state"]} for row in reports]


def rows(reports: list[dict[str, Any]], bundles: list[dict[str, Any]], **more: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {
        "cycle": [cycle()], "broker_reports": reports, "broker_load": broker_load(*reports), "bundle_load": bundles,
        "cluster_policies": [], "split_decisions": [], "unload_decisions": [], "state": [],
        "namespace_bundles": [{"namespace": "acme/ns0", "boundaries": BOUNDARIES}],
        "topic_hashes": [],
    }  # fmt: skip
    return found | more


def broker(name: str, cpu: float | None, **more: Any) -> dict[str, Any]:
    return report(name, cpu, load_manager_class=CLASS, report_at=None, is_listed=True, **more)


def as_read(state: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "at": row["at"].isoformat() if row["at"] else None} for row in state]


HOT = [report("b1:8080", 80.0), report("b2:8080", 10.0), report("b3:8080", 10.0)]
BUNDLES = [bundle(n, "b1:8080", 40 * MIB) for n in range(4)] + [bundle(4, "b2:8080", MIB), bundle(5, "b2:8080", MIB)]
