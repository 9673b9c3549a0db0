"""Operations about splitting."""

from __future__ import annotations

from typing import Any

from evenkeel.conformance.reading import history_of as read_history
from evenkeel.conformance.reading import report_of, settings_of
from evenkeel.decisions.bundles import parse_range, parse_topic
from evenkeel.decisions.splitting.algorithms import algorithm_named, name_in_force
from evenkeel.decisions.splitting.when import find_bundles_to_split


def split_decide(case: dict[str, Any]) -> dict[str, Any]:
    """`split_decide`"""
    plan = find_bundles_to_split(
        brokers={name: report_of(name, body) for name, body in case["brokers"].items()},
        histories={name: read_history(body) for name, body in (case.get("bundles") or {}).items()},
        bundle_counts=case.get("bundleCounts") or {},
        settings=settings_of(case.get("config")),
    )
    return {"split": dict(plan.splits)}


def split_algo(case: dict[str, Any]) -> dict[str, Any]:
    """`split_algo`; no topics known counts as no topics, and no cut is null as in Pulsar."""
    settings = settings_of(case.get("config"))
    asked = case["algorithm"]
    algorithm = algorithm_named(name_in_force(asked, settings) if case.get("viaService") else asked)
    bundle = parse_range(case["bundle"])
    hashes = sorted(parse_topic(topic).hash for topic in case.get("topics") or ())
    cut = algorithm(bundle.lower, bundle.upper, hashes)
    return {"cuts": list(cut.positions) or None}


OPERATIONS = {"split_decide": split_decide, "split_algo": split_algo}
