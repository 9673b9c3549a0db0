"""Pages in the desk's layout: the templates, the way to a page through the ones above it, and pages without content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, FileSystemLoader

from evenkeel.explain.wording import age, shortened, visible
from evenkeel.report.page import environment as report_environment
from evenkeel_page import look
from evenkeel_page.lake_choice import lake_links, shown_name
from evenkeel_page.subject_links import linked_name, linked_prose

_NAME = 60


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The report's templates and ours: one look, one way to write names and figures."""
    ours = report_environment()
    loader = ChoiceLoader([FileSystemLoader(look.TEMPLATES), *([ours.loader] if ours.loader else [])])
    jinja = ours.overlay(loader=loader)
    jinja.filters = {**jinja.filters, "age": age, "name": linked_name, "linked_prose": linked_prose}
    return jinja


def renderer(
    here: str = "", crumbs: Sequence[tuple[str, str]] = (), up: str = "", over: str | None = None
) -> Callable[..., str]:
    """Return the function that makes a page of a template's name and context, inside the desk's layout.

    `up` as in `look.layout_context`; `over`: the page on which another of several lakes is chosen, if that is not
    `here`.
    """

    def render(name: str, **context: Any) -> str:
        layout = {
            **look.layout_context(here, crumbs, up),
            "lakes": lake_links(here if over is None else over, up),
            "lake_name": shown_name(),
        }
        return environment().get_template(name).render(**layout, **context)

    return render


def notice(title: str, sentence: str, advice: Sequence[str] = (), up: str = "", over: str = "") -> str:
    """Return a page with a sentence on why it is empty, and what to do; `up` and `over` as in `renderer`."""
    render = renderer(up=up, over=over)
    return render("notice.html.j2", title=title, text=look.sentence(sentence), advice=tuple(advice))


def short(name: str) -> str:
    """Return a name for the way to a page."""
    return shortened(visible(name), _NAME)


def cycles_of(cluster: str) -> str:
    """Return the address of a cluster's cycles."""
    return "cycles?" + urlencode({"cluster": cluster})


def above(cluster: str, up: str = "") -> list[tuple[str, str]]:
    """Return the pages above those of a cluster's cycles; `up` as in `renderer`."""
    return [("Clusters", up or "./"), (short(cluster), up + cycles_of(cluster))]
