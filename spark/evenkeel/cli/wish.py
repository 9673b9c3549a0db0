"""`evenkeel wish`: a manual request: a split or unload for the next cycle, or a broker for all cycles to empty.

Options of a split and an unload are those of Pulsar's admin CLI.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from evenkeel.cli.lakes import known_record
from evenkeel.cli.options import check_folder, said_by
from evenkeel.cli.output import add_json, print_result
from evenkeel.errors import BadInput, visible
from evenkeel.handover import RECORDING
from evenkeel.ingest.wish_intake import PICKED, Maker, wish_row
from evenkeel.lake.record import Attempt, Record, find_cycles, read_rows, read_rows_of, read_table, read_table_if_any
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT
from evenkeel.lake.record.ranges import nearest
from evenkeel.lake.record.tables import is_in
from evenkeel.lake.schemas.acted import DRAIN, SPLIT, UNDRAIN, UNLOAD, UNLOAD_TOPIC
from evenkeel.lake.wishes import ended_drains
from evenkeel.manual_requests.wish_schema import ALL
from evenkeel.model.amounts import plural
from evenkeel.times import IN_UTC, after_all, moment_given, utc_text


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the options of `wish`."""
    parser = commands.add_parser("wish", help="request a split, an unload or an empty broker; list the requests")
    kinds = parser.add_subparsers(dest="wish", required=True, metavar="split|unload|unload-topic|drain|undrain|list")
    _add_split(kinds.add_parser("split", help="split a bundle"))
    _add_unload(kinds.add_parser("unload", help="unload a bundle, or all of a namespace"))
    topic = kinds.add_parser("unload-topic", help="unload one topic: its clients connect again, its bundle stays")
    topic.add_argument("topic", metavar="persistent://tenant/namespace/topic")
    _add_common(topic)
    topic.set_defaults(run=run_unload_topic)
    for kind, words in ((DRAIN, "empty a broker, until `undrain`"), (UNDRAIN, "let a broker have bundles again")):
        parser = kinds.add_parser(kind, help=words)
        parser.add_argument("broker", metavar="HOST:PORT", help="broker id, as Pulsar lists it")
        _add_common(parser)
        parser.set_defaults(run=partial(run_drain, kind))
    listing = kinds.add_parser("list", help="every request, and the cycle that took it")
    listing.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    listing.add_argument("--cluster", metavar="NAME", help="of this cluster (default: of all)")
    add_json(listing)
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
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    parser.add_argument("--cluster", required=True, metavar="NAME")
    parser.add_argument("--by", metavar="NAME", help="author of the request, recorded beside the login of this shell")
    parser.add_argument(
        "--at", metavar="TIME", help=f"only cycles from this moment on take it ({IN_UTC}; default: now; for recordings)"
    )
    add_json(parser)


def run_split(given: argparse.Namespace) -> int:
    """Record a manual request for a split."""
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
    """Record a manual request for an unload."""
    wish = {
        "kind": UNLOAD,
        "namespace": given.namespace,
        "bundle": given.bundle,
        "destinationBroker": given.destinationBroker,
    }
    return _make(given, wish)


def run_unload_topic(given: argparse.Namespace) -> int:
    """Record a manual request for an unload of a topic."""
    return _make(given, {"kind": UNLOAD_TOPIC, "topic": given.topic})


def run_drain(kind: str, given: argparse.Namespace) -> int:
    """Record the beginning or the end of a drain; a broker that is emptied already is left as it is."""
    row = _row(given, {"kind": kind, "broker": given.broker})
    going = {wish["broker"]: wish for wish in open_drains(given.lake, given.cluster)}
    before = going.get(row["broker"])
    row = _last_of_its_broker(given, row)
    if kind == DRAIN and before is not None:
        since, who = before["made_at"].isoformat(), before["made_by"]
        words = f"{row['broker']} of {given.cluster} is being emptied already, as {who} requested at {since}"
        print_result(given, words, _result(before, put=False))
        return 0
    if kind == UNDRAIN and before is None:
        named = f": {', '.join(sorted(going))} {'is' if len(going) == 1 else 'are'}" if going else ""
        raise BadInput(f"no wish empties {row['broker']} of {given.cluster}{named}. Nothing was changed")
    return _put(given, row)


