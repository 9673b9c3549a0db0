"""Results of several variants over the same cycles, side by side, as figures and as a page."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from evenkeel.folders import write_below
from evenkeel.model.amounts import percent, plural
from evenkeel.replay.variants import RECORDED
from evenkeel.report.charts import (
    MOST_SERIES,
    Spec,
    amount,
    labels,
    layer_of,
    one_above_another,
    picture,
    series_colors,
    spec_of,
    time_axis,
)
from evenkeel.report.page import render_template

COLUMNS: Mapping[str, str] = {
    "variant": "variant",
    "moves": "moves",
    "moved_traffic": "traffic moved",
    "bounces": "bounces",
    "splits": "splits",
    "held": "held back",
    "max_over_mean": "max/mean",
    "worst_max_over_mean": "worst",
    "spread": "spread",
    "over_limit": "over limit",
    "cycles_that_differ": "cycles differ",
    "only_here": "only here",
    "only_recorded": "only recorded",
}
"""Key of a comparison's row -> heading."""
CLOSED_LOOP = {
    **{key: words for key, words in COLUMNS.items() if key not in ("cycles_that_differ", "only_here", "only_recorded")},
    "last_max_over_mean": "at the end",
    "at_rest": "at rest",
}
"""The columns of a closed loop, where no cycle is like the recorded one after the first move; the results count."""
_COUNTS = ("moves", "bounces", "splits", "held", "only_here", "only_recorded")
SERIES = ("after_max_over_mean", "after_spread", "moves", "splits", "before_max_over_mean")


_OF_THE_PLANNER = {"on": "decides in", "shadow": "only looks on in", "on and off": "decides in some cycles of"}


def planner_word(modes: Collection[str]) -> str:
    """Return the value of evenkeelPlanner over all cycles; `on and off` if it decides in some of them."""
    return "on and off" if "on" in modes and len(modes) > 1 else max(modes)


@dataclass
class Tally:
    """One variant's figures over the cycles so far. `series` are (moment, figures of `SERIES`) for pictures."""

    cycles: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    moved: list[float] = field(default_factory=list)
    over_mean: list[float] = field(default_factory=list)
    spreads: list[float] = field(default_factory=list)
    over_limit: int = 0
    differ: int = 0
    reproduced: int = 0
    decided_again: int = 0
    not_reproduced: list[str] = field(default_factory=list)
    series: list[tuple[datetime, tuple[float | None, ...]]] = field(default_factory=list)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one cycle: a row of `replay_cycles`, its moment as text or datetime."""
        self.cycles += 1
        for name in _COUNTS:
            self.counts[name] += row[name] or 0
        self.moved.append(row["moved_traffic_share"] or 0.0)
        if row["after_max_over_mean"] is not None:
            self.over_mean.append(row["after_max_over_mean"])
        if row["after_spread"] is not None:
            self.spreads.append(row["after_spread"])
        self.over_limit += bool(row["over_limit"])
        self.differ += bool(row["only_here"] or row["only_recorded"])
        if row.get("reproduced") is not None:
            self.decided_again += 1
            self.reproduced += row["reproduced"]
            if not row["reproduced"]:
                self.not_reproduced.append(str(row["cycle_at"]))
        at = row["cycle_at"]
        moment = at if isinstance(at, datetime) else datetime.fromisoformat(at)
        self.series.append((moment, tuple(row[name] for name in SERIES)))

    def at_rest(self) -> int:
        """Return the number of cycles at the end without any command."""
        moves, splits = SERIES.index("moves"), SERIES.index("splits")
        acted = (n for n, (_, row) in enumerate(reversed(self.series)) if row[moves] or row[splits])
        return next(acted, self.cycles)

    def figures(self) -> dict[str, Any]:
        """Sums, means, worst and last values; shares of traffic are in multiples of the cluster's traffic."""
        return {
            "cycles": self.cycles,
            **self.counts,
            "moved_traffic": math.fsum(self.moved),
            "max_over_mean": _mean(self.over_mean),
            "worst_max_over_mean": max(self.over_mean, default=None),
            "last_max_over_mean": self.over_mean[-1] if self.over_mean else None,
            "at_rest": self.at_rest(),
            "spread": _mean(self.spreads),
            "over_limit": self.over_limit,
            "cycles_that_differ": self.differ,
            "reproduced": self.reproduced if self.decided_again else None,
            "decided_again": self.decided_again or None,
            "not_reproduced": self.not_reproduced[:20],
        }


