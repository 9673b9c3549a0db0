"""Whether recordings decided in windows come to what their cycles come to one by one.

Every recording that is named is decided several times, each time into a lake of its own: cycle by cycle; in one window;
and in windows cut at random, each way on other numbers of partitions. Compared are, cycle by cycle, statuses and
reasons, plans, all that manifests say of a decision, rows and digests of each table, what was read of the cycle before,
and what `verify` says of the lakes. Each difference is a line, and the rows that differ are shown:

    python tools/windows_alike.py /data/recordings --windows 3 --seed 7
    python tools/windows_alike.py /data/recordings --without-single     (windows among themselves only: fast)

Broken snapshots, gaps, changes of anything: whatever a recording holds has to come out alike. What an attempt is
called, when it was recorded and where its rows lie differs between two runs, and is left out.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "spark")]  # this checkout, whatever is installed

from evenkeel.cli.options import overrides_of  # noqa: E402
from evenkeel.errors import BadInput, EvenkeelError  # noqa: E402
from evenkeel.ingest import chunks  # noqa: E402
from evenkeel.ingest.open_run import CycleRequest  # noqa: E402
from evenkeel.lake.record import Attempt, read_attempts, read_rows  # noqa: E402
from evenkeel.lake.store import Lake  # noqa: E402
from evenkeel.pipeline import run_cycle, run_window  # noqa: E402
from evenkeel.sources.recordings import Recording  # noqa: E402
from evenkeel.spark.server import engine_for  # noqa: E402
from evenkeel.spark.session import close, connect  # noqa: E402
from evenkeel.verify import verify  # noqa: E402
from tools.freeze import recordings_in, sample  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What differs from run to run, or says where in a lake something stands.
OF_THE_RUN = frozenset(
    {"attempt_id", "run_id", "recorded_at", "predecessor_attempt_id", "write_id", "writes", "files", "reads"}
    | {"body_digest", "previous_digest", "manifest_digest"}
)
PARTITIONS = (2, 1, 7)
MOST_SHOWN = 3
SINGLE = "cycle by cycle"


@dataclass(frozen=True)
class Way:
    """A way to decide a recording: its name, the sizes of its windows (none: cycle by cycle), and the partitions."""

    name: str
    sizes: tuple[int, ...] = ()
    partitions: int = PARTITIONS[0]


def main() -> int:
    """0 if all ways come to the same, 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path, metavar="DIR", help="recordings, or folders of them")
    parser.add_argument(
        "--windows", type=int, default=2, metavar="N", help="so many random cuts (default: %(default)s)"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one N-th of each, as `freeze.py` takes it")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the cuts (default: 1)")
    parser.add_argument("--settings", type=Path, metavar="FILE", help="settings of all cycles, as TOML")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="and over them")
    parser.add_argument("--kind", choices=("live", "backfill"), default="live", help="of the attempts")
    parser.add_argument("--cluster", metavar="NAME", help="a name for the recordings' cluster (default: its own)")
    parser.add_argument("--without-single", action="store_true", help="windows only, beside the window of all cycles")
    parser.add_argument("--lakes", type=Path, metavar="DIR", help="keep the lakes there (default: they are deleted)")
    given = parser.parse_args()
    overrides = overrides_of(given)
    found = 0
    with tempfile.TemporaryDirectory(prefix="evenkeel-alike-") as home:
        place = given.lakes.absolute() if given.lakes else Path(home)
        with engine_for(Path(home) / "engine") as engine:
            spark = connect(engine.url, "windows alike")
            empty = Path(home) / "empty"
            Lake(str(empty)).ensure_tables(spark)

            def new_lake(lake: Path) -> None:
                shutil.copytree(empty, lake)

            for name, whole in recordings_in(given.recordings).items():
                folder = whole if given.every == 1 else linked(sample(whole, given.every), Path(home) / "parts" / name)
                request = CycleRequest(
                    "", f"recording:{folder}", overrides=overrides, kind=given.kind, run_id="alike",
                    clusters=(given.cluster,) if given.cluster else (),
                )  # fmt: skip
                ways = ways_of(len(Recording(folder).snapshots), given.windows, given.seed)
                lines = list(compared(spark, request, place / name, ways[given.without_single :], new_lake))
                for line in lines:
                    print(f"{name}: {line}", flush=True)
                found += len(lines)
            close(spark)
    print(f"{found} differences" if found else "all ways come to the same")
    return 1 if found else 0