def _last_of_its_broker(given: argparse.Namespace, row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with a time after all drains and undrains of its broker: the last counts, and clocks differ."""
    known = (wish for wish in read_table_if_any(given.lake, "wishes") if wish["kind"] in (DRAIN, UNDRAIN))
    moments = [wish["made_at"] for wish in known if (wish["cluster"], wish["broker"]) == (given.cluster, row["broker"])]
    made_at = datetime.fromisoformat(row["made_at"])
    moment = after_all(made_at, moments)
    if given.at is not None or moment == made_at:
        return row
    maker = Maker(said_by(given), utc_text(moment))
    return wish_row({"kind": row["kind"], "broker": row["broker"]}, given.cluster, maker)


def _make(given: argparse.Namespace, wish: Mapping[str, Any]) -> int:
    return _put(given, _row(given, wish))


def _row(given: argparse.Namespace, wish: Mapping[str, Any]) -> dict[str, Any]:
    check_folder(given.lake, "--lake")
    row = wish_row(wish, given.cluster, Maker(said_by(given), _moment(given.at)))
    demand_known(given.lake, row)
    return row


def _put(given: argparse.Namespace, row: Mapping[str, Any]) -> int:
    from evenkeel.lake.store import Lake, append_row
    from evenkeel.lake.wishes import typed

    append_row(Lake(given.lake), "wishes", typed(row))
    takes = "each cycle" if row["kind"] == DRAIN else "the next cycle"
    until = f", until `evenkeel wish undrain {row['broker']}`" if row["kind"] == DRAIN else ""
    words = f"wish {row['wish_id'][:12]}: {takes} of {given.cluster} from {row['made_at']} on takes it{until}"
    print_result(given, words, _result(row, put=True))
    return 0


_MEMBERS = (
    *("wish_id", "cluster", "kind", "made_at", "made_by", "namespace", "bundle", "topic", "broker"),
    *("algorithm", "positions", "unload_children", "destination"),
)


def _result(wish: Mapping[str, Any], *, put: bool) -> dict[str, Any]:
    return {**{name: wish.get(name) for name in _MEMBERS}, "put": put}


def _moment(text: str | None) -> str:
    at = datetime.now(UTC) if text is None else moment_given(text, "--at")
    return utc_text(at)


_AFTER_FIRST = "A new cluster takes wishes after its first cycle"


def run_list(given: argparse.Namespace) -> int:
    """Print the manual requests, oldest first."""
    if given.cluster:
        known_record(given.lake, given.cluster, _AFTER_FIRST)
    wishes = read_wishes(given.lake, cluster=given.cluster)
    ended = ended_drains(wishes)
    courses = [_progress(given.lake, wish, ended) if wish["kind"] == DRAIN else "" for wish in wishes]
    if given.json:
        listed = [
            {**{name: wish.get(name) for name in _MEMBERS}, "taken_at": wish["taken_at"], "progress": course or None}
            for wish, course in zip(wishes, courses, strict=True)
        ]
        print_result(given, "", {"wishes": listed})
        return 0
    for wish, course in zip(wishes, courses, strict=True):
        taken = wish["taken_at"].isoformat() if wish["taken_at"] else "waiting"
        head = f"{wish['wish_id'][:12]}  {wish['made_at'].isoformat()}  {wish['made_by']}  {wish['cluster']}"
        subject = wish.get("broker") or wish.get("topic") or f"{wish['namespace']}/{wish['bundle']}{_options(wish)}"
        print(visible(f"{head}  {wish['kind']} {subject}  {course or taken}"))
    return 0


def _progress(lake: str, wish: Mapping[str, Any], ended: Collection[str]) -> str:
    """Return the progress of a drain: bundles in the first cycle that took it, and bundles left in the last one."""
    if not wish["takers"]:
        return "ended before a cycle took it" if wish["wish_id"] in ended else "waiting"
    ends = {wish["takers"][place].cycle_at for place in (0, -1)}
    cycles = [find_cycles(lake, cluster=wish["cluster"], cycle=at)[0] for at in sorted(ends)]
    first, last = cycles[0], cycles[-1]
    rows = read_rows_of(lake, [first, last], "unload_decisions", where={"wish_id": [wish["wish_id"]]})
    about = {attempt_id: attempt_rows[0] for attempt_id, attempt_rows in rows.items() if attempt_rows}
    at, row = last.cycle_at.isoformat(), about.get(last.attempt_id)
    state = "ended, last seen" if wish["wish_id"] in ended else "as of"
    if row is None:
        return f"{state} {at}"
    if row["measured"] is None:
        return f"{state} {at}: {row['sentence']}"
    began = plural(max(about.get(first.attempt_id, row)["measured"] or 0.0, row["measured"]), "bundle")
    left = f"{row['measured']:,.0f} of {began} left" if row["measured"] else f"empty, {began} gone"
    return f"{state} {at}: {left}"


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


_WHO_TOOK = (
    *("cluster", "cycle_at", "attempt_id", "attempt", "sequence", "row_kind", "kind", "status", "source", "wishes"),
)


def read_wishes(lake: str | Path, *, cluster: str | None = None) -> list[dict[str, Any]]:
    """Return each manual request once, oldest first.

    `takers`: the attempts that took it, oldest first (each cycle takes a drain while it holds); attempts at cycles of a
    recording only if there are no others; `taken_at`: the cycle of the last of them, None while it waits.
    """
    rows = {row["wish_id"]: row for row in read_table(lake, "wishes", {"cluster": [cluster]} if cluster else None)}
    record = Record(lake)
    takers: dict[str, list[Attempt]] = {}
    for name in sorted({row["cluster"] for row in rows.values()} & {*record.clusters()}):
        for attempt in _takers(record, name):
            if attempt.decided and attempt.kind != "backfill":
                for wish_id in attempt.planned["wishes"]:
                    takers.setdefault(wish_id, []).append(attempt)
    wishes = []
    for wish_id, row in rows.items():
        every = takers.get(wish_id, [])
        took = [attempt for attempt in every if attempt.planned["source"] != RECORDING] or every
        wishes.append({**row, "takers": took, "taken_at": took[-1].cycle_at if took else None})
    return sorted(wishes, key=lambda wish: (wish["made_at"], wish["wish_id"]))


def open_drains(lake: str | Path, cluster: str) -> list[dict[str, Any]]:
    """Return the unfinished drains of a cluster, oldest first; empty without a lake."""
    wishes = sorted(read_table_if_any(lake, "wishes"), key=lambda wish: (wish["made_at"], wish["wish_id"]))
    ended = ended_drains(wishes)
    drains = [wish for wish in wishes if (wish["cluster"], wish["kind"]) == (cluster, DRAIN)]
    return [wish for wish in drains if wish["wish_id"] not in ended]


def demand_known(lake: str, wish: Mapping[str, Any]) -> None:
    """Raise for a wish whose cluster (NoSuchCycle), broker, namespace or bundle (BadInput) is not on record.

    The newest cycle up to the wish's time has the names; what it could not observe is not compared. An end of a drain
    may name a broker that is gone.
    """
    record = known_record(lake, wish["cluster"], _AFTER_FIRST)
    seen = record.in_force(wish["cluster"], datetime.fromisoformat(wish["made_at"]))
    if seen is None:
        return

    def demand(noun: str, name: str | None, known: Collection[str]) -> None:
        if name and known and name not in known:
            raise BadInput(
                f"{name} is not a {noun} of {wish['cluster']} in its newest cycle ({seen.cycle_at.isoformat()})."
                f"{nearest(name, sorted(known))} Nothing was changed"
            )

    broker = wish["destination"] if wish["kind"] != DRAIN else wish["broker"]
    if broker:
        rows = read_rows(lake, seen, "broker_load", columns=["broker"], check=False)
        demand("broker", broker, {row["broker"] for row in rows})
    if namespace := wish["namespace"]:
        columns = ["namespace", "boundaries"]
        rows = read_rows(lake, seen, "namespace_bundles", columns=columns, check=False)
        boundaries = {row["namespace"]: row["boundaries"] for row in rows}
        demand("namespace", namespace, boundaries)
        if "_" in wish["bundle"]:
            demand("bundle", wish["bundle"], set(map("_".join, pairwise(boundaries.get(namespace, ())))))


def _takers(record: Record, cluster: str) -> Iterator[Attempt]:
    """Return the attempts that took a request: a few of a year's cycles."""
    import pyarrow.compute as pc

    some = pc.list_value_length(pc.field("wishes")) > 0
    moments = record.moments(cluster, some).to_pylist()
    if moments:
        span = (cluster, FIRST_MOMENT, LAST_MOMENT, _WHO_TOOK, is_in("cycle_at", moments))
        yield from record.attempts(*span)
