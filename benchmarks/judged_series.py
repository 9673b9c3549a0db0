"""Traffic from public series, none of which is part of this repository.

`series`: invocations of 500 functions by the minute, for one day. An owner's functions are topics of one namespace, and
carry what the function was invoked. `cloudwatch`: seventeen measures of a cloud's machines, every five minutes for some
days. A topic follows a day of one of them. In both a topic that goes beyond what one of a growing scenario may have is
cut down to that.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections.abc import Iterable, Sequence
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
CLOUDWATCH_SHA256 = "65e770d19f3972ad4d2e4864af48974be93c9a91991e57776ec8682527820f27"
CLOUDWATCH_WHERE = (
    "data/realAWSCloudwatch of github.com/numenta/NAB at ea702d7 (git archive ea702d7 data/realAWSCloudwatch | tar x)"
)
NEEDS = {"series": f"--series FILE: {WHERE}", "cloudwatch": f"--cloudwatch FOLDER: {CLOUDWATCH_WHERE}"}
"""What scenarios that draw from public series need."""
STEPS_OF_A_DAY = 24 * 12
MOST_AT_ONCE = 3.0
"""A topic has so many times its mean traffic at most."""


@dataclass(frozen=True, slots=True)
class PublicFiles:
    """Where the public series are, by the name of the scenario; None where they are not at hand."""

    series: Path | None = None
    cloudwatch: Path | None = None

    @staticmethod
    def add_to(parser: argparse.ArgumentParser) -> None:
        """Adds the options that say where they are."""
        parser.add_argument("--series", type=Path, help="a table of counts by the minute, for the scenario `series`")
        parser.add_argument("--cloudwatch", type=Path, help="a folder of measures, for the scenario `cloudwatch`")

    @classmethod
    def given(cls, arguments: argparse.Namespace) -> PublicFiles:
        """What the options say."""
        return cls(arguments.series, arguments.cloudwatch)

    def suffice_for(self, name: str) -> bool:
        """Whether what the scenario draws its traffic from is at hand."""
        return name not in NEEDS or getattr(self, name) is not None

    def scenarios(self, asked: Sequence[str], every: Iterable[str]) -> list[str]:
        """The scenarios asked for, of which none may lack its files; all that have them where none is asked for."""
        for name in asked:
            if not self.suffice_for(name):
                raise SystemExit(_lacking(name))
        return [*asked] or [name for name in every if self.suffice_for(name)]


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
        raise SystemExit(_lacking("series"))
    content = path.read_bytes()
    _refuse_others(f"{path}: SHA-256", content, SHA256, WHERE)
    head, *rows = csv.reader(content.decode().splitlines())
    owner = head.index("HashOwner")
    minutes = [n for n, title in enumerate(head) if title.startswith("minute_")]
    return PublicSeries([row[owner] for row in rows], np.array([[float(row[n]) for n in minutes] for row in rows]))


def public_measures(folder: Path | None) -> list[Array]:
    """The measures in the folder, by the names of their files; they have to be those that figures in the docs come
    from."""
    if folder is None:
        raise SystemExit(_lacking("cloudwatch"))
    contents = [file.read_bytes() for file in sorted(folder.glob("*.csv"))]
    said = f"{folder}: SHA-256 of its {len(contents)} .csv files, one after the other by name,"
    _refuse_others(said, b"".join(contents), CLOUDWATCH_SHA256, CLOUDWATCH_WHERE)
    tables = [[*csv.reader(content.decode().splitlines())] for content in contents]
    return [np.array([float(value) for _, value in rows]) for _, *rows in tables]


def _lacking(name: str) -> str:
    return f"the scenario {name} needs {NEEDS[name]}"


def _refuse_others(said: str, content: bytes, expected: str, where: str) -> None:
    """Ends the program where the content is not what figures in the docs come from."""
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise SystemExit(f"{said} is {found[:12]}…; expected is {expected[:12]}…, {where}")


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


def measured_factors(measures: Sequence[Array], topics: int, cycles: int, drawn: Random) -> Array:
    """Factors on the topics' traffic, a row for each cycle: each topic follows a day of one measure, both by chance.
    Gaps in a measure are closed up, and a day without anything is drawn again."""
    factors: list[Array] = []
    while len(factors) < topics:
        measure = drawn.choice(measures)
        first = drawn.randrange(len(measure) - STEPS_OF_A_DAY)
        day = measure[first : first + STEPS_OF_A_DAY].reshape(cycles, -1).mean(axis=1)
        if day.any():
            factors.append(np.minimum(MOST_AT_ONCE, day / day.mean()))
    return np.array(factors).T
