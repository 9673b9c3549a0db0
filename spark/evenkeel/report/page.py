"""The report as HTML: one file with its style in it, no script, nothing loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from evenkeel.explain import wording
from evenkeel.lake.record import Attempt
from evenkeel.model import amounts
from evenkeel.report.chapters import CycleReport, foremost
from evenkeel.report.charts import Picture, broker_picture, course_picture

# Bundles, and text in backticks.
_SET_APART = re.compile(r"\S+/0x[0-9a-f]{8}_0x[0-9a-f]{8}|`[^`]+`")
_LONG = 90


def render(model: CycleReport) -> str:
    """The report as HTML. Every name and text of the model is treated as data: escaped, and shortened where long."""
    return render_template("report.html.j2", model=model)


def render_template(name: str, **context: Any) -> str:
    """A page of the package's templates as one file, with the shared style in it."""
    style = Markup(stylesheet())
    return (
        environment()
        .get_template(name)
        .render(layout="layout.html.j2", style=style, policy=content_policy(), **context)
    )


@lru_cache(maxsize=1)
def stylesheet() -> str:
    """The text of the style element that all pages share."""
    return (files("evenkeel.report") / "templates" / "page.css").read_text(encoding="utf-8").strip()


def content_policy() -> str:
    """Return a content security policy under which the page works: its own style, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(stylesheet().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates' environment: escaping on, a missing value is an error."""
    jinja = Environment(
        loader=PackageLoader("evenkeel.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {
        "percent": amounts.percent,
        "ratio": amounts.ratio,
        "count": amounts.count,
        "throughput": amounts.throughput,
        "rate": amounts.rate,
        "quantity": amounts.quantity,
        "time": wording.time,
        "visible": wording.visible,
        "shortened": wording.shortened,
        "name": name_html,
        "prose": prose_html,
        "foremost": foremost,
        "pairs": lambda values: list(enumerate(values)),
    }
    jinja.globals |= {
        "plural": amounts.plural,
        "course_picture": course_picture,
        "broker_picture": broker_picture,
        "figure": figure_html,
    }
    return jinja


def name_html(text: object, most: int = _LONG) -> Markup:
    """Return a name of a cluster as HTML, in a font with distinct letters; a long one is folded to both ends."""
    seen = wording.visible(text)
    if len(seen) <= most:
        return Markup('<bdi class="n">{}</bdi>').format(seen)
    return _folded(Markup('<bdi class="n">{}</bdi>').format(wording.shortened(seen, most)), seen)


def prose_html(text: object, most: int = 420, bundle_html: Callable[[str], Markup] | None = None) -> Markup:
    """A sentence with names in it, bundles set apart; where a name makes it long, folded to its two ends.

    `bundle_html` writes the bundles of a sentence that is not folded.
    """
    seen = wording.visible(text)
    if len(seen) <= most:
        return _prose(seen, bundle_html or _apart)
    return _folded(_prose(wording.shortened(seen, most // 2), _apart), seen)


def _prose(text: str, bundle_html: Callable[[str], Markup]) -> Markup:
    marked, last = Markup(), 0
    for match in _SET_APART.finditer(text):
        words = match.group()
        is_quoted = words.startswith("`")
        marked += escape(text[last : match.start()]) + (_apart(words.strip("`")) if is_quoted else bundle_html(words))
        last = match.end()
    return marked + escape(text[last:])


def _apart(words: str) -> Markup:
    return Markup('<bdi class="n">{}</bdi>').format(words)


def _folded(short: Markup, full: str) -> Markup:
    return Markup(
        '<details class="long"><summary>{} <span class="more">in full ({} characters)</span></summary>'
        '<bdi class="n">{}</bdi></details>'
    ).format(short, f"{len(full):,}", full)


def figure_html(picture: Picture | None) -> Markup:
    """The chart in both widths; the style sheet shows one."""
    if picture is None:
        return Markup()
    return Markup('<div class="wide">{}</div><div class="narrow">{}</div>').format(
        Markup(picture.wide), Markup(picture.narrow)
    )


MOST_LISTED = 500
# Columns of a manifest that a line shows, and those that decide which attempt counts.
LISTED = (
    *("cycle_at", "sequence", "row_kind", "attempt_id", "attempt", "kind", "mode", "plan_id"),
    *("status", "reason", "splits", "unloads", "refusals"),
)


def report_link(cluster: str, at: datetime) -> str:
    """Return the address of a cycle's report, relative to the list."""
    return "cycle?" + urlencode({"cluster": cluster, "at": at.isoformat()})


def render_listing(
    cycles: Sequence[Attempt],
    *,
    lake: str,
    title: str = "Cycles",
    has_older: bool = False,
    continued: bool = False,
    cluster: str | None = None,
    renderer: Callable[..., str] = render_template,
    more: Mapping[str, str] | None = None,
) -> str:
    """Return the page with the list of cycles, the newest first; clusters of the same moment by name.

    `has_older`: earlier cycles are on record, and the page links to them; `continued`: such a link led to this page.
    `cluster`: the only requested one. `renderer`: makes the page of a template's name and context. `more`: the words in
    addresses of further pages beside the cluster.
    """
    lines = sorted(cycles, key=lambda attempt: attempt.cluster)
    lines.sort(key=lambda attempt: attempt.cycle_at, reverse=True)
    only = {**(more or {}), **({} if cluster is None else {"cluster": cluster})}
    return renderer(
        "listing.html.j2",
        title=title,
        lines=lines,
        link=report_link,
        older_link="cycles?" + urlencode({**only, "before": lines[-1].cycle_at.isoformat()}) if has_older else "",
        newest_link="cycles" + ("?" + urlencode(only) if only else ""),
        continued=continued,
        clusters=sorted({attempt.cluster for attempt in cycles}),
        lake=lake,
    )
