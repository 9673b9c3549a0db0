"""The request for a heat map, and the last pictures made: the page and its script both request one."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import MAXYEAR, datetime, timedelta
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.heat import HeatPicture, Within, picture
from evenkeel.heat.scale import metric_named
from evenkeel.lake.record import Record, clusters_of
from evenkeel.model.bundles import range_of
from evenkeel.times import time_given

RANGES = {
    "1h": ("1 hour", timedelta(hours=1)), "6h": ("6 hours", timedelta(hours=6)), "24h": ("24 hours", timedelta(days=1)),
    "3d": ("3 days", timedelta(days=3)), "7d": ("7 days", timedelta(days=7)), "30d": ("30 days", timedelta(days=30)),
    "100d": ("100 days", timedelta(days=100)), "1y": ("1 year", timedelta(days=366)),
}  # fmt: skip
"""Word in an address -> words on the page, and length: ranges that end with the newest cycle."""
USUAL_RANGE, USUAL_METRIC = "24h", "message_rate"
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_BUNDLE = re.compile(r".+/0x[0-9a-fA-F]{1,8}_0x[0-9a-fA-F]{1,8}")
_KEPT_S, _MOST_KEPT = 30.0, 3


@dataclass(frozen=True)
class HeatRequest:
    """A heat map as it is asked for. `last`: the word in RANGES, "" where `first` and `to` were given; `newest`: the
    cluster's newest cycle; `within`: the part as in the address, "" for the whole cluster."""

    lake: str
    cluster: str
    metric: str
    last: str
    first: datetime
    to: datetime
    within: str
    newest: datetime

    def body(self) -> dict[str, Any]:
        """Return the request as JSON for the page's script; moments in seconds since 1970."""
        return {
            "cluster": self.cluster,
            "metric": self.metric,
            "last": self.last,
            "from": int(self.first.timestamp()),
            "to": int(self.to.timestamp()),
            "within": self.within,
            "newest_cycle": int(self.newest.timestamp()),
        }


def clusters_on_record(record: Record, cluster: str | None) -> tuple[list[str], str]:
    """All clusters, and the one that is asked for: the first where none is. NoSuchCycle for an unknown one."""
    chosen = clusters_of(record, cluster or None)
    return record.clusters(), chosen[0]


def heat_request(
    record: Record,
    cluster: str,
    *,
    metric: str | None = None,
    last: str | None = None,
    first: str | None = None,
    to: str | None = None,
    within: str | None = None,
) -> HeatRequest:
    """Return the request in an address, for a cluster on record. BadInput for unreadable values.

    Without `to` the range ends with the newest cycle; without `first` it is as long as `last`.
    """
    newest = record.newest_row_at("cycles", cluster)
    assert newest is not None, "a cluster is known by its cycles"
    named = metric_named(metric or USUAL_METRIC).name
    word, begin, end = asked_range(newest, last, first, to)
    return HeatRequest(str(record.lake), cluster, named, "" if to else word, begin, end, within or "", newest)


def asked_range(
    newest: datetime, last: str | None, first: str | None, to: str | None, ranges: Collection[str] = RANGES
) -> tuple[str, datetime, datetime]:
    """The word of RANGES that a range is as long as ("" where `first` is given), its first moment, and the one after
    it; see `heat_request`. `ranges`: the words that are allowed."""
    if last and last not in ranges:
        raise BadInput(f"last is {last[:40]!r}; allowed is {', '.join(ranges)}")
    end = _end(to) if to else newest + _MINUTE
    if first:
        return "", time_given(first, "from").first, end
    word = last or USUAL_RANGE
    try:
        return word, end - RANGES[word][1], end
    except OverflowError:
        raise BadInput(f"to is {to!r}: there is no cycle before that") from None


def _end(text: str) -> datetime:
    """The end that a text names: of a date the end of that day."""
    given = time_given(text, "to")
    is_moment = given.last - given.first < _HOUR or given.last.year == MAXYEAR
    return given.first if is_moment else given.last + timedelta(microseconds=1)


def part(within: str) -> Within | None:
    """The part of a cluster as `evenkeel.heat.picture` takes it; BadInput for a bundle's name with a bad range."""
    if not within:
        return None
    if _BUNDLE.fullmatch(within):
        bundle_range = range_of(within)
        return within.rpartition("/")[0], bundle_range.lower, bundle_range.upper
    return within


@dataclass(frozen=True)
class MadePicture:
    """A picture and its JSON, which begins with the request."""

    shown: HeatPicture
    body: bytes
    made_at: float


_made: dict[HeatRequest, MadePicture] = {}


def made_picture(asked: HeatRequest) -> MadePicture:
    """The picture, or the one that was made in the last half a minute. Errors as `evenkeel.heat.picture`."""
    now = time.monotonic()
    for old in [key for key, kept in _made.items() if now - kept.made_at > _KEPT_S]:
        del _made[old]
    if asked not in _made:
        shown = picture(asked.lake, asked.cluster, asked.first, asked.to, asked.metric, within=part(asked.within))
        header = json.dumps({"asked": asked.body()}, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        while len(_made) >= _MOST_KEPT:
            del _made[next(iter(_made))]
        _made[asked] = MadePicture(shown, header[:-1] + b"," + shown.to_json()[1:], now)
    return _made[asked]
