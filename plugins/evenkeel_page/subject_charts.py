"""The course of a bundle or a broker as a picture in SVG: load above, owners in the middle, marks of events below.

It is drawn in this module, and not by Vega-Lite as the report's charts are. Checking and laying out one of those takes
several times as long as reading the whole course. Colours and lines are classes of `static/subject.css`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from statistics import median

from markupsafe import Markup

from evenkeel.explain import wording
from evenkeel.model.amounts import plural, throughput_unit
from evenkeel.report.charts import MOST_SERIES, Picture
from evenkeel_page.subject_course import KINDS_OF, LoadPoint, SubjectCourse

WIDE, NARROW = 1_190, 358
_LEFT, _RIGHT, _SPACE, _ROW, _FOOT = 64, 14, 18, 17, 24
_FEW = 90
"""With so many points each has a dot."""
_GAP = 3
"""A line breaks where so many usual distances between points have none."""
_STEPS = [timedelta(minutes=n) for n in (1, 2, 5, 10, 15, 30)]
_STEPS += [timedelta(hours=n) for n in (1, 2, 3, 6, 12)] + [timedelta(days=n) for n in (1, 2, 3, 7)]
_MARKS = {
    "move": "M-4,-5L6,0L-4,5Z", "came": "M-5,-4L5,-4L0,5Z", "left": "M-5,4L5,4L0,-5Z",
    "owner": "M-4.5,0A4.5,4.5 0 1 0 4.5,0A4.5,4.5 0 1 0 -4.5,0Z", "bounce": "M0,-6L6,0L0,6L-6,0Z",
    "split": "M-4.5,-4.5H4.5V4.5H-4.5Z", "held": "M-5,-2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z", "harm": "M-6,5L6,5L0,-6Z",
    "settings": "M-1.5,-6H1.5V6H-1.5Z",
}  # fmt: skip
"""Kind of event -> the outline of its mark around its middle."""
Value = Callable[[LoadPoint], float | None]


@dataclass(frozen=True, slots=True)
class _Panel:
    """Lines over one axis. `lines`: the value of a point, and the class that the line is drawn in."""

    title: str
    height: int
    lines: Sequence[tuple[Value, str]]
    form: Callable[[float], str]


def course_picture(course: SubjectCourse, shown: datetime | None) -> Picture | None:
    """Return the picture, with a line at the shown moment; None if there is nothing to draw."""
    if not course.there and not course.events:
        return None
    content = "Usage, messages and bundles" if course.subject.kind == "broker" else "Messages, bytes and owners"
    label = (
        f"{content} of {wording.shortened(wording.visible(course.subject.name), 80)} in "
        f"{plural(len(course.points), 'cycle')} from {wording.time(course.first)} to {wording.time(course.last)}, and "
        "what happened. The tables below have the same."
    )
    return Picture(_Drawing(course, shown, WIDE).svg(label), _Drawing(course, shown, NARROW).svg(label), label)


def owner_classes(course: SubjectCourse) -> dict[str, str]:
    """Return a bundle's owners, longest ownership first -> their colour's class; the last is for all others."""
    owners = Counter(str(point.row["owner"]) for point in course.there if point.row and point.row.get("owner"))
    return {owner: f"o{min(n, MOST_SERIES) + 1}" for n, (owner, _) in enumerate(owners.most_common())}


class _Drawing:
    """A picture of one width; `y` is how far down it is drawn."""

    def __init__(self, course: SubjectCourse, shown: datetime | None, width: int) -> None:
        self.course, self.width = course, width
        self.narrow = width == NARROW
        self.shown = shown if shown is not None and course.first <= shown <= course.last else None
        self.long = max((course.last - course.first).total_seconds(), 1.0)
        gaps = [(later.at - earlier.at).total_seconds() for earlier, later in pairwise(course.points)]
        self.gap = _GAP * median(gaps) if gaps else math.inf
        self.y = 8
        self.parts: list[Markup] = []

    def svg(self, label: str) -> str:
        """The picture as an element."""
        for panel in (
            _broker_panels(self.course) if self.course.subject.kind == "broker" else _bundle_panels(self.course)
        ):
            self.panel(panel)
        if self.course.subject.kind == "bundle":
            self.owners()
        self.marks()
        self.times()
        if self.shown is not None:
            x = self.x(self.shown)
            self.draw('<path class="moment" d="M{},4V{}"/>', f"{x:.1f}", self.y - _FOOT + 4)
        head = Markup('<svg class="course" role="img" aria-label="{}" viewBox="0 0 {} {}" width="{}" height="{}">')
        return str(
            head.format(label, self.width, self.y, self.width, self.y) + Markup("").join(self.parts) + Markup("</svg>")
        )

    def draw(self, form: str, *values: object) -> None:
        """Add an element."""
        self.parts.append(Markup(form).format(*values))

    def x(self, at: datetime) -> float:
        """Return the horizontal position of a moment."""
        part = (at - self.course.first).total_seconds() / self.long
        return _LEFT + min(max(part, 0.0), 1.0) * (self.width - _LEFT - _RIGHT)

    def panel(self, panel: _Panel) -> None:
        """Lines over their axis."""
        known = [
            amount for line, _ in panel.lines for point in self.course.points if (amount := line(point)) is not None
        ]
        if not known:
            return
        height = panel.height - 40 * (self.narrow and panel.height > 100)
        ticks = _ticks(max(filter(_is, known), default=0.0), 4 if height > 100 else 2)
        top, end = self.y, self.width - _RIGHT
        self.draw('<text class="axis-title" x="0" y="{}">{}</text>', top + 4, panel.title)
        self.y += 14
        for tick in ticks:
            y = self.y + height * (1 - tick / ticks[-1])
            self.draw('<path class="grid" d="M{},{}H{}"/>', _LEFT, f"{y:.1f}", end)
            self.draw('<text class="tick" x="{}" y="{}">{}</text>', _LEFT - 8, f"{y + 4:.1f}", panel.form(tick))
        for line, kind in panel.lines:
            self.line(line, kind, height, ticks[-1])
        self.y += height + _SPACE

    def line(self, value: Value, kind: str, height: float, top: float) -> None:
        """Draw a line that breaks at unknown values, with dots if there are few points."""
        for stretch in self.stretches(value):
            places = [(self.x(at), self.y + height * (1 - amount / top)) for at, amount in stretch]
            way = "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
            if len(places) > 1:
                self.draw('<path class="line {}" d="M{}"/>', kind, way)
            if len(places) == 1 or (len(self.course.points) <= _FEW and "thin" not in kind):
                dots = "".join(f"M{x - 2.2:.1f},{y:.1f}a2.2,2.2 0 1 0 4.4,0a2.2,2.2 0 1 0 -4.4,0" for x, y in places)
                self.draw('<path class="dots {}" d="{}"/>', kind, dots)

    def stretches(self, value: Value) -> Iterable[list[tuple[datetime, float]]]:
        """Return runs of known values, for which a line is drawn."""
        stretch: list[tuple[datetime, float]] = []
        for point in self.course.points:
            amount = value(point)
            is_far = bool(stretch) and (point.at - stretch[-1][0]).total_seconds() > self.gap
            if stretch and (not _is(amount) or is_far):
                yield stretch
                stretch = []
            if amount is not None and _is(amount):
                stretch.append((point.at, amount))
        if stretch:
            yield stretch

    def owners(self) -> None:
        """Draw a strip of the bundle's owners, each up to the next or a gap of the record; None with commands alone."""
        if not self.course.there:
            return
        classes = owner_classes(self.course)
        self.draw('<text class="axis-title" x="0" y="{}">owner</text>', self.y + 11)
        groups = [
            (owner, list(points))
            for owner, points in groupby(self.course.there, key=lambda point: (point.row or {}).get("owner"))
        ]
        ends = [points[0].at for _, points in groups[1:]] + [self.course.last]
        for (owner, points), end in zip(groups, ends, strict=True):
            until = end if self.gap == math.inf else min(end, points[-1].at + timedelta(seconds=self.gap / _GAP))
            x, right = self.x(points[0].at), self.x(until)
            self.draw(
                '<rect class="{}" x="{}" y="{}" width="{}" height="14"><title>{}</title></rect>',
                classes.get(str(owner), "o0"), f"{x:.1f}", self.y, f"{max(right - x, 1.5):.1f}",
                wording.visible(owner or "unknown"),
            )  # fmt: skip
        self.y += 14 + _SPACE

    def marks(self) -> None:
        """A row for each kind of event."""
        kinds = KINDS_OF[self.course.subject.kind]
        for n, kind in enumerate(kinds):
            y = self.y + n * _ROW + _ROW / 2
            self.draw('<path class="grid" d="M{},{}H{}"/>', _LEFT, y, self.width - _RIGHT)
            self.draw('<text class="tick" x="{}" y="{}">{}</text>', _LEFT - 8, y + 4, kind)
            for event in self.course.events:
                if event.kind == kind and self.course.first <= event.at <= self.course.last:
                    self.draw(
                        '<path class="mark m-{}{}" transform="translate({},{})" d="{}"><title>{}</title></path>', kind,
                        " dry" if event.is_dry else "", f"{self.x(event.at):.1f}", y, _MARKS[kind],
                        f"{wording.time(event.at)}: {wording.visible(event.words)}",
                    )  # fmt: skip
        self.y += len(kinds) * _ROW + 6

    def times(self) -> None:
        """The axis of time, as much of a date as the span needs."""
        most = 4 if self.narrow else 10
        step = next((step for step in _STEPS if self.long / step.total_seconds() <= most), _STEPS[-1])
        seconds = int(step.total_seconds())
        first = -(-int(self.course.first.timestamp()) // seconds) * seconds
        last = int(self.course.last.timestamp())
        for at in range(first, last + 1, seconds):
            moment = datetime.fromtimestamp(at, UTC)
            words = moment.strftime("%d %b" if step >= timedelta(days=1) else "%H:%M")
            x = self.x(moment)
            if _LEFT + 14 < x < self.width - 20 or _LEFT <= x <= self.width - 20:
                self.draw('<path class="grid" d="M{},{}v5"/>', f"{x:.1f}", self.y - 4)
                self.draw('<text class="time" x="{}" y="{}">{}</text>', f"{x:.1f}", self.y + 14, words)
        self.y += _FOOT


def _bundle_panels(course: SubjectCourse) -> list[_Panel]:
    size, unit = throughput_unit(max((point.throughput or 0.0 for point in course.there), default=0.0))

    def amount(point: LoadPoint) -> float | None:
        return None if point.throughput is None else point.throughput / size

    rates = _Panel("msg/s", 180, [(lambda point: point.rate, "s1")], _plain)
    return [rates, _Panel(unit, 80, [(amount, "s3")], _plain)]


def _broker_panels(course: SubjectCourse) -> list[_Panel]:
    usage = [
        (_figure("limit"), "limit thin"),
        (_figure("compared"), "compared thin"),
        (_figure("weighted_usage"), "s1"),
    ]
    return [
        _Panel("usage", 180, usage, lambda value: f"{value * 100:g} %"),
        _Panel("msg/s", 70, [(lambda point: point.rate, "s3")], _plain),
        _Panel("bundles", 50, [(_figure("bundles"), "s4")], _plain),
    ]


def _figure(name: str) -> Value:
    return lambda point: None if point.row is None else point.row.get(name)


def _is(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _ticks(highest: float, most: int) -> list[float]:
    """Round numbers from 0 to one that is not below the highest."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(part * size for part in (1, 2, 2.5, 5, 10) if part * size >= rough * (1 - 1e-9))
    return [n * step for n in range(math.ceil(highest / step - 1e-9) + 1)]


def _plain(value: float) -> str:
    """A number of an axis: `12k`, `1.5M`, `0.2`."""
    for size, word in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{word}"
    return f"{value:g}"
