"""Which snapshots a landing zone holds: by manifests, newest first, without listing more than the days in question.

The date folders are walked from the top (years, months, days: one request each), and of a day only manifests and the
names of data folders are listed, a thousand to a request; a year of snapshots costs no more than its last day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evenkeel.sources.s3.place import (
    DELIMITER,
    Place,
    as_number,
    lends_configuration,
    manifest_number,
)

_LEVELS = (re.compile(r"\d{4}/"), re.compile(r"\d{2}/"), re.compile(r"\d{2}/"))


@dataclass(frozen=True, slots=True)
class Entry:
    """A manifest by its name: the snapshot's moment in milliseconds since 1970.

    `may_lend`: data of that moment claims to hold the brokers' configuration. It is a hint: the manifest decides.
    """

    number: int
    key: str
    may_lend: bool


def newest_first(
    client: Any, place: Place, cluster: str, *, until: datetime | None = None, since: datetime | None = None
) -> Iterator[Entry]:
    """The manifests of a cluster from `until` (included; None: from the newest) back to `since` (included)."""
    last = as_number(until) if until else None
    first = as_number(since) if since else None
    for day in days(client, place, cluster, until=until, since=since):
        yield from reversed(_of_day(client, place, day, first, last))


def first_since(client: Any, place: Place, cluster: str, moment: datetime) -> Entry | None:
    """The earliest manifest at or after a moment, None if there is none."""
    for day in days(client, place, cluster, since=moment, backwards=False):
        for entry in _of_day(client, place, day, as_number(moment), None):
            return entry
    return None


def days(
    client: Any,
    place: Place,
    cluster: str,
    *,
    until: datetime | None = None,
    since: datetime | None = None,
    backwards: bool = True,
) -> Iterator[str]:
    """The prefixes of days that hold anything, between the days of two moments, newest first or oldest first."""
    root = place.of_cluster(cluster)
    highest = f"{until.astimezone(UTC):%Y/%m/%d}/" if until else "9999/99/99/"
    lowest = f"{since.astimezone(UTC):%Y/%m/%d}/" if since else "0000/00/00/"

    def below(path: str, level: int) -> Iterator[str]:
        if level == len(_LEVELS):
            yield root + path
            return
        names = [name for name in children(client, place, root + path) if _LEVELS[level].fullmatch(name)]
        for name in sorted(names, reverse=backwards):
            deeper = path + name
            if lowest[: len(deeper)] <= deeper <= highest[: len(deeper)]:
                yield from below(deeper, level + 1)

    return below("", 0)


def children(client: Any, place: Place, prefix: str) -> list[str]:
    """The names of the folders right below a prefix, each with its slash."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=prefix, Delimiter=DELIMITER)
    return [found["Prefix"].removeprefix(prefix) for page in pages for found in page.get("CommonPrefixes", ())]


def objects_below(client: Any, place: Place, prefix: str) -> dict[str, int]:
    """Key → size in bytes of every object whose key begins with the prefix."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=prefix)
    return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", ())}


def _of_day(client: Any, place: Place, day: str, first: int | None, last: int | None) -> list[Entry]:
    """The manifests of a day between two numbers, oldest first; pages behind the last one are not asked for."""
    found: dict[int, str] = {}
    lenders: set[int] = set()
    for page in _pages(client, place, day, first):
        highest = 0
        for folder in page.get("CommonPrefixes", ()):
            number = lends_configuration(folder["Prefix"].removeprefix(day))
            if number is not None:
                lenders.add(number)
        for file in page.get("Contents", ()):
            number = manifest_number(file["Key"].removeprefix(day))
            if number is not None:
                found[number] = file["Key"]
                highest = max(highest, number)
        if last is not None and highest > last:
            break
    return [
        Entry(number, found[number], may_lend=number in lenders)
        for number in sorted(found)
        if (first is None or number >= first) and (last is None or number <= last)
    ]


def _pages(client: Any, place: Place, day: str, first: int | None) -> Iterable[dict[str, Any]]:
    bounds = {"StartAfter": f"{day}{first - 1:013d}~"} if first is not None else {}
    pages: Iterable[dict[str, Any]] = client.get_paginator("list_objects_v2").paginate(
        Bucket=place.bucket, Prefix=day, Delimiter=DELIMITER, **bounds
    )
    return pages
