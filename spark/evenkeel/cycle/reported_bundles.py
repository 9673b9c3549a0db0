"""The latest figures of the bundles of a large cluster, from its rows of `bundle_load`.

Most rules look at few of a hundred thousand bundles. So the figures are taken from the rows in one pass, and a
`BundleStats` is made for each bundle that a rule requests.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from evenkeel.model.bundles import are_in_two_parts
from evenkeel.model.load import BundleStats, TopBundle

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FIELDS = BundleStats._fields[:7]
"""Fields of `BundleStats` that rows of `bundle_load` have; its cache is not in them."""
_FIGURES = (
    *("topics", "consumers", "producers"),
    *("used_msg_rate_in", "used_msg_rate_out", "used_msg_throughput_in", "used_msg_throughput_out"),
)
"""The columns of `FIELDS`; NULL counts as 0."""
_COLUMNS = ("owner", "has_non_persistent", "bundle", *_FIGURES)
_WIDTH = len(_COLUMNS)
_BEGIN = _WIDTH - len(_FIGURES)
_NAME = _BEGIN - 1
# Named tuples of the right length, made without a call of Python's own.
_stats_of = cast("type[Any]", partial(tuple.__new__, BundleStats))
_listed = cast("type[Any]", partial(tuple.__new__, TopBundle))


class StatsOfBroker(Mapping[str, BundleStats]):
    """Bundle -> its figures, of one broker, in the order of the rows; each `BundleStats` is made once.

    `throughputs`: in and out of each bundle, byte/s; None if one of them is beyond the range of doubles.
    `are_in_two_parts`: True if all their names are those of bundles in a namespace tenant/namespace.
    """

    __slots__ = ("_is_whole", "_made", "_places", "_values", "are_in_two_parts", "throughputs")

    def __init__(self, values: list[Any]) -> None:
        """Read `values`: a row's owner, has_non_persistent, bundle and figures, then those of the next row.

        Of a bundle that is given twice the last figures are taken, at the place of the first, as a dict does.
        """
        names = values[_NAME::_WIDTH]
        places = dict(zip(names, range(0, len(values), _WIDTH), strict=True))
        self.are_in_two_parts = are_in_two_parts(names)
        if len(places) * _WIDTH < len(values):
            values = [value for place in places.values() for value in values[place : place + _WIDTH]]
            places = dict(zip(places, range(0, len(values), _WIDTH), strict=True))
        self._values, self._places = values, places
        self._made: dict[str, BundleStats] = {}
        self._is_whole = False
        self.throughputs = self._throughputs()

    @classmethod
    def of(cls, stats: Mapping[str, BundleStats]) -> StatsOfBroker:
        """Make such a mapping of another one; the sizes of caches are left out."""
        return cls(
            [*chain.from_iterable((None, False, bundle, *figures[: len(FIELDS)]) for bundle, figures in stats.items())]
        )

    def _throughputs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        import numpy as np

        values, count = self._values, len(self._places)
        try:
            try:
                return (
                    np.fromiter(values[_WIDTH - 2 :: _WIDTH], np.float64, count),
                    np.fromiter(values[_WIDTH - 1 :: _WIDTH], np.float64, count),
                )
            except TypeError:  # NULL
                return (
                    np.fromiter(self.column("msg_throughput_in"), np.float64, count),
                    np.fromiter(self.column("msg_throughput_out"), np.float64, count),
                )
        except OverflowError:
            return None

    def column(self, field: str) -> list[Any]:
        """Return one figure of all bundles, by the name of its field in `BundleStats`."""
        figures = self._values[_BEGIN + FIELDS.index(field) :: _WIDTH]
        if all(figures):
            return figures
        zero = BundleStats._field_defaults[field]
        return [figure or zero for figure in figures]

    def names(self) -> list[str]:
        """Return the bundles, in their order."""
        return self._values[_NAME::_WIDTH]

    def listed(self, numbers: Iterable[int]) -> list[TopBundle]:
        """Return some of the bundles with their figures, by their places in the order."""
        values, bundles = self._values, []
        for number in numbers:
            begin = number * _WIDTH + _NAME
            bundle, topics, ins, outs, r_in, r_out, f_in, f_out = values[begin : begin + _WIDTH - _NAME]
            stats = topics or 0, ins or 0, outs or 0, r_in or 0.0, r_out or 0.0, f_in or 0.0, f_out or 0.0, 0
            bundles.append(_listed((bundle, _stats_of(stats))))
        return bundles

    def __getitem__(self, bundle: str) -> BundleStats:
        stats = self._made.get(bundle)
        if stats is None:
            [(_, stats)] = self.listed((self._places[bundle] // _WIDTH,))
            self._made[bundle] = stats
        return stats

    def _all(self) -> dict[str, BundleStats]:
        if not self._is_whole:
            figures = zip(*map(self.column, FIELDS), repeat(0, len(self._places)), strict=True)
            self._made = {**dict(zip(self._places, map(_stats_of, figures), strict=True)), **self._made}
            self._is_whole = True
        return self._made

    def items(self) -> ItemsView[str, BundleStats]:
        """Return all bundles with their figures, as of a dict."""
        return self._all().items()

    def values(self) -> ValuesView[BundleStats]:
        """Return the figures of all bundles, as of a dict."""
        return self._all().values()

    def __contains__(self, bundle: object) -> bool:
        return bundle in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return repr(self._all())


@dataclass(frozen=True, slots=True)
class ReportedBundles:
    """The bundles of a cluster by their owner, and those known to hold non-persistent topics."""

    by_owner: Mapping[str, StatsOfBroker]
    non_persistent: frozenset[str]


def reported_bundles(rows: Sequence[Mapping[str, Any]]) -> ReportedBundles:
    """Return the bundles in rows of `bundle_load`."""
    owned: dict[str, list[Any]] = {}
    non_persistent: list[str] = []
    # Rows are scattered in memory, and reaching one takes longer than its processing: so each is visited once.
    for values in map(itemgetter(*_COLUMNS), rows):
        owner = values[0]
        if owner is not None:
            values_of_owner = owned.get(owner)
            if values_of_owner is None:
                values_of_owner = owned[owner] = []
            values_of_owner += values
        if values[1]:
            non_persistent.append(values[2])
    by_owner = {owner: StatsOfBroker(values) for owner, values in owned.items()}
    return ReportedBundles(by_owner, frozenset(non_persistent))
