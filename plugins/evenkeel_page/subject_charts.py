"""The course of a bundle or a broker as a picture: load above, owners between, and marks of what happened below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from evenkeel.model.amounts import plural, throughput_unit
from evenkeel.record import wording
from evenkeel.record.report import charts
from evenkeel_page.subject_course import KINDS_OF, LoadPoint, SubjectCourse

if TYPE_CHECKING:
    import altair as alt

_SHAPES = {
    "move": "triangle-right", "came": "triangle-down", "left": "triangle-up", "owner": "circle", "bounce": "diamond",
    "split": "square", "held": "cross", "harm": "triangle-up",
}  # fmt: skip
_COLOURS = {
    "move": 0, "came": 0, "left": 1, "owner": 2, "bounce": 3, "split": 1, "held": 5, "harm": 4,
}  # fmt: skip
_NO_OWNER = "nobody known"
_GAP = 3
"""A line breaks where so many usual distances between points have none."""
Values = list[dict[str, Any]]


def course_picture(course: SubjectCourse, shown: datetime | None) -> charts.Picture | None:
    """The picture, with a line at the moment that is shown; None where no point has the subject and nothing happened."""
    if not course.there and not course.events:
        return None
    what = "Usage" if course.subject.kind == "broker" else "Messages and bytes"
    label = (
        f"{what} of {wording.shortened(wording.visible(course.subject.name), 80)} in "
        f"{plural(len(course.points), 'cycle')} from {wording.time(course.first)} to {wording.time(course.last)}, and "
        "what happened to it. The table below has the numbers."
    )
    return charts.picture(lambda width: _drawn(course, shown, width), label)


def _drawn(course: SubjectCourse, shown: datetime | None, width: int) -> alt.TopLevelMixin:
    import altair as alt

    narrow, plot = width == charts.NARROW, width - 84
    span = [course.first, course.last]
    scale = alt.Scale(type="utc", domain=[_milliseconds(at) for at in span])
    silent = charts.time_axis(span, narrow, labels=False).scale(scale)
    x = charts.time_axis(span, narrow).scale(scale)
    above = _broker_parts(course, silent) if course.subject.kind == "broker" else _bundle_parts(course, silent)
    rule = [] if shown is None or not course.first <= shown <= course.last else [_rule(shown, silent)]
    parts = [
        alt.layer(*layers, *rule).properties(width=plot, height=height - 40 * (narrow and height > 100))
        for layers, height in above
    ]
    order = KINDS_OF[course.subject.kind]
    parts.append(alt.layer(*_marks(course, order, x), *rule).properties(width=plot, height=18 * len(order)))
    joined = alt.vconcat(*parts, spacing=14).resolve_scale(
        x="shared", y="independent", color="independent", shape="independent"
    )
    return charts.configured(joined, columns=2 if narrow else 4)


def _bundle_parts(course: SubjectCourse, x: alt.X) -> list[tuple[list[Any], int]]:
    size, unit = throughput_unit(max((point.throughput or 0.0 for point in course.there), default=0.0))
    rates = _line(course, lambda point: point.rate, x, "msg/s", charts.SERIES[0])
    bytes_ = _line(
        course, lambda point: None if point.throughput is None else point.throughput / size, x, unit, charts.SERIES[2]
    )
    return [(rates, 190), (bytes_, 90), ([_owners(course, x)], 16)]


def _broker_parts(course: SubjectCourse, x: alt.X) -> list[tuple[list[Any], int]]:
    usage = _line(course, _figure("weighted_usage"), x, "usage", charts.SERIES[0], form="%")
    if any(_figure("compared")(point) is not None for point in course.there):
        usage += _line(course, _figure("compared"), x, "usage", charts.INK, form="%", dash=(1, 3), dots=False)
        usage += _line(course, _figure("limit"), x, "usage", charts.SERIES[4], form="%", dash=(6, 4), dots=False)
    rates = _line(course, lambda point: point.rate, x, "msg/s", charts.SERIES[2])
    bundles = _line(course, _figure("bundles"), x, "bundles", charts.SERIES[3], form="~s")
    return [(usage, 190), (rates, 80), (bundles, 60)]


def _figure(name: str) -> Callable[[LoadPoint], float | None]:
    return lambda point: None if point.row is None else point.row.get(name)


def _line(
    course: SubjectCourse, value: Callable[[LoadPoint], float | None], x: alt.X, title: str, colour: str, *,
    form: str = "~s", dash: Sequence[int] = (), dots: bool = True,
) -> list[Any]:  # fmt: skip
    """A line that breaks where the subject is not on record, with dots where there are few points."""
    import altair as alt

    rows = _values(course, value)
    y = alt.Y("value:Q", title=title, axis=alt.Axis(format=form, tickCount=4), scale=alt.Scale(zero=True, nice=True))
    chart = alt.Chart(alt.Data(values=rows))
    few = dots and len(rows) <= 90
    mark = {"strokeDash": list(dash)} if dash else {}
    line = chart.mark_line(color=colour, strokeWidth=1.8, **mark).encode(x=x, y=y, detail="stretch:N")
    alone = Counter(row["stretch"] for row in rows)
    single = [row for row in rows if few or alone[row["stretch"]] == 1]
    points = alt.Chart(alt.Data(values=single)).mark_point(color=colour, filled=True, size=18, opacity=1)
    return [line, points.encode(x=x, y=y)] if single and dots else [line]


def _values(course: SubjectCourse, value: Callable[[LoadPoint], float | None]) -> Values:
    """The known values; `stretch` numbers those that a line joins."""
    gap, rows, stretch = _usual_gap(course.points), list[dict[str, Any]](), 0
    last: datetime | None = None
    is_broken = False
    for point in course.points:
        known = value(point)
        if known is None:
            is_broken = True
            continue
        if is_broken or (last is not None and gap and (point.at - last).total_seconds() > _GAP * gap):
            stretch += 1
        rows.append({"at": _milliseconds(point.at), "value": known, "stretch": stretch})
        last, is_broken = point.at, False
    return rows


def _usual_gap(points: Sequence[LoadPoint]) -> float:
    from statistics import median

    from evenkeel.record.status.attention import distances

    found = distances([point.at for point in points])
    return median(found) if found else 0.0


def _owners(course: SubjectCourse, x: alt.X) -> alt.Chart:
    """A strip of who owned the bundle: as long as a point is the newest, its owner holds."""
    import altair as alt

    gap = _usual_gap(course.points)
    stretches = []
    for owner, own in groupby(course.there, key=lambda point: str(point.row["owner"] or "") if point.row else ""):
        points = list(own)
        stretches.append((owner, points[0].at, points[-1].at))
    ends = [begin for _, begin, _ in stretches[1:]] + [course.last]
    names = [owner for owner, _ in Counter(owner for owner, *_ in stretches if owner).most_common(charts.MOST_SERIES)]
    labels = charts.labels(names)
    rows = [
        {
            "at": _milliseconds(begin),
            "end": min(_milliseconds(end), _milliseconds(seen) + round(_GAP * gap * 1_000)),
            "owner": labels.get(owner, "another" if owner else _NO_OWNER),
        }
        for (owner, begin, seen), end in zip(stretches, ends, strict=True)
    ]
    domain = [*labels.values()]
    colours = charts.SERIES[: len(domain)]
    for word, colour in (("another", charts.REST), (_NO_OWNER, charts.GRID)):
        if any(row["owner"] == word for row in rows):
            domain, colours = [*domain, word], [*colours, colour]
    colour = alt.Color("owner:N", scale=alt.Scale(domain=domain, range=colours), title=None)
    return alt.Chart(alt.Data(values=rows)).mark_rect(height=14).encode(x=x, x2="end:T", color=colour)


def _marks(course: SubjectCourse, order: Sequence[str], x: alt.X) -> list[Any]:
    import altair as alt

    rows = [
        {"at": _milliseconds(one.at), "kind": one.kind, "is_dry": one.is_dry}
        for one in course.events
        if course.first <= one.at <= course.last
    ]
    axis = alt.Axis(grid=True, ticks=False, labelPadding=6)
    y = alt.Y("kind:N", title=None, scale=alt.Scale(domain=list(order)), axis=axis)
    shape = alt.Shape(
        "kind:N", legend=None, scale=alt.Scale(domain=list(order), range=[_SHAPES[kind] for kind in order])
    )
    colours = [charts.SERIES[_COLOURS[kind]] for kind in order]
    colour = alt.Color("kind:N", legend=None, scale=alt.Scale(domain=list(order), range=colours))
    layers = []
    for filled in (True, False):
        own = [row for row in rows if row["is_dry"] != filled]
        chart = alt.Chart(alt.Data(values=own if own or not filled else [{"kind": order[0]}]))
        if own or filled:
            layers.append(
                chart.mark_point(filled=filled, size=70, opacity=1).encode(x=x, y=y, shape=shape, color=colour)
            )
    return layers


def _rule(at: datetime, x: alt.X) -> Any:
    import altair as alt

    rows = alt.Data(values=[{"at": _milliseconds(at)}])
    return alt.Chart(rows).mark_rule(color=charts.MUTED, strokeDash=[3, 3], strokeWidth=1.2).encode(x=x)


def _milliseconds(at: datetime) -> int:
    return round(at.astimezone(UTC).timestamp() * 1_000)
