"""Two collectors for one cluster: of snapshots taken seconds apart by different machines the first one counts.

Two machines that collect at the same moment meet at the manifest, where the store decides. Where their moments differ
by some seconds both manifests stand; taking both would make two cycles of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from evenkeel.sources.s3.manifest import Manifest

WITHIN = timedelta(seconds=10)
LONGEST_CHAIN = 16


def alternatives(newest_first: Iterable[Manifest]) -> Iterator[tuple[Manifest, ...]]:
    """Groups of snapshots that stand for one moment, newest group first: the one that counts, then its doubles.

    A double is by another collector and at most 10 s younger than the one that counts; one collector's own snapshots
    never double each other. Reads one manifest ahead, more only where different collectors follow closely.
    """
    chain: list[Manifest] = []
    for manifest in newest_first:
        if chain and not _may_belong_together(manifest, chain):
            yield from reversed(_groups(chain))
            chain = []
        chain.append(manifest)
    yield from reversed(_groups(chain))


def _may_belong_together(manifest: Manifest, chain: list[Manifest]) -> bool:
    later = chain[-1]
    return (
        manifest.collector != later.collector
        and later.moment - manifest.moment <= WITHIN
        and len(chain) < LONGEST_CHAIN
    )


def _groups(chain: list[Manifest]) -> list[tuple[Manifest, ...]]:
    groups: list[tuple[Manifest, ...]] = []
    for manifest in reversed(chain):
        if groups and _is_double(manifest, groups[-1]):
            groups[-1] = (*groups[-1], manifest)
        else:
            groups.append((manifest,))
    return groups


def _is_double(manifest: Manifest, group: tuple[Manifest, ...]) -> bool:
    is_another = all(manifest.collector != known.collector for known in group)
    return is_another and manifest.moment - group[0].moment <= WITHIN
