"""From an operator's request to a recorded wish, and from there to the cycle that takes it.

Reads: `wishes`, `cycles`.
Writes: `wishes`, for the wishes of a run itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput, BadName, BadRange
from evenkeel.handover import RECORDING, ClusterCycle, CycleKey, Run
from evenkeel.lake.controls import person
from evenkeel.lake.schemas.acted import DRAIN, SPLIT, UNDRAIN, UNLOAD_TOPIC
from evenkeel.lake.store import Lake
from evenkeel.lake.wishes import BACKFILL, TakenWishes, append_wishes, read_taken, read_wishes, wishes_for
from evenkeel.manual_requests.unload import broker_id
from evenkeel.manual_requests.wish_schema import ALL, BROKER, HOT, LARGEST, SCHEMAS, names_of
from evenkeel.model.bundles import decode_number, parse_range
from evenkeel.model.topics import parse_topic
from evenkeel.settings import resolve
from evenkeel.steering.admin_request import ACTING, WITH_ARTICLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PICKED = (LARGEST, HOT)


@dataclass(frozen=True, slots=True)
class Maker:
    """Maker of a wish (a login), time (ISO-8601 UTC), and its run, if it comes with one."""

    made_by: str
    made_at: str
    run_id: str | None = None


def wish_row(given: Mapping[str, Any], cluster: str, maker: Maker, number: int = 0) -> dict[str, Any]:
    """Return a row of `wishes`. `given` has its kind, and the names of a wish of that kind (`SCHEMAS`).

    Raises `BadInput` for anything else. The cycle, which sees the cluster, decides whether Pulsar would carry it out.
    `number` distinguishes equal wishes of one maker.
    """
    kind = str(given.get("kind"))
    if kind not in SCHEMAS:
        raise BadInput(f"a wish is of the kind {', '.join(SCHEMAS)}, not {given.get('kind')!r}: give its kind")
    known = names_of(kind)
    if unknown := sorted(set(given) - {*known}):
        raise BadInput(f"a wish for {_NAMED[kind]} has no {unknown[0]!r}: known are {', '.join(known)}")
    row = {
        "cluster": cluster,
        "made_at": maker.made_at,
        "made_by": person(maker.made_by, given.get("by")),
        "run_id": maker.run_id,
        "kind": kind,
        **_VALUES.get(kind, _of_bundle)(kind, given),
    }
    content = json.dumps([row, number], sort_keys=True, ensure_ascii=False)
    return {"broker": None, "topic": None, **row, "wish_id": hashlib.sha256(content.encode()).hexdigest()}


_NAMED = {**WITH_ARTICLE, DRAIN: "a drain", UNDRAIN: "an undrain"}
_NO_OPTIONS = {"algorithm": None, "positions": None, "unload_children": None, "destination": None}


def _of_broker(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a wish about a whole broker; it names no bundle."""
    broker = broker_id(_text(given, "broker"))
    if not re.match(BROKER, broker):
        raise BadInput(f"a wish for {_NAMED[kind]} names its broker as host:port, not as {given.get('broker')!r}")
    return {"namespace": "", "bundle": "", **_NO_OPTIONS, "broker": broker}


