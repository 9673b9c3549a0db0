"""Traffic from a public series: invocations of 500 functions by the minute, for one day.

The file is not part of this repository. An owner's functions are topics of one namespace, and carry what the function
was invoked; one that goes beyond what a topic of a growing scenario may have is cut down to that.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np

from benchmarks.judged_cluster import Array
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.replay.modelled_cluster import Topic

SHA256 = "8b872b87da411dc624a4ae407e752eca775d8029ad75196b6d9c90692b55c717"
WHERE = (
    "data/traces/10-1000-10/500_inv.csv of github.com/vhive-serverless/invitro at cb0077f "
    "(git show cb0077f:data/traces/10-1000-10/500_inv.csv)"
)
MOST_AT_ONCE = 3.0
"""A topic has so many times its mean traffic at most."""


@dataclass(frozen=True, eq=False)
class PublicSeries:
    """`owners` of the functions, and their invocations: a row for each function, a column for each minute."""

    owners: Sequence[str]
    counts: Array


@dataclass(frozen=True, eq=False)
class SeriesTraffic:
    """`topics`, their `weights` (mean traffic), and `factors` on them: a row for each cycle."""

    topics: list[Topic]
    weights: list[float]
    factors: Array


def public_series(path: Path | None) -> PublicSeries:
    """The series in the file, which has to be the one that figures in the docs come from."""
    if path is None:
        raise SystemExit(f"the scenario series needs --series FILE: {WHERE}")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{path}: SHA-256 is {found[:12]}…; expected is {SHA256[:12]}…, {WHERE}")
    head, *rows = csv.reader(content.decode().splitlines())
    owner = head.index("HashOwner")
    minutes = [n for n, title in enumerate(head) if title.startswith("minute_")]
    return PublicSeries([row[owner] for row in rows], np.array([[float(row[n]) for n in minutes] for row in rows]))


def series_traffic(
    series: PublicSeries, namespaces: Sequence[str], topics: int, cycles: int, drawn: Random
) -> SeriesTraffic:
    """Each topic follows a function; functions come again, in another order, once there are more topics than those."""
    minutes = series.counts.shape[1] // cycles * cycles
    counts = series.counts[:, :minutes].reshape(len(series.owners), cycles, -1).mean(axis=2)
    known = [n for n in range(len(series.owners)) if counts[n].any()]
    chosen: list[int] = []
    while len(chosen) < topics:
        chosen += drawn.sample(known, min(len(known), topics - len(chosen)))
    homes = [namespaces[crc32(series.owners[n].encode()) % len(namespaces)] for n in chosen]
    means = counts[chosen].mean(axis=1)
    return SeriesTraffic(
        [Topic(home, drawn.randrange(HIGHEST_HASH)) for home in homes],
        means.tolist(),
        np.minimum(MOST_AT_ONCE, counts[chosen] / means[:, None]).T,
    )
