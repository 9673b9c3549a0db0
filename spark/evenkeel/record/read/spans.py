"""Spans of time, one per cluster, and how many of them are read at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

Span = tuple[datetime, datetime]
"""The first and the last moment, both included."""
_HOUR = timedelta(hours=1)


def alike(spans: Mapping[str, Span]) -> Iterator[dict[str, Span]]:
    """The spans in groups that end within an hour and are of a like length, newest first: a group is read as one span,
    and little more is read than its members need."""
    groups: dict[tuple[int, int], dict[str, Span]] = defaultdict(dict)
    for name, (first, last) in spans.items():
        length = int((last - first) / _HOUR).bit_length()
        groups[int(last.timestamp() // _HOUR.total_seconds()), length][name] = (first, last)
    for key in sorted(groups, reverse=True):
        yield groups[key]


def whole_span(spans: Iterable[Span]) -> Span:
    """The span from the first moment to the last of all."""
    all_spans = [*spans]
    return min(first for first, _ in all_spans), max(last for _, last in all_spans)
