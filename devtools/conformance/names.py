"""Operations about topics, hashes and bundles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenkeel.errors import BadName, BadRange
from evenkeel.model.bundles import (
    FULL_RANGE,
    HIGHEST_HASH,
    apply_split,
    boundary_text,
    bundle_of,
    decode_number,
    initial_boundaries,
    parse_boundaries,
    parse_range,
    parse_topic,
)


def hash_of_topic(case: dict[str, Any]) -> dict[str, Any]:
    """`hash`"""
    topic = parse_topic(case["topic"])
    return {
        "name": topic.name,
        "namespace": topic.namespace,
        "domain": topic.domain,
        "partition": topic.partition,
        "hash": topic.hash,
    }


def bundles_of_topics(case: dict[str, Any]) -> dict[str, Any]:
    """`bundle_of`. Pulsar raises for the hash 0xffffffff (null in the answer), where Evenkeel takes the last bundle."""
    boundaries = parse_boundaries(case["boundaries"])
    ranges: list[str | None] = []
    for text in case["topics"]:
        topic = parse_topic(text)
        if topic.namespace != case["namespace"]:
            raise BadName(f"topic {text!r} is not in namespace {case['namespace']!r}")
        bundle = bundle_of(boundaries, topic.hash)
        ranges.append(None if topic.hash == HIGHEST_HASH else str(bundle))
    return {"ranges": ranges}


def given_boundaries(texts: Sequence[str]) -> tuple[int, ...]:
    """The boundaries of a namespace created with these: duplicates merged, sorted by their text as Pulsar does."""
    numbers = [decode_number(text) for text in texts]
    spelled = sorted({(boundary_text(n % (1 << 64)), n) for n in numbers})
    boundaries = tuple(n for _, n in spelled)
    if not boundaries or boundaries[0] != 0 or boundaries[-1] != HIGHEST_HASH:
        raise BadRange(f"boundaries {list(texts)} do not run from 0x00000000 to 0xffffffff")
    return boundaries


def boundaries(case: dict[str, Any]) -> dict[str, Any]:
    """`boundaries`"""
    if "given" in case:
        return {"boundaries": _texts(given_boundaries(case["given"]))}
    count = case["n"]
    answer = {"boundaries": _texts(initial_boundaries(count))}
    if 1 < count <= 4096:
        split = apply_split((0, HIGHEST_HASH), FULL_RANGE, parts=count)
        answer["split_of_full_range"] = _texts(split.boundaries if split else ())
    return answer


def bundle_split_apply(case: dict[str, Any]) -> dict[str, Any]:
    """`bundle_split_apply`"""
    cuts = case.get("cuts")
    parts = case.get("n", 2 if cuts is None else len(cuts) + 1)
    split = apply_split(parse_boundaries(case["boundaries"]), parse_range(case["bundle"]), cuts or (), parts=parts)
    if split is None:
        return {"boundaries": None}
    return {"boundaries": _texts(split.boundaries), "children": [str(child) for child in split.children]}


def _texts(numbers: tuple[int, ...]) -> list[str]:
    return [boundary_text(n) for n in numbers]


OPERATIONS = {
    "hash": hash_of_topic,
    "bundle_of": bundles_of_topics,
    "boundaries": boundaries,
    "bundle_split_apply": bundle_split_apply,
}
