"""The comparison of a replay or simulation as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.record.report.charts import MOST_SERIES, Picture, configured, labels, picture, series_colors, time_axis
from evenkeel.record.report.page import render_template
from evenkeel.replay.comparison import SERIES, Comparison, Tally

if TYPE_CHECKING:
    import altair as alt

MOST_POINTS = 300
_ROOM = 72
_PANELS = (("after_max_over_mean", "max / mean", 200), ("after_spread", "spread", 110), ("moves", "moves so far", 110))


def write_page(comparison: Comparison, folder: Path, *, note: str = "") -> Path:
    """Writes `replay.html` into the folder, which is made if missing, and says where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "replay.html"
    path.write_text(page_of(comparison, note=note), encoding="utf-8")
    return path


def page_of(comparison: Comparison, *, note: str = "") -> str:
    """The page as HTML text."""
    names = comparison.names()
    text = note or (
        f"{comparison.tallies[names[0]].cycles} cycles of {comparison.cluster}, decided on what was seen then: "
        "what one cycle asks for does not change what the next one sees (open loop)."
    )
    return render_template(
        "comparison.html.j2",
        title=f"{comparison.cluster}: what other strategies would have done",
        text=text,
        headings=list(comparison.columns.values()),
        lines=comparison.cells(),
        notes=comparison.notes(),
        picture=_course(comparison, names),
    )


def _course(comparison: Comparison, names: Sequence[str]) -> Picture:
    label = (
        f"Largest usage over the mean, spread of usage and number of moves of {len(names)} variants over time. "
        "The table above has the numbers."
    )
    shown = names[:MOST_SERIES]
    return picture(lambda width: _panels(comparison, shown, width), label)


def _panels(comparison: Comparison, names: Sequence[str], width: int) -> alt.TopLevelMixin:
    import altair as alt

    short = labels(names)
    points = {name: thinned(comparison.tallies[name]) for name in names}
    moments = [at for found in points.values() for at, _ in found]
    panels = []
    for column, title, height in _PANELS:
        place = SERIES.index(column)
        rows = [
            {"at": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "variant": short[name], "value": figures[place]}
            for name in names
            for at, figures in points[name]
        ]
        x = time_axis(moments, narrow=width < 500, labels=column == _PANELS[-1][0])
        y = alt.Y("value:Q", title=title, axis=alt.Axis(tickCount=4), scale=alt.Scale(zero=column == "moves"))
        color = series_colors("variant", [short[name] for name in names])
        chart = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=1.8)
        panels.append(chart.encode(x=x, y=y, color=color).properties(width=width - _ROOM, height=height))
    joined = alt.vconcat(*panels, spacing=14).resolve_scale(x="shared", y="independent", color="shared")
    return configured(joined, columns=2 if width < 500 else 4)


def thinned(tally: Tally) -> list[tuple[datetime, tuple[float | None, ...]]]:
    """The course in at most `MOST_POINTS` points: of each stretch the worst figures; moves and splits add up."""
    step = max(1, -(-len(tally.series) // MOST_POINTS))
    moves, splits = SERIES.index("moves"), SERIES.index("splits")
    sums = {moves: 0.0, splits: 0.0}
    found = []
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
        found.append((stretch[-1][0], tuple(figures)))
    return found
