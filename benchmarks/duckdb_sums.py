"""Topics to bundles, and sums of their figures: Evenkeel's own query beside DuckDB's SQL on the same Parquet file.

`python -m benchmarks duckdb_sums [--topics 1000000 10000000] [--bundles 100000] [--memory 2g] [--times 6]`. Topics are
generated, seeded. Both sides hash every topic's name, look up the bundle whose range holds the hash, and add up what
`aggregate` needs of a bundle's topics. DuckDB has no CRC32, so it uses its own hash, and a topic lies in another
bundle there; sums of whole namespaces must be the same, and are compared. DuckDB finds the bundle in two ways, an
`ASOF JOIN` with the boundaries and an equality of namespace and hash / width (which only equal ranges allow), and adds
plain doubles, where Evenkeel's sums are exact in any order of the rows; the cheaper way counts. Each side has two
threads; after a first time that does not count the least processor time of `--times` counts, of all processes. Goal:
at most 2.0 times DuckDB's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from benchmarks.machine import cpu_seconds, description
from evenkeel.aggregate.topic_sums import Namespace, ranges_of, sums_in_thousandths
from evenkeel.model.bundles import initial_boundaries
from evenkeel.model.load import RATES
from evenkeel.spark.command import ServerSettings
from evenkeel.spark.server import Engine, engine_for
from evenkeel.spark.session import close, connect
from evenkeel.spark.sql import compile_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_TIMES = 2.0
BUNDLES_PER_NAMESPACE = 100
CORES = 2
CLUSTER, AT = "bench", datetime(2026, 1, 1, tzinfo=UTC)

# What a cluster's topics look like in `topic_stats`: rates are heavy-tailed and cut to three decimals.
_TOPICS = """
copy (
    with numbers as (
        select i, 'bench/ns' || lpad((i % {namespaces})::varchar, 5, '0') as namespace,
            100 * pow((1 + hash(i) % 1000000) / 1000000.0, -1 / 1.2) as rate,
            100 + hash(i + 1) % 1900 as size, (hash(i + 2) % 3)::bigint as consumers
        from range({topics}) as given(i)
    )
    select '{cluster}' as cluster, timestamptz '{at}' as cycle_at, namespace,
        'persistent://' || namespace || '/orders-' || lpad(i::varchar, 9, '0') as topic,
        'broker-' || (i % 1000)::varchar || ':8080' as broker, 1::integer as seen_on, 'loaded' as observation,
        'persistent' as domain, 1::bigint as producers, consumers, (hash(i + 3) % 50)::bigint as msg_backlog,
        floor(rate) / 1000.0::double as msg_rate_in,
        if(consumers > 0, floor(rate), 0) / 1000.0::double as msg_rate_out,
        floor(rate * size) / 1000.0::double as msg_throughput_in,
        if(consumers > 0, floor(rate * size), 0) / 1000.0::double as msg_throughput_out
    from numbers
) to '{file}' (format parquet)
"""

_HASHED = "select *, (hash(topic) >> 32)::bigint as hashed_to from read_parquet('{file}')"
_PLACED = {
    "asof join": "hashed asof join bundles on hashed.namespace = bundles.namespace and hashed_to >= lower",
    "equality": (
        "hashed join bundles on hashed.namespace = bundles.namespace "
        "and least(hashed_to // {width}, {each} - 1) = bundles.place"
    ),
}
_SUMS = """
    with hashed as ({hashed})
    select cluster, cycle_at, bundle, count(*) filter (observation = 'loaded') as topics, count(*) as listed_topics,
        sum(consumers) as consumers, sum(producers) as producers,
        case when bool_and(observation <> 'loaded' or msg_backlog is not null) then sum(msg_backlog) end as msg_backlog,
        {figures},
        bool_or(observation = 'loaded' and domain = 'non-persistent') as has_non_persistent,
        bool_and(observation <> 'loaded' or ({known})) as all_known,
        count(*) filter (seen_on > 1) as shown_twice
    from {placed} group by cluster, cycle_at, bundle