def linked(snapshots: Iterable[Path], folder: Path) -> Path:
    """A recording of some snapshots, by links to them."""
    folder.mkdir(parents=True)
    for snapshot in snapshots:
        (folder / snapshot.name).symlink_to(snapshot)
    return folder


def ways_of(snapshots: int, windows: int, seed: int) -> list[Way]:
    """Cycle by cycle, all in one window, and random cuts; the same for the same seed."""
    drawn = random.Random(seed)
    found = [Way(SINGLE), Way("one window", (snapshots,), PARTITIONS[1])]
    for number in range(windows):
        sizes = tuple(cuts(drawn, snapshots))
        partitions = PARTITIONS[(number + 2) % len(PARTITIONS)]
        found.append(Way(f"windows of {', '.join(map(str, sizes))}", sizes, partitions))
    return found


def cuts(drawn: random.Random, snapshots: int) -> Iterator[int]:
    """Sizes of windows that hold all snapshots; every size may come, one cycle alone too."""
    left = snapshots
    while left:
        size = drawn.randint(1, max(1, min(left, drawn.choice((2, 5, snapshots)))))
        yield size
        left -= size


def compared(
    spark: SparkSession, request: CycleRequest, place: Path, ways: Sequence[Way], new_lake: Callable[[Path], object]
) -> Iterator[str]:
    """The differences of all ways from the first one; each gets a lake in `place`, which `new_lake` makes."""
    known: dict[Way, Path] = {}
    refused: dict[Way, list[str]] = {}
    for number, way in enumerate(ways):
        lake = known[way] = place / f"lake-{number}"
        new_lake(lake)
        begin = time.monotonic()
        refused[way] = decide(spark, replace(request, lake=str(lake)), way)
        attempts = read_attempts(lake)
        took = f"{way.partitions} partitions, {time.monotonic() - begin:.0f} s"
        say(f"{place.name}, {way.name} ({took}): {counts(attempts)}")
        for fault in faults_of(spark, lake):
            yield f"{way.name}: {fault}"
    first = ways[0]
    for way in ways[1:]:
        for line in (*listed(refused[first], refused[way]), *differences(known[first], known[way])):
            yield f"{first.name} | {way.name}: {line}"


def decide(spark: SparkSession, request: CycleRequest, way: Way) -> list[str]:
    """Decides all snapshots of the request's recording that way; returns what was refused, in words."""
    use_partitions(spark, way.partitions)
    moments = [snapshot.cycle_at for snapshot in Recording(request.source.partition(":")[2]).snapshots]
    if not way.sizes:
        return [word for at in moments for word in attempted(partial(alone, spark, replace(request, at=at)))]
    told: list[str] = []
    begin = 0
    for size in way.sizes:
        part, begin = moments[begin : begin + size], begin + size
        window = replace(request, every=True, since=part[0], until=part[-1])
        told += attempted(partial(together, spark, window, len(moments)))
    return told


def alone(spark: SparkSession, request: CycleRequest) -> None:
    """Decides one moment, as `evenkeel rebalance --at` does."""
    run_cycle(spark, request, lambda *_: None)


def together(spark: SparkSession, request: CycleRequest, most: int) -> None:
    """Decides a range in one window."""
    cycles = chunks.landed_in(request, say)
    known, chunks.MOST_CYCLES = chunks.MOST_CYCLES, most
    try:
        for _ in run_window(spark, request, lambda _: None, lambda _, error: say(str(error)), cycles=cycles, anew=True):
            pass
    finally:
        chunks.MOST_CYCLES = known


def attempted(work: Callable[[], None]) -> list[str]:
    """What was refused before anything could be put on record; other errors stand in the record."""
    try:
        work()
    except BadInput as error:
        return [str(error)]
    except EvenkeelError as error:
        say(str(error))
    return []


def use_partitions(spark: SparkSession, number: int) -> None:
    """From here on shuffles and scans of this session have about so many partitions."""
    spark.conf.set("spark.sql.shuffle.partitions", str(number))
    spark.conf.set("spark.sql.files.minPartitionNum", str(number))
    small = number > PARTITIONS[0]
    spark.conf.set("spark.sql.files.maxPartitionBytes", "64k" if small else "128m")
    spark.conf.set("spark.sql.files.openCostInBytes", "1k" if small else "4m")


