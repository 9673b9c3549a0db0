"""The report's pictures as static SVG: Vega-Lite by Altair, drawn by vl-convert, coloured by the page's own tokens.

Every chart comes in two widths; the style sheet shows the one that fits. Colours are CSS variables, so that one SVG
serves light and dark. No script, no style attribute, no font from elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from evenkeel.model import amounts
from evenkeel.record import wording
from evenkeel.record.report.chapters import BrokerLine, foremost
from evenkeel.record.report.gather import CourseModel, Point

if TYPE_CHECKING:
    import altair as alt

WIDE, NARROW = 1_030, 356
_HALF = 496
MOST_SERIES = 6
MOST_BROKERS = 20

# Placeholders that no chart would use by itself; each becomes a CSS variable of the page.
_TOKENS = {f"#e1000{n}": f"var(--series-{n})" for n in range(1, MOST_SERIES + 1)} | {
    "#e10010": "var(--muted)",
    "#e10011": "var(--grid)",
    "#e10012": "var(--ink)",
    "#e10013": "var(--band)",
    "#e10014": "var(--rest)",
    "#e10015": "var(--bad)",
}
_SERIES = [token for token in _TOKENS if token < "#e10010"]
_MUTED, _GRID, _INK, _BAND, _REST, _LIMIT = (token for token in _TOKENS if token >= "#e10010")
_SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart in both widths, as SVG text, and what it shows in a sentence for those who do not see it."""

    wide: str
    narrow: str
    label: str


def course_picture(course: CourseModel) -> Picture | None:
    """Usage per broker over the cycles, its unevenness, and what was decided when; None without a decided cycle."""
    if not any(point.compared for point in course.points):
        return None
    first, last = course.points[0].at, course.points[-1].at
    brokers = amounts.plural(len(course.brokers), "broker")
    what = "Share of the traffic" if course.is_share else "Usage"
    label = (
        f"{what} of {brokers} over {amounts.plural(len(course.points), 'cycle')} from {wording.time(first)} to "
        f"{wording.time(last)}, with splits and unloads. The table below has the numbers."
    )
    return picture(lambda width: _course(course, width), label, WIDE)


def broker_picture(lines: Sequence[BrokerLine], what: str, limit: float | None = None) -> Picture | None:
    """Before and after the plan, broker by broker: `what` is `usage` or `share` (of traffic). `limit` is drawn in."""
    known = [line for line in foremost(lines) if getattr(line, f"{what}_before") is not None]
    if not known:
        return None
    words = "weighted usage" if what == "usage" else "share of the traffic"
    also = "" if limit is None else f", with the limit of {amounts.percent(limit)}"
    label = f"{words.capitalize()} per broker before and after the plan{also}. The table below has the numbers."
    values = [value for line in lines if (value := getattr(line, f"{what}_before")) is not None]
    mean = sum(values) / len(values)
    return picture(lambda width: _brokers(known[:MOST_BROKERS], what, mean, limit, width), label, _HALF)


def picture(chart: Callable[[int], alt.TopLevelMixin], label: str, wide: int = WIDE) -> Picture:
    """What `chart` draws for a width, in both widths."""
    return Picture(_svg(chart(wide), label), _svg(chart(NARROW), label), label)


