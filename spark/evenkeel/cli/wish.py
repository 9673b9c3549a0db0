"""`evenkeel wish`: a split or an unload for the next cycle to carry out; options are those of Pulsar's admin CLI."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenkeel.cli.options import check_folder, said_by, session
from evenkeel.ingest.wish_intake import PICKED, Maker, wish_row
from evenkeel.manual_requests.round import SPLIT, UNLOAD
from evenkeel.manual_requests.schema import ALL
from evenkeel.record.read import Attempt, Record, read_table
from evenkeel.record.read.ranges import FIRST_MOMENT, LAST_MOMENT
from evenkeel.record.read.tables import is_in
from evenkeel.times import IN_UTC, moment_given


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `wish`."""
    parser = commands.add_parser("wish", help="ask for a split or an unload, or list what was asked for")
    kinds = parser.add_subparsers(dest="wish", required=True, metavar="split|unload|list")
    _add_split(kinds.add_parser("split", help="split a bundle"))
    _add_unload(kinds.add_parser("unload", help="unload a bundle, or all of a namespace"))
    listing = kinds.add_parser("list", help="every wish, and the cycle that took it")
    listing.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    listing.add_argument("--cluster", metavar="NAME", help="of this cluster (default: of all)")
    listing.set_defaults(run=run_list)


def _add_split(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("namespace", metavar="tenant/namespace")
    bundle = parser.add_mutually_exclusive_group(required=True)
    bundle.add_argument("-b", "--bundle", metavar="RANGE|LARGEST|HOT", help="like 0x00000000_0x40000000")
    bundle.add_argument("-bt", "--bundle-type", choices=PICKED, help="the bundle with most topics, or most traffic")
    parser.add_argument("-san", "--split-algorithm-name", default="", metavar="NAME", help="default: the broker's own")
    parser.add_argument(
        "-sb", "--split-boundaries", metavar="N,N", help="cuts for specified_positions_divide, decimal or 0x…"
    )
    parser.add_argument("-u", "--unload", action="store_true", help="unload the children at once (modular manager)")
    _add_common(parser)
    parser.set_defaults(run=run_split)


def _add_unload(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("namespace", metavar="tenant/namespace")
    parser.add_argument(
        "-b", "--bundle", default=ALL, metavar="RANGE", help="like 0x00000000_0x40000000; default: all of the namespace"
    )
    parser.add_argument("-d", "--destinationBroker", metavar="HOST:PORT", help="broker id; default: placement decides")
    _add_common(parser)
    parser.set_defaults(run=run_unload)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are; made if missing")
    parser.add_argument("--cluster", required=True, metavar="NAME")
    parser.add_argument("--by", metavar="NAME", help="who asks for it, put on record beside the login of this shell")
    parser.add_argument(
        "--at",
        metavar="TIME",
        help=f"only cycles from this moment on take it ({IN_UTC}; default: now; for recordings)",
    )


def run_split(given: argparse.Namespace) -> int:
    """Puts a wish for a split on record."""
    wish = {
        "kind": SPLIT,
        "namespace": given.namespace,
        "bundle": given.bundle or given.bundle_type,
        "splitAlgorithmName": given.split_algorithm_name,
        "splitBoundaries": given.split_boundaries.split(",") if given.split_boundaries else [],
        "unload": given.unload,
    }
    return _make(given, wish)


def run_unload(given: argparse.Namespace) -> int:
    """Puts a wish for an unload on record."""
    wish = {
        "kind": UNLOAD,
        "namespace": given.namespace,
        "bundle": given.bundle,
        "destinationBroker": given.destinationBroker,
    }
    return _make(given, wish)


def _make(given: argparse.Namespace, wish: Mapping[str, Any]) -> int:
    from evenkeel.lake.store import Lake
    from evenkeel.lake.wishes import append_wishes

    row = wish_row(wish, given.cluster, Maker(said_by(given), _moment(given.at)))
    check_folder(given.lake, "--lake")
    lake = Lake(given.lake)
    with session("evenkeel wish") as spark:
        lake.ensure_tables(spark, ["wishes", "cycles"])
        append_wishes(spark, lake, [row])
    print(f"wish {row['wish_id'][:12]}: the next cycle of {given.cluster} from {row['made_at']} on takes it")
    return 0


def _moment(text: str | None) -> str:
    at = datetime.now(UTC) if text is None else moment_given(text, "--at")
    return at.isoformat(timespec="microseconds")


def run_list(given: argparse.Namespace) -> int:
    """Prints the wishes, oldest first."""

    for wish in read_wishes(given.lake, cluster=given.cluster):
        print(_line(wish))
    return 0


def _line(wish: Mapping[str, Any]) -> str:
    taken = wish["taken_at"].isoformat() if wish["taken_at"] else "waiting"
    head = f"{wish['wish_id'][:12]}  {wish['made_at'].isoformat()}  {wish['made_by']}  {wish['cluster']}"
    return f"{head}  {wish['kind']} {wish['namespace']}/{wish['bundle']}{_options(wish)}  {taken}"


def _options(wish: Mapping[str, Any]) -> str:
    words = []
    if wish["algorithm"]:
        words.append(f"-san {wish['algorithm']}")
    if wish["positions"]:
        words.append(f"-sb {','.join(map(str, wish['positions']))}")
    if wish["unload_children"]:
        words.append("-u")
    if wish["destination"]:
        words.append(f"-d {wish['destination']}")
    return "".join(f" {word}" for word in words)


# Wishes on record, with the cycle that took each of them.

_WHO_TOOK = ("cluster", "cycle_at", "attempt_id", "attempt", "sequence", "row_kind", "kind", "status", "wishes")


def read_wishes(lake: str | Path, *, cluster: str | None = None) -> list[dict[str, Any]]:
    """Each wish once, oldest first, with `taken_at`: the cycle that took it, None while it waits."""
    rows = {row["wish_id"]: row for row in read_table(lake, "wishes", cluster=cluster)}
    record = Record(lake)
    taken: dict[str, datetime] = {
        wish_id: attempt.cycle_at
        for name in sorted({row["cluster"] for row in rows.values()} & {*record.clusters()})
        for attempt in _takers(record, name)
        if attempt.decided and attempt.kind != "backfill"
        for wish_id in attempt.planned["wishes"]
    }
    wishes = [{**row, "taken_at": taken.get(wish_id)} for wish_id, row in rows.items()]
    return sorted(wishes, key=lambda wish: (wish["made_at"], wish["wish_id"]))


def _takers(record: Record, cluster: str) -> Iterator[Attempt]:
    """The attempts that took a wish: of a year's cycles a few."""
    import pyarrow.compute as pc

    some = pc.list_value_length(pc.field("wishes")) > 0
    moments = record.moments(cluster, some).to_pylist()
    if moments:
        span = (cluster, FIRST_MOMENT, LAST_MOMENT, _WHO_TOOK, is_in("cycle_at", moments))
        yield from record.attempts(*span)
