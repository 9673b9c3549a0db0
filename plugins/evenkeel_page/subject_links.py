"""Addresses of the pages of bundles and brokers, and names on other pages that link to them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from markupsafe import Markup

from evenkeel.explain import wording
from evenkeel.report.page import name_html, prose_html
from evenkeel_page.lake_choice import lake_words

_BUNDLE = re.compile(r".+/0x[0-9a-f]{8}_0x[0-9a-f]{8}")
_LONGEST = 90


def is_bundle_name(name: str) -> bool:
    """Return True if a name is written as a bundle's is."""
    return _BUNDLE.fullmatch(name) is not None


def subject_link(page: str, cluster: str, name: str, at: datetime | None = None, **more: str) -> str:
    """The address of the page of a `bundle` or a `broker`, of the cycle in force at a moment; of the newest without."""
    words = {"cluster": cluster, "name": name, "at": "" if at is None else stamp(at), **more}
    return page_link(page, {**words, **lake_words(cluster)})


def page_link(page: str, words: Mapping[str, str | None]) -> str:
    """The address of a page with words after it, empty ones left out."""
    given = {word: value for word, value in words.items() if value}
    return f"{page}?{urlencode(given)}" if given else page


def stamp(at: datetime) -> str:
    """Return a moment for an address: to the microsecond if it has a part of a second."""
    return at.astimezone(UTC).isoformat(timespec="microseconds" if at.microsecond else "seconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class LinkedCycle:
    """The cycle of a page: its bundles, and the recorded brokers, are links."""

    cluster: str
    at: datetime
    brokers: Collection[str]


_about: ContextVar[LinkedCycle | None] = ContextVar("linked_cycle", default=None)


@contextmanager
def linking(cycle: LinkedCycle) -> Iterator[None]:
    """While a page is made inside, `linked_name` writes names as links."""
    token = _about.set(cycle)
    try:
        yield
    finally:
        _about.reset(token)


def linked_name(text: object, most: int = _LONGEST) -> Markup:
    """Return a name as `name_html` writes it, as a link if it is a bundle or a broker of the page's cycle."""
    cycle, name = _about.get(), str(text)
    if cycle is None:
        return name_html(text, most)
    if name in cycle.brokers:
        return anchor(subject_link("broker", cycle.cluster, name, cycle.at), name, most)
    if is_bundle_name(name):
        return anchor(subject_link("bundle", cycle.cluster, name, cycle.at), name, most)
    return name_html(text, most)


def anchor(address: str, name: str, most: int = _LONGEST) -> Markup:
    """Return a link with a name in it, shortened if it is long."""
    shown = wording.shortened(wording.visible(name), most)
    return Markup('<a href="{}"><bdi class="n">{}</bdi></a>').format(address, shown)


def linked_prose(text: object, cluster: str, most: int) -> Markup:
    """A sentence as `prose_html` writes it, its bundles as links to their newest state."""
    return prose_html(text, most, lambda name: anchor(subject_link("bundle", cluster, name), name))
