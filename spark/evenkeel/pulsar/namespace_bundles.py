"""Boundaries, groups and policies of namespaces: rows of `namespace_bundles`."""

from __future__ import annotations

import json
from typing import Any

from evenkeel.pulsar.answers import Kind, Rejection, read_text
from evenkeel.pulsar.snapshot import Row, View

TABLE = "namespace_bundles"
NO_BOUNDARIES = "no_boundaries"
UNKNOWN_GROUP = "unknown_group"


def namespaces_of(view: View) -> list[Row]:
    """One row per namespace whose boundaries are known, by name; holes and overlaps are kept as they came.

    The boundaries are those of `/bundles`, else those in the namespace's policies. A namespace that is listed or was
    asked about without either is set aside.
    """
    rows = [_row(view, name) for name in _names(view)]
    return [row for row in rows if row is not None]


def _names(view: View) -> list[str]:
    names = {name for kind in (Kind.BUNDLES, Kind.POLICIES) for name, _ in view.own.each(kind)}
    for _, answer in view.own.each(Kind.NAMESPACES):
        reading = view.json(answer, list, TABLE, nothing_at=(404,))
        names |= {name for name in reading.value or () if isinstance(name, str)}
    return sorted(names)


def _row(view: View, name: str) -> Row | None:
    asked, policies_answer = view.own.about(Kind.BUNDLES, name), view.own.about(Kind.POLICIES, name)
    bundles = view.json(asked, dict, TABLE)
    policies = view.json(policies_answer, dict, TABLE)
    found = _boundaries(bundles.value) or _boundaries((policies.value or {}).get("bundles"))
    if found is None:
        reason = bundles.reason or "its answer holds no list of boundaries"
        view.rejections.append(_no_boundaries(name, reason, asked.body if asked is not None else None))
        return None
    boundaries, count = found
    return {
        "namespace": name,
        "boundaries": boundaries,
        "bundles": count,
        "anti_affinity_group": _group(view, name),
        "policies": policies_answer.body if policies.is_read and policies_answer is not None else None,
    }


def _group(view: View, name: str) -> str | None:
    """The group's name as stored (quotes around it belong to it); an empty body or 204 is no group."""
    answer = view.own.about(Kind.GROUP, name)
    if answer is None:
        return None
    reading = view.noted(read_text(answer), answer, TABLE)
    if reading.outcome in ("no_answer", "unreadable") and reading.rule is None:
        reason = f"the anti-affinity group of {name} is not known: {reading.reason}"
        view.rejections.append(Rejection(TABLE, f"{name} antiAffinity", UNKNOWN_GROUP, reason, answer.body))
    return reading.value if reading.is_read else None


def _boundaries(value: Any) -> tuple[list[str], int] | None:
    """Boundaries as answered, and the number of bundles, counted where it is not answered."""
    boundaries = value.get("boundaries") if isinstance(value, dict) else None
    if not isinstance(boundaries, list) or not boundaries or not all(isinstance(each, str) for each in boundaries):
        return None
    count = value.get("numBundles")
    known = isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**31
    return boundaries, count if known else len(boundaries) - 1


def _no_boundaries(name: str, reason: str, record: str | None) -> Rejection:
    return Rejection(
        TABLE,
        f"namespace {name}",
        NO_BOUNDARIES,
        f"the bundle boundaries of {name} are not known ({reason}); its topics belong to no bundle in this cycle",
        record[:2_000] if record is not None else json.dumps(name, ensure_ascii=False),
    )