def _svg(chart: alt.TopLevelMixin, label: str) -> str:
    """The chart as an SVG element whose colours come from the page and whose ids are its own."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(chart.to_dict(), vl_version="v6.1")
    prefix = "c" + hashlib.sha256(f"{label}{drawn}".encode()).hexdigest()[:10]
    for placeholder, variable in _TOKENS.items():
        drawn = re.sub(re.escape(placeholder), variable, drawn, flags=re.IGNORECASE)
    drawn = re.sub(r'font-family="[^"]*"', 'font-family="inherit"', drawn)
    drawn = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', drawn)
    drawn = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", drawn)
    # One picture with one name: what it is made of says nothing to those who listen.
    drawn = re.sub(r' (role="graphics-[^"]*"|aria-roledescription="[^"]*"|class="marks")', "", drawn)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(label, quote=True)}" ', 1)


def _course(course: CourseModel, width: int) -> alt.TopLevelMixin:
    import altair as alt

    narrow = width == NARROW
    names = labels(course.brokers)
    series = list(course.brokers[:MOST_SERIES])
    times = [point.at for point in course.points]
    silent, x = time_axis(times, narrow, labels=False), time_axis(times, narrow)
    plot = width - 72
    parts = [_usage(course, series, names, silent).properties(width=plot, height=190 if narrow else 240)]
    parts.append(_unevenness(course, silent).properties(width=plot, height=60 if narrow else 70))
    parts.append(_events(course, x).properties(width=plot, height=84))
    joined = alt.vconcat(*parts, spacing=14).resolve_scale(
        x="shared", y="independent", color="independent", shape="independent"
    )
    longest = max((len(names[broker]) for broker in series), default=1)
    return configured(joined, columns=max(1, round(plot // (7.6 * longest + 60))))


def _usage(course: CourseModel, series: Sequence[str], names: dict[str, str], x: alt.X) -> alt.LayerChart:
    import altair as alt

    rows = [
        {"at": _stamp(p), "broker": names[b], "value": p.compared.get(b)} for p in course.points for b in course.brokers
    ]
    named = {names[broker] for broker in series}
    values = [value for p in course.points for value in (*p.compared.values(), *p.usage.values(), p.limit or 0.0)]
    top = max(values, default=0.0) or 0.01
    title = "share of traffic" if course.is_share else "usage"
    y = alt.Y("value:Q", title=title, axis=_axis(format="%", tickCount=5), scale=alt.Scale(domain=[0, top * 1.05]))
    layers: list[Any] = []
    bands = [{"at": _stamp(p), "mean": p.mean, "limit": p.limit} for p in course.points]
    if any(p.limit is not None for p in course.points):
        band = alt.Chart(alt.Data(values=bands)).mark_area(color=_BAND, line=False)
        layers.append(band.encode(x=x, y=alt.Y("mean:Q"), y2="limit:Q"))
    rest = [row for row in rows if row["broker"] not in named]
    if rest:
        others = alt.Chart(alt.Data(values=rest)).mark_line(color=_REST, strokeWidth=1)
        layers.append(others.encode(x=x, y=y, detail="broker:N"))
    mean = alt.Chart(alt.Data(values=bands)).mark_line(color=_INK, strokeDash=[5, 4], strokeWidth=1.2)
    layers.append(mean.encode(x=x, y=alt.Y("mean:Q")))
    if course.is_remembered:
        seen = [
            {"at": _stamp(p), "broker": names[b], "value": p.usage[b]}
            for p in course.points
            for b in series
            if b in p.usage
        ]
        dots = alt.Chart(alt.Data(values=seen)).mark_point(filled=False, size=16, strokeWidth=1, opacity=0.75)
        layers.append(dots.encode(x=x, y=y, color=_color(series, names)))
    lines = alt.Chart(alt.Data(values=[row for row in rows if row["broker"] in named]))
    mark = lines.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=34, filled=True, opacity=1))
    shape = alt.Shape(
        "broker:N", title=None, scale=alt.Scale(domain=[names[b] for b in series], range=_SHAPES[: len(series)])
    )
    layers.append(mark.encode(x=x, y=y, color=_color(series, names), shape=shape))
    return alt.layer(*layers)


def _unevenness(course: CourseModel, x: alt.X) -> alt.Chart:
    import altair as alt

    rows = [{"at": _stamp(p), "value": p.max_over_mean} for p in course.points]
    highest = max([row["value"] for row in rows if isinstance(row["value"], float)], default=1.0)
    y = alt.Y(
        "value:Q",
        title="max / mean",
        axis=_axis(format=".1f", tickCount=3),
        scale=alt.Scale(domain=[1, max(highest * 1.03, 1.1)], zero=False),
    )
    chart = alt.Chart(alt.Data(values=rows))
    return chart.mark_line(color=_INK, strokeWidth=1.5, point=alt.OverlayMarkDef(color=_INK, size=14)).encode(x=x, y=y)


def _events(course: CourseModel, x: alt.X) -> alt.LayerChart:
    import altair as alt

    order = ["unload", "split", "place", "left out"]
    rows = [
        {"at": _stamp(point), "event": event, "number": str(number)}
        for point in course.points
        for event, number in _happened(point)
        if number
    ]
    y = alt.Y("event:N", title=None, scale=alt.Scale(domain=order), axis=_axis(grid=True, ticks=False, labelPadding=6))
    chart = alt.Chart(alt.Data(values=rows))
    shape = alt.Shape(
        "event:N",
        legend=None,
        scale=alt.Scale(domain=order, range=["triangle-down", "square", "circle", "cross"]),
    )
    color = alt.Color(
        "event:N", legend=None, scale=alt.Scale(domain=order, range=[_SERIES[0], _SERIES[1], _SERIES[2], _SERIES[4]])
    )
    marks = chart.mark_point(filled=True, size=80, opacity=1).encode(x=x, y=y, shape=shape, color=color)
    numbers = chart.transform_filter("datum.number != '1'").mark_text(dx=11, align="left", color=_MUTED, fontSize=11)
    return alt.layer(marks, numbers.encode(x=x, y=y, text="number:N"))


def _happened(point: Point) -> list[tuple[str, int]]:
    ownerless = max(0, point.placements - point.unloads)
    return [
        ("unload", point.unloads),
        ("split", point.splits),
        ("place", ownerless),
        ("left out", int(not point.decided)),
    ]


def _brokers(lines: Sequence[BrokerLine], what: str, mean: float, limit: float | None, width: int) -> alt.TopLevelMixin:
    import altair as alt

    names = labels([line.broker for line in lines])
    rows = [
        {
            "broker": names[line.broker],
            "before": getattr(line, f"{what}_before"),
            "after": getattr(line, f"{what}_after"),
        }
        for line in lines
    ]
    top = max(mean, limit or 0.0, *(max(row["before"], row["after"]) for row in rows))
    # The page's font may be wider than the one that vl-convert measures with.
    room = 8 + round(7.6 * max(len(str(row["broker"])) for row in rows))
    axis = _axis(grid=False, ticks=False, labelLimit=room, minExtent=room)
    y = alt.Y("broker:N", title=None, sort=[row["broker"] for row in rows], axis=axis)
    x = alt.X(
        "before:Q",
        title="weighted usage" if what == "usage" else "share of traffic",
        axis=_axis(format="%", tickCount=5, grid=True),
        scale=alt.Scale(domain=[0, max(top * 1.08, 0.01)]),
    )
    chart = alt.Chart(alt.Data(values=rows))
    way = chart.mark_rule(strokeWidth=3, color=_REST).encode(x=x, x2="after:Q", y=y)
    before = chart.mark_point(size=70, filled=False, strokeWidth=2, color=_MUTED, opacity=1).encode(x=x, y=y)
    after = chart.mark_point(size=90, filled=True, color=_SERIES[0], opacity=1).encode(x=alt.X("after:Q"), y=y)
    middle = alt.Chart(alt.Data(values=[{"mean": mean}])).mark_rule(color=_INK, strokeDash=[5, 4], strokeWidth=1.2)
    layers = [middle.encode(x=alt.X("mean:Q")), way, before, after]
    if limit is not None:
        line = alt.Chart(alt.Data(values=[{"limit": limit}])).mark_rule(color=_LIMIT, strokeWidth=1.6)
        layers.insert(0, line.encode(x=alt.X("limit:Q")))
    layered = alt.layer(*layers)
    layered = layered.properties(width=width - room - 16, height=max(60, 30 * len(rows)))
    return configured(layered, columns=1)


def labels(names: Sequence[str]) -> dict[str, str]:
    """A short label for every name, different ones for different names."""
    found: dict[str, str] = {}
    for name in names:
        label = wording.shortened(wording.visible(name), 24)
        taken = set(found.values())
        found[name] = label if label not in taken else f"{wording.shortened(label, 20)} ({len(found) + 1})"
    return found


def _color(series: Sequence[str], names: dict[str, str]) -> alt.Color:
    return series_colors("broker", [names[broker] for broker in series])


def series_colors(field: str, names: Sequence[str]) -> alt.Color:
    """A colour of the page for each of at most `MOST_SERIES` names."""
    import altair as alt

    return alt.Color(f"{field}:N", scale=alt.Scale(domain=list(names), range=_SERIES[: len(names)]), title=None)


def time_axis(times: Sequence[datetime], narrow: bool, *, labels: bool = True) -> alt.X:
    """The axis of time, with as much of a date as the span needs."""
    import altair as alt

    span = (max(times) - min(times)).total_seconds()
    form = "%d %b %H:%M" if span > 86_400 else "%H:%M" if span > 600 else "%H:%M:%S"
    axis = _axis(format=form, tickCount=4 if narrow else 8, grid=False, labelOverlap=True, labels=labels)
    return alt.X("at:T", title=None, axis=axis, scale=alt.Scale(type="utc"))


def _stamp(point: Point) -> str:
    return point.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _axis(**more: Any) -> alt.Axis:
    import altair as alt

    return alt.Axis(**more)


def configured(chart: Any, *, columns: int) -> alt.TopLevelMixin:
    """The chart in the page's colours; `columns` of its legend."""
    configured: alt.TopLevelMixin = (
        chart.configure(background="transparent", aria=False, padding=4)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=_MUTED,
            titleColor=_MUTED,
            titleFontWeight="normal",
            titleFontSize=12,
            labelFontSize=12,
            domainColor=_GRID,
            tickColor=_GRID,
            gridColor=_GRID,
            labelLimit=150,
        )
        .configure_axisY(minExtent=50)
        .configure_legend(
            labelColor=_INK,
            labelFontSize=12,
            orient="top",
            columns=columns,
            columnPadding=36,
            symbolSize=70,
            labelLimit=200,
        )
    )
    return configured