@dataclass
class VariantComparison:
    """A replay's outcome. `variants`: name -> differences in words; `planner`: name -> value of evenkeelPlanner;
    `caveats`: see `notes_on`."""

    replay_id: str
    cluster: str
    variants: Mapping[str, str]
    limit: float
    columns: Mapping[str, str] = field(default_factory=lambda: COLUMNS)
    tallies: dict[str, Tally] = field(default_factory=dict)
    planner: Mapping[str, str] = field(default_factory=dict)
    caveats: Sequence[str] = ()

    def add(self, row: Mapping[str, Any]) -> None:
        """A row of `replay_cycles`, of any variant; those of one variant come in the order of time."""
        self.tallies.setdefault(row["variant"], Tally()).add(row)

    def names(self) -> list[str]:
        """Return the names: the recorded one first, then the variants in the order of the request."""
        return [name for name in (RECORDED, *self.variants) if name in self.tallies]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per variant: its name, its differences, its figures."""
        return [
            {"variant": name, "settings": self.variants.get(name, "as decided then"), **self.tallies[name].figures()}
            for name in self.names()
        ]

    def cells(self) -> list[list[str]]:
        """The comparison as text, row by row."""
        return [[cell_text(row, key) for key in self.columns] for row in self.rows()]

    def table(self) -> str:
        """The comparison as text."""
        cells = [[*self.columns.values()], *self.cells()]
        widths = [max(len(line[n]) for line in cells) for n in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.ljust(width) if n == 0 else cell.rjust(width)
                for n, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in cells
        ]
        return "\n".join(line.rstrip() for line in lines)

    def text(self, *more: str) -> str:
        """The comparison as text, with its notes and `more` of them."""
        return "\n".join((self.table(), "", *self.notes(), *more))

    def notes(self) -> list[str]:
        """Return notes: each variant, if Evenkeel's planner decides, if recorded decisions were reproduced, and what to
        know of strategies and keys before a variant is put into force."""
        lines = [f"{name}: {words}" for name, words in self.variants.items()]
        for mode, does in _OF_THE_PLANNER.items():
            names = [name for name in self.variants if self.planner.get(name) == mode]
            if names:
                lines.append(f"Evenkeel's planner {does}: {', '.join(names)}")
        for name in self.variants:
            figures = self.tallies[name].figures() if name in self.tallies else {}
            if figures.get("decided_again"):
                lines.append(f"{name}: {figures['reproduced']} of {figures['decided_again']} recorded plans reproduced")
                lines += [f"  not at {at}" for at in figures["not_reproduced"]]
        return [*lines, *self.caveats]


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def cell_text(row: Mapping[str, Any], key: str) -> str:
    """Return a figure of a comparison's row as text, `-` without one."""
    value = row[key]
    if value is None:
        return "-"
    if key.endswith("max_over_mean"):
        return f"{value:.3f}"
    if key in ("moved_traffic", "spread"):
        return percent(value)
    return str(value)


MOST_POINTS = 300
_ROOM = 72
_PANELS = (("after_max_over_mean", "max / mean", 200), ("after_spread", "spread", 110), ("moves", "moves so far", 110))


def write_page(comparison: VariantComparison, folder: Path, *, note: str = "") -> Path:
    """Write `replay.html` into the folder, which is made if missing; return its path."""
    return write_below(folder, "replay.html", page_of(comparison, note=note))


def page_of(comparison: VariantComparison, *, note: str = "") -> str:
    """The page as HTML text."""
    names = comparison.names()
    text = note or (
        f"{plural(comparison.tallies[names[0]].cycles, 'cycle')} of {comparison.cluster}, decided on the recorded "
        "observations: one cycle's requests do not change the next one's observations (open loop)."
    )
    label = (
        f"Largest usage over the mean, spread of usage and number of moves of {len(names)} variants over time. "
        "The table above has the numbers."
    )
    shown = names[:MOST_SERIES]
    return render_template(
        "comparison.html.j2",
        title=f"{comparison.cluster}: what other strategies would have done",
        text=text,
        headings=list(comparison.columns.values()),
        lines=comparison.cells(),
        notes=comparison.notes(),
        picture=picture(lambda width: _panels(comparison, shown, width), label),
    )


def _panels(comparison: VariantComparison, names: Sequence[str], width: int) -> Spec:
    short = labels(names)
    points = {name: thinned(comparison.tallies[name]) for name in names}
    moments = [at for series in points.values() for at, _ in series]
    color = series_colors("variant", [short[name] for name in names])
    panels = []
    for column, title, height in _PANELS:
        place = SERIES.index(column)
        rows = [
            {"at": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "variant": short[name], "value": figures[place]}
            for name in names
            for at, figures in points[name]
        ]
        x = time_axis(moments, narrow=width < 500, labels=column == _PANELS[-1][0])
        y = amount("value", title=title, axis={"tickCount": 4}, scale={"zero": column == "moves"})
        lines = layer_of(rows, "line", {"strokeWidth": 1.8}, x=x, y=y, color=color)
        panels.append({"width": width - _ROOM, "height": height, **lines})
    joined = one_above_another(*panels, shared=("x", "color"), own=("y",))
    return spec_of(joined, columns=2 if width < 500 else 4)


def thinned(tally: Tally) -> list[tuple[datetime, tuple[float | None, ...]]]:
    """The course in at most `MOST_POINTS` points: of each stretch the worst figures; moves and splits add up."""
    step = max(1, -(-len(tally.series) // MOST_POINTS))
    moves, splits = SERIES.index("moves"), SERIES.index("splits")
    sums = {moves: 0.0, splits: 0.0}
    kept = []
    for start in range(0, len(tally.series), step):
        stretch = tally.series[start : start + step]
        figures: list[Any] = []
        for place in range(len(SERIES)):
            values = [row[place] for _, row in stretch if row[place] is not None]
            if place in sums:
                sums[place] += sum(float(value or 0.0) for value in values)
                figures.append(sums[place])
            else:
                figures.append(max((float(value or 0.0) for value in values), default=None))
        kept.append((stretch[-1][0], tuple(figures)))
    return kept
