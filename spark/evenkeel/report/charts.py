"""The report's pictures as static SVG: Vega-Lite, drawn by vl-convert, coloured by the page's own tokens.

A chart is Vega-Lite's JSON, as mappings: `layer_of` makes a part of it, `spec_of` a whole one. (Altair checks and
copies each part of a chart many times over. It took longer for a page than reading its tables.)

Every chart comes in two widths; the style sheet shows the one that fits. Colours are CSS variables, so that one SVG
serves light and dark. The SVG has no script, no style attribute and no external font.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

from evenkeel.explain import wording
from evenkeel.model import amounts
from evenkeel.report.chapters import BrokerLine, foremost
from evenkeel.report.gather import CourseModel, Point

WIDE, NARROW = 1_030, 356
_HALF = 496
Spec = Mapping[str, Any]
"""A chart, a part of one, or the style of an axis or a mark, in Vega-Lite's words."""

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
    """A chart in both widths, as SVG text, and a sentence with its content for readers who cannot see it."""

    wide: str
    narrow: str
    label: str


def course_picture(course: CourseModel) -> Picture | None:
    """Draw usage per broker over the cycles, its unevenness, and the decisions; None without a decided cycle."""
    if not any(point.compared for point in course.points):
        return None
    first, last = course.points[0].attempt.cycle_at, course.points[-1].attempt.cycle_at
    brokers = amounts.plural(len(course.brokers), "broker")
    quantity = "Share of the traffic" if course.is_share else "Usage"
    label = (
        f"{quantity} of {brokers} over {amounts.plural(len(course.points), 'cycle')} from {wording.time(first)} to "
        f"{wording.time(last)}, with splits and unloads. The table below has the numbers."
    )
    return picture(lambda width: _course(course, width), label, WIDE)


def broker_picture(lines: Sequence[BrokerLine], quantity: str, limit: float | None = None) -> Picture | None:
    """Draw usage before and after the plan, with the `limit`. `quantity`: `usage` or `share` (of traffic)."""
    known = [line for line in foremost(lines) if getattr(line, f"{quantity}_before") is not None]
    if not known:
        return None
    words = "weighted usage" if quantity == "usage" else "share of the traffic"
    also = "" if limit is None else f", with the limit of {amounts.percent(limit)}"
    label = f"{words.capitalize()} per broker before and after the plan{also}. The table below has the numbers."
    values = [value for line in lines if (value := getattr(line, f"{quantity}_before")) is not None]
    mean = sum(values) / len(values)
    return picture(lambda width: _brokers(known[:MOST_BROKERS], quantity, mean, limit, width), label, _HALF)


def picture(chart: Callable[[int], Spec], label: str, wide: int = WIDE) -> Picture:
    """Draw the result of `chart` for a width, in both widths."""
    return Picture(_svg(chart(wide), label), _svg(chart(NARROW), label), label)