# What is compared.


def differences(one: Path, other: Path) -> Iterator[str]:
    """A line for each thing that two lakes say otherwise of a cycle, with rows that differ."""
    first, second = by_cycle(one), by_cycle(other)
    names = {attempt.attempt_id: key for own in (first, second) for key, found in own.items() for attempt in found}
    for key in sorted(first.keys() | second.keys()):
        where = f"{key[0]} {key[1]}"
        these, those = first.get(key, []), second.get(key, [])
        if len(these) != len(those):
            yield f"{where}: {len(these)} attempts, then {len(those)}"
        for this, that in zip(these, those, strict=False):
            number = f" attempt {this.number}" if len(these) > 1 else ""
            yield from (f"{where}{number}: {line}" for line in _of_attempt((one, this), (other, that), names))


def _of_attempt(one: tuple[Path, Attempt], other: tuple[Path, Attempt], names: Mapping[str, Any]) -> Iterator[str]:
    this, that = one[1], other[1]
    for kind in ("planned", "closed"):
        row, its = getattr(this, kind) or {}, getattr(that, kind) or {}
        for column in sorted((row.keys() | its.keys()) - OF_THE_RUN):
            if row.get(column) != its.get(column):
                yield f"{kind}.{column}: {row.get(column)!r}, then {its.get(column)!r}"
    before = [names.get(each.planned["predecessor_attempt_id"]) for each in (this, that)]
    if before[0] != before[1]:
        yield f"goes on from {before[0]}, then from {before[1]}"
    yield from (f"reads {line}" for line in listed(_content(this.planned["reads"]), _content(that.planned["reads"])))
    writes = [_content((each.closed or each.planned)["writes"]) for each in (this, that)]
    for table in sorted(set(writes[0]) ^ set(writes[1])):
        yield f"writes {table}"
    for name in sorted({write["table"] for write in (this.closed or this.planned)["writes"] if write["rows"]}):
        yield from _rows_that_differ(one, other, name)


def _content(writes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Table and rows of each write. One without rows counts for nothing: a run of several clusters lists it."""
    return sorted(f"{write['table']}: {write['rows']} rows" for write in writes if write["rows"])


def _rows_that_differ(one: tuple[Path, Attempt], other: tuple[Path, Attempt], table: str) -> Iterator[str]:
    try:
        first, second = ({_text(row) for row in read_rows(*each, table)} for each in (one, other))
    except EvenkeelError as error:
        yield f"{table}: {error}"
        return
    yield from (f"{table}, only there first: {row[:1000]}" for row in sorted(first - second)[:MOST_SHOWN])
    yield from (f"{table}, only there then: {row[:1000]}" for row in sorted(second - first)[:MOST_SHOWN])


def _text(row: Mapping[str, Any]) -> str:
    return repr({name: value for name, value in row.items() if name != "write_id"})


def listed(first: Sequence[str], second: Sequence[str]) -> Iterator[str]:
    """Texts that only one side has."""
    yield from (f"only first: {text}" for text in first if text not in second)
    yield from (f"only then: {text}" for text in second if text not in first)


def by_cycle(lake: Path) -> dict[tuple[str, str], list[Attempt]]:
    """The attempts of each cluster and moment, in their order."""
    found: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in read_attempts(lake):
        found.setdefault((attempt.cluster, attempt.cycle_at.isoformat()), []).append(attempt)
    return found


def faults_of(spark: SparkSession, lake: Path) -> list[str]:
    """What `verify` finds wrong in a lake."""
    if not read_attempts(lake):
        return []
    report = verify(str(lake), lambda: nullcontext(spark))
    return [f"verify: {fault}" for fault in report.faults]


def counts(attempts: Sequence[Attempt]) -> str:
    """How many attempts of which status, with how many decisions that act."""
    statuses = [attempt.status for attempt in attempts]
    told = ", ".join(f"{statuses.count(one)} {one}" for one in sorted(set(statuses)))
    acts = {name: sum(attempt.planned[name] or 0 for attempt in attempts) for name in ("splits", "unloads")}
    return f"{told or 'nothing on record'}; {acts['splits']} splits, {acts['unloads']} unloads"


def say(text: str) -> None:
    """Tells of the course, beside the differences."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
