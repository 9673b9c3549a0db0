"""The status as JSON, by a documented schema, and as text for a terminal or a pipe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from evenkeel.explain.wording import age, time, visible
from evenkeel.status.lakes import LakesStatus, MovedCluster
from evenkeel.status.line import ClusterStatus, sparkline

if TYPE_CHECKING:
    from evenkeel.status import LakeStatus

JSON_VERSION = 1
"""Rises when a member of the JSON changes its meaning or goes; members may join without that."""
_COLOURS = {"bad": "31", "warn": "33", "note": "2", "calm": "32"}
_LONGEST_NAME = 40
_HEADINGS: tuple[str, ...] = ("CLUSTER", "BUSIEST/MEAN", "MODE", "LAST CYCLE")


def as_json(status: LakeStatus | LakesStatus) -> str:
    """The status as JSON with a line feed at its end; docs/reference/json.md#keys-of-status has the schema."""
    return json.dumps(as_object(status), ensure_ascii=False, indent=2) + "\n"


def as_object(status: LakeStatus | LakesStatus) -> dict[str, Any]:
    """The status in values of JSON; of several lakes each cluster names its own."""
    at, unread = status.at.isoformat(), dict(sorted(status.unread.items()))
    if isinstance(status, LakesStatus):
        return {
            "version": JSON_VERSION,
            "lakes": [
                {
                    "name": lake_seen.name,
                    "lake": lake_seen.path,
                    "clusters": lake_seen.clusters,
                    "fault": lake_seen.fault or None,
                    "unread": dict(sorted(lake_seen.unread.items())),
                }
                for lake_seen in status.lakes
            ],
            "at": at,
            "clusters": [{**_object_of(line), "lake": lake} for lake, line in status.lines],
            "unread": unread,
            "moved": [asdict(cluster) for cluster in status.moved],
        }
    clusters = [_object_of(line) for line in status.clusters]
    return {"version": JSON_VERSION, "lake": status.lake, "at": at, "clusters": clusters, "unread": unread}


def _object_of(line: ClusterStatus) -> dict[str, Any]:
    return {
        "cluster": line.cluster,
        "mood": line.mood,
        "mode": line.mode,
        "last_cycle": {
            "at": line.cycle_at.isoformat(),
            "age_seconds": round(line.age_seconds, 3),
            "state": line.state,
            "kind": line.kind,
            "unloads": line.unloads,
            "splits": line.splits,
        },
        "brokers": line.brokers,
        "balance": line.balance,
        "course": list(line.course),
        "needs": [
            {"kind": need.kind, "label": need.label, "mood": need.mood, "count": need.count, "text": need.text}
            for need in line.needs
        ],
    }


def as_text(status: LakeStatus | LakesStatus, *, coloured: bool = False) -> str:
    """A line per cluster, with its lake of several, and below it a line for each thing that needs attention.

    Of several lakes, a line for each that cannot be read, and for each cluster that was moved; ends with a line feed.
    """
    headings, rows = _HEADINGS, [_cells(line) for line in status.clusters]
    faults, moved = list[str](), list[str]()
    if isinstance(status, LakesStatus):
        headings = (_HEADINGS[0], "LAKE", *_HEADINGS[1:])
        rows = [(cells[0], lake, *cells[1:]) for (lake, _), cells in zip(status.lines, rows, strict=True)]
        word = _painted("cannot be read", "bad", coloured)
        faults = [f"lake {faulty.name} {word}: {visible(faulty.fault)}" for faulty in status.faulty]
        moved = [moved_words(cluster) for cluster in status.moved]
    lines = [*_table(headings, rows, status.clusters, coloured), _summary(status.clusters), *faults]
    lines += [f"{table} could not be read: {visible(why)}" for table, why in sorted(status.unread.items())]
    return "\n".join([*lines, *moved]) + "\n"


def moved_words(moved: MovedCluster) -> str:
    """Return where the earlier cycles of a moved cluster are."""
    name = visible(moved.cluster)
    return f"{name} belongs to the lake {moved.now}: its earlier cycles are in {moved.before} (--lake {moved.before})"


def _table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], clusters: Sequence[ClusterStatus], coloured: bool
) -> list[str]:
    widths = [max(len(row[place]) for row in [headings, *rows]) for place in range(len(headings))]
    lines = [_aligned(headings, widths)]
    for line, row in zip(clusters, rows, strict=True):
        lines.append(_painted(_aligned(row, widths), line.mood if line.mood in ("bad", "warn") else "", coloured))
        lines += [f"  {_painted(need.label, need.mood, coloured)}: {visible(need.text)}" for need in line.needs]
    return lines


def _cells(line: ClusterStatus) -> tuple[str, ...]:
    figure = "–" if line.balance is None else f"{line.balance:.2f}"
    name = visible(line.cluster)
    state = line.state if line.kind == "live" else f"{line.state}, {line.kind}"
    return (
        name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…",
        f"{figure} {sparkline(line.course)}".rstrip(),
        visible(line.mode),
        f"{age(line.age_seconds)} ago ({state})",
    )


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _painted(text: str, mood: str, coloured: bool) -> str:
    return f"\x1b[{_COLOURS[mood]}m{text}\x1b[0m" if coloured and mood else text


def _summary(lines: Sequence[ClusterStatus]) -> str:
    some = sum(line.mood in ("bad", "warn") for line in lines)
    whole = f"{len(lines)} {'cluster' if len(lines) == 1 else 'clusters'}"
    return f"{some} of {whole} {'needs' if some == 1 else 'need'} attention." if some else f"{whole}, nothing to do."


def moment_line(status: LakeStatus) -> str:
    """The state of the first cluster in one line, for a log that follows it."""
    line = status.clusters[0]
    needs = "; ".join(f"{need.label}: {visible(need.text)}" for need in line.needs) or "nothing needs attention"
    figure = "–" if line.balance is None else f"{line.balance:.2f}"
    return f"{time(line.cycle_at)} {visible(line.cluster)} {line.mode} {line.state} busiest/mean {figure}: {needs}"
