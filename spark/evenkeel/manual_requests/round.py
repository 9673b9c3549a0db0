"""The wishes that a cycle took, judged by its tables."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from evenkeel.cycle import reading
from evenkeel.cycle.reading import Row, Rows
from evenkeel.cycle.reasons import reason_row
from evenkeel.lake.schemas.acted import SPLIT, UNLOAD, UNLOAD_TOPIC
from evenkeel.manual_requests.request import ClusterView, Granted, SplitWish, bundle_meant, subject_of
from evenkeel.manual_requests.split import grant_split
from evenkeel.manual_requests.unload import bundle_left_to, grant_topic_unload, grant_unload, unloads_meant
from evenkeel.model.consideration import LEFT_TO_REQUEST, Considered
from evenkeel.model.split_algorithms import name_in_force
from evenkeel.model.split_algorithms.split_option import BundleTopics
from evenkeel.settings import Settings

BY_REQUEST = "wish"


def wishes_of(cycle: Row, kind: str) -> list[Row]:
    """Return the wishes of one kind that the cycle took, oldest first."""
    return [wish for wish in json.loads(cycle.get("wishes") or "[]") if wish["kind"] == kind]


def granted_splits(rows: Rows, topics: dict[str, BundleTopics]) -> list[tuple[Row, Granted]]:
    """Return each wish for a split with its verdict; of two for one bundle the older counts."""
    wishes = wishes_of(reading.the_cycle(rows), SPLIT)
    if not wishes:
        return []
    settings, view = reading.settings_of(rows), view_of(rows, topics)
    done: set[str] = set()
    verdicts = []
    for wish in wishes:
        verdict = grant_split(_split(wish), replace(view, splitting=done), settings)
        if verdict.accepted:
            done.add(verdict.verdict.subject)
        verdicts.append((wish, verdict))
    return verdicts


def granted_unloads(rows: Rows) -> list[tuple[Row, Granted]]:
    """Return each wish for an unload of a bundle or topic with its verdict, one per bundle for a whole namespace.

    A bundle that this cycle splits is not unloaded, and neither are its topics.
    """
    wishes = [wish for kind in (UNLOAD, UNLOAD_TOPIC) for wish in wishes_of(reading.the_cycle(rows), kind)]
    if not wishes:
        return []
    split = {row["subject"] for row in rows["split_decisions"] if row["outcome"] == "split"}
    view = replace(view_of(rows, {}), splitting=split)
    done: set[str] = set()
    verdicts = []
    for wish in wishes:
        for verdict in _unloads(wish, view, done):
            if verdict.accepted:
                done.add(verdict.verdict.subject)
            verdicts.append((wish, verdict))
    return verdicts


def _unloads(wish: Row, view: ClusterView, done: Collection[str]) -> Iterator[Granted]:
    """Yield the verdicts on one wish; `done` grows between them."""
    if wish["kind"] == UNLOAD_TOPIC:
        yield grant_topic_unload(wish["topic"], replace(view, unloading=done))
        return
    for given in unloads_meant(wish["namespace"], wish["bundle"], wish["destination"], view):
        yield grant_unload(given, replace(view, unloading=done))


def bundles_to_look_into(rows: Rows, settings: Settings) -> Iterator[tuple[str, str | None]]:
    """Yield the bundles, with their owners, whose topics a wished split has to read."""
    wishes = [wish for wish in wishes_of(reading.the_cycle(rows), SPLIT) if looks_at_topics(wish, settings)]
    if not wishes:
        return
    view = view_of(rows, {})
    for wish in wishes:
        meant = bundle_meant(_split(wish), view)
        if not isinstance(meant, Granted):
            bundle = subject_of(SplitWish(wish["namespace"], str(meant)))
            yield bundle, view.owners.get(bundle)


def looks_at_topics(wish: Row, settings: Settings) -> bool:
    """Return True if the algorithm of a wished split reads the bundle's topics."""
    return name_in_force(wish["algorithm"] or "", settings) != "range_equally_divide"


def view_of(rows: Rows, topics: dict[str, BundleTopics]) -> ClusterView:
    """Return the cluster as wishes are compared with it.

    Brokers carry a wish out, so the manager is the one that they run, whichever one's rules decide the rest of the
    cycle.
    """
    settings = reading.settings_of(rows)
    observed = rows["cluster_policies"][0] if rows["cluster_policies"] else {}
    reported = frozenset(row["broker"] for row in rows["broker_reports"] if row["state"] == reading.REPORTED)
    listed = frozenset(observed.get("brokers") or reported)
    runs = observed.get("manager")
    manager = runs if runs in ("modular", "extensible") else reading.the_cycle(rows)["manager"]
    owned = {row["bundle"]: row["owner"] for row in rows["bundle_load"] if row["owner"] is not None}
    return ClusterView(
        manager="extensible" if manager == "extensible" else "modular",
        generation="5" if settings.generation == "5.0" else "4",
        boundaries=reading.boundaries(rows),
        owners=owned,
        brokers=listed,
        silent=listed - reported,
        histories=reading.histories(rows),
        persistent_topics={row["bundle"]: row["topics"] for row in rows.get("persistent_topics", ())},
        topics=topics,
    )


def unloaded_by(wished: list[tuple[Row, Granted]]) -> frozenset[str]:
    """Return the bundles that wishes unload, or topics of: shedders leave them to their wish."""
    return frozenset(bundle_left_to(granted.verdict) for _, granted in wished if granted.accepted)


def with_unloads(verdicts: list[Considered], shedder: str, wished: list[tuple[Row, Granted]]) -> list[dict[str, Any]]:
    """Return rows of a shedder's verdicts, and of the wishes for unloads."""
    rows = [reason_row(verdict, shedder) for verdict in verdicts]
    return [*rows, *(reason_row(granted.verdict, BY_REQUEST, wish["wish_id"]) for wish, granted in wished)]


def left_to_wishes(verdicts: list[Considered], wished: Collection[str]) -> list[Considered]:
    """Return the verdicts of a split rule, without its splits of bundles that a wish was granted for."""
    return [
        LEFT_TO_REQUEST.about_bundle(row.subject, row.broker)
        if row.subject_kind == "bundle" and row.subject in wished and row.outcome == "split"
        else row
        for row in verdicts
    ]


def _split(wish: Row) -> SplitWish:
    positions: tuple[Any, ...] = tuple(wish["positions"] or ())
    return SplitWish(
        wish["namespace"], wish["bundle"], wish["algorithm"] or "", positions, bool(wish["unload_children"])
    )
