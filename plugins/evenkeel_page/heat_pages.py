"""The heat map as the reader makes it: the page, the picture that its script draws, and why a cell is as it is.

Without a script the page still has its form and the table of the hottest cells, each with a link to its why.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from evenkeel.airflow.dag_names import HEAT_DAG
from evenkeel.errors import BadInput, EvenkeelError, HeatNotBuilt, NoLake, NoSuchCycle
from evenkeel.explain import wording
from evenkeel.explain.rendering import alternative_line, rule_line
from evenkeel.explain.settings_in_force import settings_changes
from evenkeel.heat import HeatPicture
from evenkeel.lake.record import Record
from evenkeel.report.page import report_link
from evenkeel.times import utc_seconds
from evenkeel_page import look
from evenkeel_page.heat_request import RANGES, HeatRequest, MadePicture, clusters_on_record, heat_request, made_picture
from evenkeel_page.heat_why import CellAsked, CellWhy, why
from evenkeel_page.heat_words import METRIC_WORDS, TopCell, left_out_words, top_cells
from evenkeel_page.lake_choice import dag_shown, first_steps, lake_words, shown_name
from evenkeel_page.reader import JSON, Answer
from evenkeel_page.rendering import above, renderer
from evenkeel_page.subject_links import subject_link

_MOST_TOLD = 3
"""So many of the newest changes of settings are told in words above the map; its time axis marks all."""


def heat_page(lake: str, cluster: str | None = None, **words: str | None) -> Answer:
    """Return the page: the form, the place of the map, and the hottest cells.

    An error that keeps the map from being drawn is shown on it, with the action to take.
    """
    record = Record(lake)
    try:
        clusters, chosen = clusters_on_record(record, cluster)
    except NoSuchCycle as error:
        if cluster and record.clusters():
            raise
        raise NoLake(str(error)) from None
    problem, status, asked, picture = "", 200, None, None
    try:
        asked = heat_request(record, chosen, **words)
        picture = made_picture(asked)
    except BadInput as error:
        problem, status = str(error), 200 if isinstance(error, HeatNotBuilt) else 400
    asked = asked or heat_request(record, chosen)
    shown = None if picture is None else picture.shown
    changes = [] if shown is None else _settings_changes(record, asked)
    body = renderer("heat")(
        "heat.html.j2", clusters=clusters, asked=asked, ranges=RANGES, metrics=METRIC_WORDS,
        problem=look.sentence(problem), advice=not_built() if problem and status == 200 else (),
        notes=[] if shown is None else notes(asked, shown, changes),
        cells=[] if shown is None else [(top_cell, why_link(asked, top_cell)) for top_cell in top_cells(shown)],
        is_empty=shown is not None and not shown.codes.size, state=json.dumps(asked.body()),
        earlier=_moved(asked, -1), later=_moved(asked, 1),
    )  # fmt: skip
    return Answer(status, body)


Changes = Sequence[tuple[datetime, str]]
"""Moments at which settings changed, with the changed keys in words."""


def _settings_changes(record: Record, asked: HeatRequest) -> Changes:
    return settings_changes(record, asked.cluster, asked.first, asked.to)


def notes(asked: HeatRequest, shown: HeatPicture, changes: Changes) -> list[str]:
    """Return notes on a picture: changed settings, until when it is complete, and what is left out."""
    lines = [
        f"Settings changed at {wording.time(at)}: {wording.visible(words)}." for at, words in changes[-_MOST_TOLD:]
    ]
    if len(shown.ends) and asked.to > asked.newest > _moment(int(shown.ends[-1])):
        lines.append(
            f"The map is built up to {wording.time(_moment(int(shown.ends[-1])))}; the newest cycle is that of "
            f"{wording.time(asked.newest)}. The DAG `{dag_shown(HEAT_DAG)}` brings it up every ten minutes."
        )
    if shown.marks_left_out:
        lines.append(f"Not all marks are drawn: {left_out_words(shown.marks_left_out)}. A shorter range has them.")
    return lines


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _seconds(at: datetime) -> int:
    return int(at.timestamp())


def _moved(asked: HeatRequest, ways: int) -> str:
    """The address of the range before or after, half of it overlapping."""
    step = (asked.to - asked.first) / 2 * ways
    try:
        first, to = asked.first + step, asked.to + step
    except OverflowError:
        return ""
    words = {"cluster": asked.cluster, "metric": asked.metric, "within": asked.within}
    words |= {"from": utc_seconds(first.astimezone(UTC)), "to": utc_seconds(to.astimezone(UTC))}
    return "heat?" + urlencode({name: word for name, word in (words | lake_words(asked.cluster)).items() if word})


def why_link(asked: HeatRequest, cell: TopCell) -> str:
    """The address of a cell's why."""
    row = cell.row
    words: dict[str, Any] = {"cluster": asked.cluster, "namespace": row.namespace, "lower": row.lower}
    words |= {"upper": row.upper, "from": cell.start, "to": cell.end}
    if row.last_namespace != row.namespace:
        words["last_namespace"] = row.last_namespace
    return "heat/why?" + urlencode(words | lake_words(asked.cluster))


