"""Averages of bundles, read from rows when somebody asks: most decisions look at few bundles of thousands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from evenkeel.decisions.averages import Figures, figures_of, first_history, summed
from evenkeel.decisions.load import (
    LONG_TERM_SAMPLES,
    SHORT_TERM_SAMPLES,
    BrokerAverages,
    BundleHistory,
    MessageAverages,
)

Row = Mapping[str, Any]

_FIGURES = ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
_SHORT, _LONG = (itemgetter(f"{term}_samples", *(f"{term}_{name}" for name in _FIGURES)) for term in ("short", "long"))
_BOTH = itemgetter(*(f"{term}_{name}" for term in ("short", "long") for name in _FIGURES))
_OF_A_STRANGER = figures_of(first_history())


class Histories(Mapping[str, BundleHistory]):
    """Bundle -> its history, of those that have had a sample. What was read stays, also for whoever sees fewer."""

    def __init__(self, rows: Mapping[str, Row], read: dict[str, BundleHistory] | None = None) -> None:
        self._rows = rows
        self._read: dict[str, BundleHistory] = {} if read is None else read

    def without(self, gone: Collection[str]) -> Histories:
        """The same without some bundles."""
        return Histories({bundle: row for bundle, row in self._rows.items() if bundle not in gone}, self._read)

    def figures(self, bundle: str) -> Figures:
        """The averages of one bundle, without making a history of them; a stranger's are assumed."""
        row = self._rows.get(bundle)
        if row is None:
            return _OF_A_STRANGER
        found: Figures = _BOTH(row)
        return found

    def long_term(self, bundle: str) -> tuple[float, float]:
        """msg/s and byte/s of one bundle over the long term, in and out; nothing of a stranger."""
        row = self._rows.get(bundle)
        if row is None:
            return 0.0, 0.0
        _, flow_in, flow_out, rate_in, rate_out = _LONG(row)
        return rate_in + rate_out, flow_in + flow_out

    def sums(self, bundles: Iterable[str]) -> BrokerAverages:
        """As `broker_averages`, of these bundles."""
        return summed(self.figures(bundle) for bundle in sorted(bundles))

    def __getitem__(self, bundle: str) -> BundleHistory:
        found = self._read.get(bundle)
        if found is None or bundle not in self._rows:
            row = self._rows[bundle]
            short, long = _SHORT(row), _LONG(row)
            found = BundleHistory(
                MessageAverages(SHORT_TERM_SAMPLES, *short),
                MessageAverages(LONG_TERM_SAMPLES, *long),
                row["topics"] or 0,
            )
            self._read[bundle] = found
        return found

    def __contains__(self, bundle: object) -> bool:
        return bundle in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)