"""


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per side and number of topics; 0 if the goal was met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks duckdb_sums")
    parser.add_argument("--topics", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--bundles", type=int, default=100_000)
    parser.add_argument("--memory", default="2g", help="heap of the Spark server")
    parser.add_argument("--times", type=int, default=6)
    given = parser.parse_args(list(arguments))
    print(description(), flush=True)
    missed = 0
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder:
        home, spaces = Path(folder), namespaces(given.bundles)
        with engine_for(home / "engine", settings=ServerSettings(memory=given.memory, cores=CORES)) as engine:
            for topics in given.topics:
                file = home / f"topics-{topics}.parquet"
                write_topics(file, topics, len(spaces))
                missed += _measure(engine, file, spaces, topics, given.times)
                file.unlink()
    return 1 if missed else 0


def namespaces(bundles: int) -> list[Namespace]:
    """Namespaces of a hundred equal bundles each, as Pulsar cuts them when a namespace is made."""
    edges = tuple(initial_boundaries(BUNDLES_PER_NAMESPACE))
    count = max(1, bundles // BUNDLES_PER_NAMESPACE)
    return [Namespace(CLUSTER, AT.isoformat(), f"bench/ns{number:05d}", edges) for number in range(count)]


def write_topics(file: Path, topics: int, count: int) -> None:
    """A Parquet file with rows of `topic_stats`, as far as sums look at them, without the hash."""
    with _database() as database:
        database.execute(
            _TOPICS.format(topics=topics, namespaces=count, cluster=CLUSTER, at=AT.isoformat(" "), file=file)
        )


def _measure(engine: Engine, file: Path, spaces: Sequence[Namespace], topics: int, times: int) -> bool:
    """Whether the goal was missed."""
    spark = connect(engine.url, "benchmark duckdb_sums")
    try:
        compile_queries(spark, compiled=True)
        ours, own = _least(lambda: evenkeels_sums(spark, file, spaces), times, engine.pid)
    finally:
        close(spark)
    _show("Evenkeel", topics, ours)
    theirs = {}
    for way in _PLACED:
        theirs[way], found = _least(lambda way=way: duckdbs_sums(file, spaces, way), times)  # type: ignore[misc]
        _show(f"DuckDB, {way}", topics, theirs[way])
        if by_namespace(own) != by_namespace(found):
            raise AssertionError(f"the sums of namespaces differ between Evenkeel and DuckDB ({way})")
    ratio = ours[0] / min(cpu for cpu, _ in theirs.values())
    is_missed = ratio > MOST_TIMES
    print(
        f"    {'missed' if is_missed else 'met'}: {ratio:.2f} times DuckDB's CPU, the goal is {MOST_TIMES}", flush=True
    )
    return is_missed


def evenkeels_sums(spark: SparkSession, file: Path, spaces: Sequence[Namespace]) -> pa.Table:
    """The sums as `aggregate` takes them, each topic's name hashed as ingest does."""
    from pyspark.sql import functions as F

    topics = spark.read.parquet(str(file)).withColumn("hash", F.crc32(F.col("topic").cast("binary")))
    sums = sums_in_thousandths(topics, ranges_of(spaces))
    odd = sum(sums["is_odd"].to_pylist())
    if odd:
        raise AssertionError(f"{odd:,} bundles have figures that are no thousandths, and would be summed once more")
    return sums


def duckdbs_sums(file: Path, spaces: Sequence[Namespace], way: str) -> pa.Table:
    """The sums as DuckDB takes them, in one of the ways of `_PLACED`."""
    edges = spaces[0].edges
    bundles = pa.table(
        {
            "namespace": [space.name for space in spaces for _ in space.edges[1:]],
            "place": [place for space in spaces for place in range(len(space.edges) - 1)],
            "lower": [lower for space in spaces for lower in space.edges[:-1]],
            "bundle": [f"{space.name}/{lower:08x}" for space in spaces for lower in space.edges[:-1]],
        }
    )
    query = _SUMS.format(
        hashed=_HASHED.format(file=file),
        placed=_PLACED[way].format(width=edges[1] - edges[0], each=len(edges) - 1),
        figures=", ".join(f"sum({figure}) as {figure}" for figure in RATES),
        known=" and ".join(f"{figure} is not null" for figure in RATES),
    )
    with _database() as database:
        database.register("bundles", bundles)
        found: pa.Table = database.execute(query).to_arrow_table()
        return found


def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": CORES, "preserve_insertion_order": False})


def by_namespace(sums: pa.Table) -> dict[str, tuple[int, ...]]:
    """Topics and figures (in thousandths) of every namespace: the same, whichever of its bundles a topic lies in."""
    names = [bundle.rpartition("/")[0] for bundle in sums["bundle"].to_pylist()]
    columns = [sums["topics"].to_pylist(), sums["consumers"].to_pylist()]
    columns += [[round(total * 1000) for total in sums[figure].to_pylist()] for figure in RATES]
    found: dict[str, tuple[int, ...]] = {}
    for name, *row in zip(names, *columns, strict=True):
        before: Any = found.get(name, (0,) * len(row))
        found[name] = tuple(one + int(more) for one, more in zip(before, row, strict=True))
    return found


def _least(query: Callable[[], pa.Table], times: int, *pids: int) -> tuple[tuple[float, float], pa.Table]:
    """Processor and clock seconds of the cheapest time, and the answer; a first time does not count."""
    answer, taken = query(), []
    for _ in range(times):
        begin, cpu = time.perf_counter(), cpu_seconds(*pids)
        answer = query()
        taken.append((cpu_seconds(*pids) - cpu, time.perf_counter() - begin))
    return min(taken), answer


def _show(side: str, topics: int, taken: tuple[float, float]) -> None:
    cpu, seconds = taken
    print(f"    {side:<20}{topics:>12,} topics {cpu:8.2f} CPU s {seconds:8.2f} s", flush=True)