def not_built() -> tuple[str, ...]:
    """Return the action to take for a first map."""
    return (
        f"Unpause the DAG `{dag_shown(HEAT_DAG)}` in Airflow: it builds the tables behind the map every ten minutes.",
        f"Or run `evenkeel heat --lake {shown_name() or 'LAKE'}` once, and load this page again.",
    )


def heat_picture(lake: str, cluster: str | None = None, **words: str | None) -> Answer:
    """Return JSON: `asked` and `HeatPicture.to_json`; of an error `title`, `text` and `advice`."""
    try:
        record = Record(lake)
        _, chosen = clusters_on_record(record, cluster)
        asked = heat_request(record, chosen, **words)
        picture = made_picture(asked)
    except (NoLake, NoSuchCycle) as error:
        is_missing = isinstance(error, NoLake)
        failed = _failed(404, "Nothing on record", str(error), first_steps() if is_missing else ())
        return replace(failed, missing=str(error) if is_missing else "")
    except BadInput as error:
        to_come = isinstance(error, HeatNotBuilt)
        return _failed(404 if to_come else 400, "No picture", str(error), not_built() if to_come else ())
    except EvenkeelError as error:
        return _failed(500, "The lake cannot be read", str(error))
    return Answer(200, _with_notes(asked, picture, _settings_changes(record, asked)), kind=JSON)


def _with_notes(asked: HeatRequest, picture: MadePicture, changes: Changes) -> str:
    moments = [[_seconds(at), wording.visible(words)] for at, words in changes]
    header = json.dumps({"notes": notes(asked, picture.shown, changes), "changes": moments}, ensure_ascii=False)
    return f"{header[:-1]},{picture.body.decode()[1:]}"


def _failed(status: int, title: str, text: str, advice: tuple[str, ...] = ()) -> Answer:
    return Answer(status, look.refusal(title, wording.visible(text), advice), kind=JSON)


def heat_why(
    lake: str, cluster: str, namespace: str, lower: int, upper: int, first: int, to: int,
    last_namespace: str | None = None, at: int | None = None,
) -> Answer:  # fmt: skip
    """Return the explanation of a cell; moments in seconds since 1970."""
    if not 0 <= lower < upper <= 0xFFFFFFFF:
        raise BadInput(f"the range {lower} to {upper} is not one of a bundle: 0 <= lower < upper <= {0xFFFFFFFF}")
    begin, end = (_given_moment(text) for text in (first, to))
    if end <= begin:
        raise BadInput("the column ends before it begins")
    moment = None if at is None else _given_moment(at) + timedelta(seconds=1)
    asked = CellAsked(cluster, namespace, lower, last_namespace or namespace, upper, begin, end, moment)
    cell = why(lake, asked)
    near = [
        (word, _near(asked, moment)) for word, moment in (("cycle before", cell.before), ("cycle after", cell.after))
    ]
    crumbs = [*above(cluster, "../"), ("Heat map", "../heat?" + urlencode({"cluster": cluster})), ("Why", "")]
    body = renderer("heat", crumbs, "../")(
        "heat_why.html.j2", why=cell, rule_line=rule_line, alternative_line=alternative_line,
        near=[(word, link) for word, link in near if link],
        report=report_link(cluster, cell.cycle.cycle_at),
        history="cycles?" + urlencode({"cluster": cluster, **lake_words(cluster)}),
        links=[_link(asked, bundle.namespace, bundle.lower, bundle.upper, asked.at) for bundle in cell.bundles],
        stamp=wording.time, **_pages_of(cell),
    )  # fmt: skip
    return Answer(200, body)


def _pages_of(cell: CellWhy) -> dict[str, str]:
    """Return the addresses of the only bundle's page and its owner's, empty without one."""
    cluster, at, one = cell.asked.cluster, cell.cycle.cycle_at, cell.single
    bundle = one.bundle if one is not None else cell.moment.bundle if cell.moment is not None else None
    where = cell.moment.where if cell.moment is not None else None
    owner = where.broker if where is not None else None
    return {
        "bundle_page": subject_link("bundle", cluster, bundle, at) if bundle else "",
        "owner_page": subject_link("broker", cluster, owner, at) if owner else "",
    }


def _given_moment(seconds: int) -> datetime:
    try:
        return _moment(seconds)
    except (OverflowError, ValueError, OSError):
        raise BadInput(f"{seconds} is not a moment in seconds since 1970") from None


def _near(asked: CellAsked, moment: datetime | None) -> str:
    """The address of the same range at another cycle: in the same column, or in the minute of that cycle."""
    if moment is None:
        return ""
    if not asked.first <= moment < asked.to:
        minute = moment.replace(second=0, microsecond=0)
        asked = replace(asked, first=minute, to=minute + timedelta(minutes=1))
    return _link(asked, asked.namespace, asked.lower, asked.upper, moment)


def _link(asked: CellAsked, namespace: str, lower: int, upper: int, at: datetime | None) -> str:
    words: dict[str, Any] = {"cluster": asked.cluster, "namespace": namespace, "lower": lower, "upper": upper}
    words |= {"from": _seconds(asked.first), "to": _seconds(asked.to)}
    if (namespace, lower, upper) == (asked.namespace, asked.lower, asked.upper):
        words["last_namespace"] = asked.last_namespace
    if at is not None:
        words["at"] = _seconds(at)
    return "heat/why?" + urlencode(words | lake_words(asked.cluster))
