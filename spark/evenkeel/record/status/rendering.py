"""The status as JSON, by a documented schema, and as text for a terminal or a pipe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.record.status.line import ClusterStatus, sparkline
from evenkeel.record.wording import age, time, visible

if TYPE_CHECKING:
    from evenkeel.record.status import LakeStatus

JSON_VERSION = 1
"""Rises when a member of the JSON changes its meaning or goes; members may join without that."""
_COLOURS = {"bad": "31", "warn": "33", "note": "2", "calm": "32"}
_LONGEST_NAME = 40
_HEADINGS = ("CLUSTER", "BUSIEST/MEAN", "MODE", "LAST CYCLE")


def as_json(status: LakeStatus) -> str:
    """The status as JSON with a line feed at its end; docs/reference/status-json.md has the schema."""
    return json.dumps(as_object(status), ensure_ascii=False, indent=2) + "\n"


def as_object(status: LakeStatus) -> dict[str, Any]:
    """The status in values of JSON."""
    return {
        "version": JSON_VERSION,
        "lake": status.lake,
        "at": status.at.isoformat(),
        "clusters": [_object_of(line) for line in status.clusters],
        "unread": dict(sorted(status.unread.items())),
    }


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
            {"kind": one.kind, "label": one.label, "mood": one.mood, "count": one.count, "text": one.text}
            for one in line.needs
        ],
    }


def as_text(status: LakeStatus, *, coloured: bool = False) -> str:
    """A line per cluster, and below it a line for each thing that needs attention; ends with a line feed."""
    rows = [_cells(line) for line in status.clusters]
    widths = [max(len(row[place]) for row in [_HEADINGS, *rows]) for place in range(len(_HEADINGS))]
    lines = [_aligned(_HEADINGS, widths)]
    for line, row in zip(status.clusters, rows, strict=True):
        lines.append(_painted(_aligned(row, widths), line.mood if line.mood in ("bad", "warn") else "", coloured))
        lines += [f"  {_painted(one.label, one.mood, coloured)}: {visible(one.text)}" for one in line.needs]
    lines.append(_summary(status.clusters))
    lines += [f"{table} could not be read: {visible(why)}" for table, why in sorted(status.unread.items())]
    return "\n".join(lines) + "\n"


def _cells(line: ClusterStatus) -> tuple[str, ...]:
    figure = "–" if line.balance is None else f"{line.balance:.2f}"
    name = visible(line.cluster)
    state = line.state if line.kind == "live" else f"{line.state}, {line.kind}"
    return (
        name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…",
        f"{figure} {sparkline(line.course)}".rstrip(),
        line.mode,
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
    needs = "; ".join(f"{one.label}: {visible(one.text)}" for one in line.needs) or "nothing needs attention"
    figure = "–" if line.balance is None else f"{line.balance:.2f}"
    return f"{time(line.cycle_at)} {visible(line.cluster)} {line.mode} {line.state} busiest/mean {figure}: {needs}"