def _of_topic(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a wish about one topic, under its full name; the cycle finds its bundle."""
    text = _text(given, "topic")
    try:
        topic = parse_topic(text)
    except BadName as error:
        raise BadInput(f"a wish for {_NAMED[kind]} names it as domain://tenant/namespace/topic: {error}") from None
    if not topic.name.isprintable() or topic.local_name in (".", ".."):
        raise BadInput(f"a wish for {_NAMED[kind]} names none that could be asked for: {text!r}")
    return {"namespace": topic.namespace, "bundle": "", **_NO_OPTIONS, "topic": topic.canonical}


_VALUES = {DRAIN: _of_broker, UNDRAIN: _of_broker, UNLOAD_TOPIC: _of_topic}


def _of_bundle(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    value = given.get("namespace")
    tenant, _, name = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not tenant.strip() or not name.strip() or "/" in name:
        raise BadInput(f"a wish names its namespace as tenant/namespace, not as {value!r}")
    return {
        "namespace": f"{tenant}/{name}",
        "bundle": _bundle(kind, given.get("bundle")),
        **_options(kind, given),
    }


def _options(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if kind == SPLIT:
        value = given.get("unload", False)
        if not isinstance(value, bool):
            raise BadInput(f"unload of a wish is true or false, not {value!r}")
        return {
            "algorithm": _text(given, "splitAlgorithmName"),
            "positions": [_position(value) for value in _positions(given.get("splitBoundaries"))],
            "unload_children": value,
            "destination": None,
        }
    destination = _text(given, "destinationBroker")
    if destination and given.get("bundle") == ALL:
        raise BadInput(
            f"a wish that unloads all of {given.get('namespace')} names no destination, as in Pulsar: placement "
            "decides for each bundle; name one bundle, or leave the destination out"
        )
    return {**_NO_OPTIONS, "destination": destination or None}


def _bundle(kind: str, value: Any) -> str:
    """Return the range in Pulsar's spelling; it is parsed at once, so that a typing error is reported at once."""
    picked = PICKED if kind == SPLIT else (ALL,)
    if value in picked:
        return str(value)
    words = f"{',' if kind == SPLIT else ' or'} {' or '.join(picked)}"
    try:
        return str(parse_range(str(value)))
    except BadRange as error:
        raise BadInput(f"a wish for {kind} names its bundle as a range{words}: {error}") from None


def _positions(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise BadInput(f"splitBoundaries of a wish is a list of positions, not {value!r}")
    return value


def _position(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise BadInput(f"{value!r} in splitBoundaries is not a position: give a number like 855638016 or 0x33000000")
    return value if isinstance(value, int) else decode_number(value.strip())


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise BadInput(f"{name} of a wish is a name, not {value!r}")
    text = (value or "").strip()
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise BadInput(f"{name} of a wish is a name, and {text!a} holds half a character")
    return text


def with_wishes(
    spark: SparkSession, lake: Lake, cycles: Sequence[ClusterCycle], run: Run, brought: Sequence[Mapping[str, Any]]
) -> list[ClusterCycle]:
    """Return the cycles with the wishes that each of them takes; those of the run itself are recorded first.

    A repeated try finds its wishes on record: their ids are made of the run and not of the clock.
    """
    own_wishes = wishes_of_run(cycles, run, brought)
    known = read_wishes(lake, [cycle.cluster for cycle in cycles])
    on_record = {wish["wish_id"] for wish in known}
    append_wishes(spark, lake, [wish for wish in own_wishes if wish["wish_id"] not in on_record])
    known += own_wishes
    if not known:
        return list(cycles)
    taken = read_taken(spark, lake, [cycle.key for cycle in cycles], _running(cycles))
    return [with_taken(cycle, wishes_for(cycle.cluster, cycle.cycle_at, known, taken, run)) for cycle in cycles]


def with_wishes_on_record(
    spark: SparkSession, lake: Lake, cycles: Sequence[ClusterCycle], run: Run
) -> list[ClusterCycle]:
    """Return the cycles of a window, each with the wishes that an attempt at it took, which a backfill takes too.

    No other wish is taken: a window sends nothing, so a waiting wish would be used up without effect.
    """
    known = read_wishes(lake, sorted({cycle.cluster for cycle in cycles}))
    if not known:
        return list(cycles)
    taken: dict[CycleKey, list[TakenWishes]] = {}
    for attempt in read_taken(
        spark, lake, list({attempt.cluster: attempt.key for attempt in cycles}.values()), _running(cycles)
    ):
        taken.setdefault((attempt.cluster, attempt.cycle_at), []).append(attempt)
    as_backfill = replace(run, kind=BACKFILL)
    return [
        with_taken(cycle, wishes_for(*cycle.key, known, taken[cycle.key], as_backfill)) if cycle.key in taken else cycle
        for cycle in cycles
    ]


def _running(cycles: Iterable[ClusterCycle]) -> set[str]:
    return {cycle.cluster for cycle in cycles if cycle.source != RECORDING}


def with_taken(cycle: ClusterCycle, wishes: tuple[dict[str, Any], ...]) -> ClusterCycle:
    """Return the cycle with its wishes.

    Brokers that they drain join evenkeelDrainingBrokers, unless nothing may leave them: the draining round refuses a
    wish that contradicts the configuration, and the cycle goes on.
    """
    drained = {wish["broker"] for wish in wishes if wish["kind"] == DRAIN}
    if not drained:
        return replace(cycle, wishes=wishes)
    configured = resolve(observed=None, overrides=cycle.overrides).settings
    brokers = sorted(configured.evenkeelDrainingBrokers | (drained - configured.evenkeelFrozenBrokers))
    return replace(cycle, wishes=wishes, overrides={**cycle.overrides, "evenkeelDrainingBrokers": brokers})


def wishes_of_run(
    cycles: Iterable[ClusterCycle], run: Run, brought: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the wishes of a run, made at the moment of their cluster's cycle.

    A wish that names no cluster is for the only one of the run.
    """
    if brought and run.kind == BACKFILL:
        raise BadInput("a backfill carries no wishes out: make them with `evenkeel wish`, or trigger a run of its own")
    named = next((_NAMED[wish["kind"]] for wish in brought if wish.get("kind") in (DRAIN, UNDRAIN)), None)
    if named and run.mode not in ACTING:
        raise BadInput(
            f"{named} outlasts the run that brings it, and this run is a dry run: to try a drain out, give it "
            "evenkeelDrainingBrokers in its settings; to begin or end one, use `evenkeel wish`, or a run that may act"
        )
    at = {cycle.cluster: cycle.cycle_at for cycle in cycles}
    rows = []
    for number, given in enumerate(brought):
        cluster = given.get("cluster") or (next(iter(at)) if len(at) == 1 else None)
        if cluster not in at:
            raise BadInput(
                f"wish {number + 1} names its cluster as {cluster!r}: this run decides {', '.join(sorted(at))}"
            )
        rows.append(wish_row(given, cluster, Maker(run.triggered_by or "airflow", at[cluster], run.run_id), number))
    return rows