def _svg(chart: Spec, label: str) -> str:
    """The chart as an SVG element whose colours come from the page and whose ids are its own."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(dict(chart), vl_version="v6.1")
    prefix = "c" + hashlib.sha256(f"{label}{drawn}".encode()).hexdigest()[:10]
    for placeholder, variable in _TOKENS.items():
        drawn = re.sub(re.escape(placeholder), variable, drawn, flags=re.IGNORECASE)
    drawn = re.sub(r'font-family="[^"]*"', 'font-family="inherit"', drawn)
    drawn = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', drawn)
    drawn = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", drawn)
    # One picture with one name: its parts mean nothing to a screen reader.
    drawn = re.sub(r' (role="graphics-[^"]*"|aria-roledescription="[^"]*"|class="marks")', "", drawn)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(label, quote=True)}" ', 1)


def layer_of(rows: Sequence[Mapping[str, Any]], mark: str, style: Spec, **encoding: Spec) -> dict[str, Any]:
    """The rows drawn with a mark; `encoding`: channel -> the field that it shows, and how."""
    return {"data": {"values": rows}, "mark": {"type": mark, **style}, "encoding": encoding}


def amount(field: str, **more: Any) -> Spec:
    """A channel that shows the numbers of a field."""
    return {"field": field, "type": "quantitative", **more}


def name(field: str, **more: Any) -> Spec:
    """A channel that shows the names of a field."""
    return {"field": field, "type": "nominal", **more}


def one_above_another(*parts: Spec, shared: Sequence[str], own: Sequence[str]) -> dict[str, Any]:
    """Stack charts vertically, with `shared` and `own` scales by channel."""
    scale = {**dict.fromkeys(shared, "shared"), **dict.fromkeys(own, "independent")}
    return {"vconcat": list(parts), "spacing": 14, "resolve": {"scale": scale}}


def _course(course: CourseModel, width: int) -> Spec:
    narrow = width == NARROW
    names = labels(course.brokers)
    series = list(course.brokers[:MOST_SERIES])
    times = [point.attempt.cycle_at for point in course.points]
    silent, x = time_axis(times, narrow, labels=False), time_axis(times, narrow)
    plot = width - 72
    rows = [{"at": _stamp(p), "value": p.max_over_mean} for p in course.points]
    highest = max([row["value"] for row in rows if isinstance(row["value"], float)], default=1.0)
    scale = {"domain": [1, max(highest * 1.03, 1.1)], "zero": False}
    y = amount("value", title="max / mean", axis={"format": ".1f", "tickCount": 3}, scale=scale)
    line = {"color": _INK, "strokeWidth": 1.5, "point": {"color": _INK, "size": 14}}
    parts = (
        {"width": plot, "height": 190 if narrow else 240, "layer": _usage(course, series, names, silent)},
        {"width": plot, "height": 60 if narrow else 70, **layer_of(rows, "line", line, x=silent, y=y)},
        {"width": plot, "height": 84, "layer": _events(course, x)},
    )
    joined = one_above_another(*parts, shared=("x",), own=("y", "color", "shape"))
    longest = max((len(names[broker]) for broker in series), default=1)
    return spec_of(joined, columns=max(1, round(plot // (7.6 * longest + 60))))


def _usage(course: CourseModel, series: Sequence[str], names: dict[str, str], x: Spec) -> list[Spec]:
    rows = [
        {"at": _stamp(p), "broker": names[b], "value": p.compared.get(b)} for p in course.points for b in course.brokers
    ]
    named = {names[broker] for broker in series}
    values = [value for p in course.points for value in (*p.compared.values(), *p.usage.values(), p.limit or 0.0)]
    top = max(values, default=0.0) or 0.01
    title = "share of traffic" if course.is_share else "usage"
    y = amount("value", title=title, axis={"format": "%", "tickCount": 5}, scale={"domain": [0, top * 1.05]})
    layers: list[Spec] = []
    bands = [{"at": _stamp(p), "mean": p.mean, "limit": p.limit} for p in course.points]
    if any(p.limit is not None for p in course.points):
        band = {"color": _BAND, "line": False}
        layers.append(layer_of(bands, "area", band, x=x, y=amount("mean"), y2={"field": "limit"}))
    other_rows = [row for row in rows if row["broker"] not in named]
    if other_rows:
        layers.append(layer_of(other_rows, "line", {"color": _REST, "strokeWidth": 1}, x=x, y=y, detail=name("broker")))
    dashed = {"color": _INK, "strokeDash": [5, 4], "strokeWidth": 1.2}
    layers.append(layer_of(bands, "line", dashed, x=x, y=amount("mean")))
    color = series_colors("broker", [names[broker] for broker in series])
    if course.is_remembered:
        seen = [
            {"at": _stamp(p), "broker": names[b], "value": p.usage[b]}
            for p in course.points
            for b in series
            if b in p.usage
        ]
        dots = {"filled": False, "size": 16, "strokeWidth": 1, "opacity": 0.75}
        layers.append(layer_of(seen, "point", dots, x=x, y=y, color=color))
    scale = {"domain": [names[broker] for broker in series], "range": _SHAPES[: len(series)]}
    shape = name("broker", title=None, scale=scale)
    lines = {"strokeWidth": 2, "point": {"size": 34, "filled": True, "opacity": 1}}
    named_rows = [row for row in rows if row["broker"] in named]
    layers.append(layer_of(named_rows, "line", lines, x=x, y=y, color=color, shape=shape))
    return layers


def _events(course: CourseModel, x: Spec) -> list[Spec]:
    order = ["unload", "split", "place", "left out"]
    rows = [
        {"at": _stamp(point), "event": event, "number": str(number)}
        for point in course.points
        for event, number in _happened(point)
        if number
    ]
    axis = {"grid": True, "ticks": False, "labelPadding": 6}
    y = name("event", title=None, scale={"domain": order}, axis=axis)
    shapes = {"domain": order, "range": ["triangle-down", "square", "circle", "cross"]}
    colors = {"domain": order, "range": [_SERIES[0], _SERIES[1], _SERIES[2], _SERIES[4]]}
    shape, color = (name("event", legend=None, scale=scale) for scale in (shapes, colors))
    marks = layer_of(rows, "point", {"filled": True, "size": 80, "opacity": 1}, x=x, y=y, shape=shape, color=color)
    beside = {"dx": 11, "align": "left", "color": _MUTED, "fontSize": 11}
    several = [row for row in rows if row["number"] != "1"]
    return [marks, layer_of(several, "text", beside, x=x, y=y, text=name("number"))]


def _happened(point: Point) -> list[tuple[str, int]]:
    splits, unloads, placements = (point.attempt.planned[acts] or 0 for acts in ("splits", "unloads", "placements"))
    left_out = int(not point.attempt.decided)
    return [("unload", unloads), ("split", splits), ("place", max(0, placements - unloads)), ("left out", left_out)]


def _brokers(lines: Sequence[BrokerLine], quantity: str, mean: float, limit: float | None, width: int) -> Spec:
    names = labels([line.broker for line in lines])
    rows = [
        {
            "broker": names[line.broker],
            "before": getattr(line, f"{quantity}_before"),
            "after": getattr(line, f"{quantity}_after"),
        }
        for line in lines
    ]
    top = max(mean, limit or 0.0, *(max(row["before"], row["after"]) for row in rows))
    # The page's font may be wider than the one that vl-convert measures with.
    room = 8 + round(7.6 * max(len(str(row["broker"])) for row in rows))
    axis = {"grid": False, "ticks": False, "labelLimit": room, "minExtent": room}
    y = name("broker", title=None, sort=[row["broker"] for row in rows], axis=axis)
    title = "weighted usage" if quantity == "usage" else "share of traffic"
    scale = {"domain": [0, max(top * 1.08, 0.01)]}
    x = amount("before", title=title, axis={"format": "%", "tickCount": 5, "grid": True}, scale=scale)
    dashed = {"color": _INK, "strokeDash": [5, 4], "strokeWidth": 1.2}
    open_ring = {"size": 70, "filled": False, "strokeWidth": 2, "color": _MUTED, "opacity": 1}
    dot = {"size": 90, "filled": True, "color": _SERIES[0], "opacity": 1}
    layers = [
        layer_of([{"mean": mean}], "rule", dashed, x=amount("mean")),
        layer_of(rows, "rule", {"strokeWidth": 3, "color": _REST}, x=x, x2={"field": "after"}, y=y),
        layer_of(rows, "point", open_ring, x=x, y=y),
        layer_of(rows, "point", dot, x=amount("after"), y=y),
    ]
    if limit is not None:
        line = {"color": _LIMIT, "strokeWidth": 1.6}
        layers.insert(0, layer_of([{"limit": limit}], "rule", line, x=amount("limit")))
    height = max(60, 30 * len(rows))
    return spec_of({"width": width - room - 16, "height": height, "layer": layers}, columns=1)


def labels(names: Sequence[str]) -> dict[str, str]:
    """A short label for every name, different ones for different names."""
    label_of: dict[str, str] = {}
    for name in names:
        label = wording.shortened(wording.visible(name), 24)
        taken = set(label_of.values())
        label_of[name] = label if label not in taken else f"{wording.shortened(label, 20)} ({len(label_of) + 1})"
    return label_of


def series_colors(field: str, names: Sequence[str]) -> Spec:
    """A colour of the page for each of at most `MOST_SERIES` names."""
    return name(field, title=None, scale={"domain": list(names), "range": _SERIES[: len(names)]})


def time_axis(times: Sequence[datetime], narrow: bool, *, labels: bool = True) -> Spec:
    """The axis of time, with as much of a date as the span needs."""
    span = (max(times) - min(times)).total_seconds()
    form = "%d %b %H:%M" if span > 86_400 else "%H:%M" if span > 600 else "%H:%M:%S"
    axis = {"format": form, "tickCount": 4 if narrow else 8, "grid": False, "labelOverlap": True, "labels": labels}
    return {"field": "at", "type": "temporal", "title": None, "axis": axis, "scale": {"type": "utc"}}


def _stamp(point: Point) -> str:
    return point.attempt.cycle_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def spec_of(chart: Spec, *, columns: int) -> Spec:
    """The whole of a chart, in the page's colours; `columns` of its legend."""
    axis = {
        "labelColor": _MUTED, "titleColor": _MUTED, "titleFontWeight": "normal", "titleFontSize": 12,
        "labelFontSize": 12, "domainColor": _GRID, "tickColor": _GRID, "gridColor": _GRID, "labelLimit": 150,
    }  # fmt: skip
    legend = {
        "labelColor": _INK, "labelFontSize": 12, "orient": "top", "columns": columns, "columnPadding": 36,
        "symbolSize": 70, "labelLimit": 200,
    }  # fmt: skip
    looks = {"axis": axis, "axisY": {"minExtent": 50}, "legend": legend, "view": {"stroke": None}}
    return {**chart, "config": {"background": "transparent", "aria": False, "padding": 4, **looks}}
