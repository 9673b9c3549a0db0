"""The commands of a plan for Pulsar, in their order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from evenkeel.lake.schemas.acted import SPLIT, UNLOAD, UNLOAD_TOPIC
from evenkeel.manual_requests.unload import bundle_of_topic, is_topic_unload
from evenkeel.settings import Settings
from evenkeel.steering.admin_request import request_text


def plan_id(cycle: Row, decisions: Mapping[str, Sequence[Row]], leaving_out: Collection[str] = ()) -> str:
    """Return a digest of the decisions: cluster, cycle, settings and decision rows by column name, in any row order.

    `leaving_out`: columns that do not count.
    """
    content = {
        "cluster": cycle["cluster"],
        "cycle_at": cycle["cycle_at"],
        "settings_digest": cycle["settings_digest"],
        "decisions": {table: sorted(canonical_rows(rows, leaving_out)) for table, rows in decisions.items()},
    }
    return hashlib.sha256(canonical(content).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A command that the plan wants, before guards: its content, and the row of its decision."""

    command: dict[str, Any]
    decision: Row


def wanted(cycle: Row, splits: Sequence[Row], placements: Sequence[Row], unloads: Iterable[Row] = ()) -> list[Wanted]:
    """Return splits, then unloads, then topics that are unloaded, each in name order.

    A bundle without owner needs no command: Pulsar assigns it when asked. Of `unloads` only topics count: bundles that
    leave have their placements.

    Of bundles with the same lower edge the wider one comes first, so that a parent is split before its child.
    """
    cut = ("algorithm", "cuts", "unload_children")
    acting = [
        Wanted(_command(SPLIT, row, **{name: row[name] for name in cut}), row)
        for row in splits
        if row["outcome"] == "split"
    ]
    leaving = (row for row in placements if row["cause"] != "no_owner" and row["outcome"] == "placed")
    acting += [Wanted(_command(UNLOAD, row, destination=_destination(row, cycle["manager"])), row) for row in leaving]
    acting += [
        Wanted(_command(UNLOAD_TOPIC, row, bundle=bundle_of_topic(row), topic=row["subject"]), row)
        for row in unloads
        if is_topic_unload(row)
    ]
    acting.sort(key=lambda act: str(act.command["request"]))
    acting.sort(key=lambda act: _edges(act)[1], reverse=True)
    return sorted(acting, key=lambda act: (_PHASES.index(act.command["kind"]), _edges(act)[0]))


_PHASES = (SPLIT, UNLOAD, UNLOAD_TOPIC)
"""All of one kind go out before any of the next."""


def numbered(plan: str, cycle: Row, asked: Sequence[Wanted], settings: Settings) -> list[dict[str, Any]]:
    """Return the rows of `commands` for the requested acts, in their order, with steps from 1 on and without gaps.

    A command's id covers its step, so the id changes if an earlier command was held back. The meaning of an id never
    changes: the plan's id covers the guards' verdicts. If the verdicts change, the plan changes, and with it the ids of
    all its commands. A command's time limit is the age at which its figures count as old.
    """
    expires = datetime.fromisoformat(cycle["cycle_at"]) + timedelta(seconds=settings.evenkeelMaxReportAgeSeconds)
    return [
        {
            **act.command,
            "cluster": cycle["cluster"],
            "cycle_at": cycle["cycle_at"],
            "command_id": command_id(plan, act.command["kind"], act.command["bundle"], step, cycle["mode"]),
            "plan_id": plan,
            "step": step,
            "mode": cycle["mode"],
            "expires_at": expires,
        }
        for step, act in enumerate(asked, start=1)
    ]


def command_id(plan: str, kind: str, bundle: str, step: int, mode: str) -> str:
    """Return the digest that names a command of a plan. A dry run has other digests, so that none is sent later."""
    rehearsed = ["dry_run"] if mode == "dry_run" else []
    return hashlib.sha256(canonical([plan, kind, bundle, step, *rehearsed]).encode()).hexdigest()


def _edges(act: Wanted) -> tuple[str, str]:
    """The bundle's name up to its lower edge, and its upper edge; as text both sort like the numbers."""
    name, _, upper = str(act.command["bundle"]).rpartition("_")
    return name, upper


def _command(kind: str, row: Row, **values: Any) -> dict[str, Any]:
    """Return the command of a decision's row; `values`: the columns that concern this kind."""
    none = dict.fromkeys(("destination", "algorithm", "cuts", "unload_children", "topic"))
    command = {"kind": kind, "bundle": row["subject"], "from_broker": row["broker"], **none, **values}
    return {**command, "request": request_text(command)}


def _destination(row: Row, manager: str) -> str | None:
    """Return the bundle's destination if Pulsar gets it; else None: the bundle goes where it is next looked up.

    A manual request may leave the destination open, and so does the extensible manager while
    loadBalancerTransferEnabled is off.
    """
    if row["cause"] == "shed" and manager == "extensible":
        is_bound = row["rule"] in ("transferred", "planned")
    else:
        is_bound = row["rule"] != "wish"
    return row["destination"] if is_bound else None


# The one JSON text of a value, and those of many rows at once.
#
# Digests are taken over these texts, so their bytes never change. Rows of a table have the same columns, and most of
# the time goes into naming them; so each column is put into JSON as a whole, and the rows' texts are put together from
# that.

Row = Mapping[str, Any]

canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode
"""JSON with sorted names and without blanks."""

# In JSON a line feed within a text is escaped, so that between two values it cannot be mistaken for anything else.
_by_lines = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=("\n", ":")).encode
_FLAT = frozenset({str, float, int, bool, type(None)})


def canonical_rows(rows: Sequence[Row], leaving_out: Collection[str] = ()) -> list[str]:
    """`canonical` of each row, without some of its columns."""
    if not rows:
        return []
    columns = _columns(rows)
    if columns is None:
        return [canonical({name: value for name, value in row.items() if name not in leaving_out}) for row in rows]
    names = sorted(name for name in columns if name not in leaving_out)
    if not names:
        return ["{}"] * len(rows)
    form = ",".join(f"{canonical(name).replace('%', '%%')}:%s" for name in names)
    texts = [_texts(columns[name]) for name in names]
    return [f"{{{form}}}" % row for row in zip(*texts, strict=True)]


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]] | None:
    """The rows' values by column; None where not all rows have the same columns."""
    try:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
    except KeyError:
        return None
    return columns if all(len(row) == len(columns) for row in rows) else None


def _texts(values: list[Any]) -> list[str]:
    """`canonical` of each value of a column."""
    if _are_flat(values):
        return _by_lines(values)[1:-1].split("\n")
    if all(type(value) is dict for value in values) and _are_flat(chain.from_iterable(map(dict.values, values))):
        # Braces are those of the maps, or within a text.
        return _by_lines(values)[1:-1].replace("}\n{", "}\r{").replace("\n", ",").split("\r")
    return ["[]" if value == [] else canonical(value) for value in values]


def _are_flat(values: Iterable[Any]) -> bool:
    """Return True if no value contains others; values that only behave like one of these types may be written
    differently."""
    return _FLAT.issuperset(map(type, values))
