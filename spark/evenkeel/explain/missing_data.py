"""Messages for questions without an answer: the missing item, and the nearest existing one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from evenkeel.errors import BadInput, EvenkeelError, LakeError, NoSuchCycle
from evenkeel.explain.subject import Subject
from evenkeel.explain.wording import listed, time
from evenkeel.lake.record import Attempt, Record, Row
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT
from evenkeel.lake.record.ranges import nearest
from evenkeel.lake.record.tables import text
from evenkeel.model.bundles import BundleRange, namespace_of, range_of
from evenkeel.model.topics import parse_topic

_LIGHT = (
    *("cluster", "cycle_at", "sequence", "attempt", "attempt_id", "row_kind", "kind", "status", "reason", "mode"),
    "plan_id",
)
_NEAR = (timedelta(hours=1), timedelta(days=1), timedelta(days=30), timedelta(days=4000))
_MOST_NAMED = 8
_DAYS_BACK = 30


def known_clusters(record: Record, cluster: str | None) -> list[str]:
    """Return the requested cluster, or all; NoSuchCycle if it is not on record, or if no cluster is."""
    clusters = record.clusters()
    if not clusters:
        raise NoSuchCycle(f"no cycle is on record in {record.lake}: run one first (`evenkeel rebalance`).")
    if cluster is None:
        return clusters
    if cluster not in clusters:
        raise NoSuchCycle(f"no cycle of cluster {cluster!r} is on record.{nearest(cluster, clusters)}")
    return [cluster]


def several_clusters(subject: Subject, clusters: Sequence[str]) -> BadInput:
    """Return the error for a name that is in more than one cluster."""
    names = sorted(clusters)
    return BadInput(
        f"{subject.kind} {subject.name} is in {len(names)} clusters: {listed(names)}. Say which: --cluster {names[0]}."
    )


def before_the_first(record: Record, clusters: Sequence[str], at: datetime) -> NoSuchCycle:
    """Return the sentence for a time before all recorded cycles."""
    firsts = [first for name in clusters if (first := record.following(name, FIRST_MOMENT)) is not None]
    first = min(firsts, key=lambda attempt: (attempt.cycle_at, attempt.cluster))
    return NoSuchCycle(
        f"no cycle is on record at {time(at)} or before ({', '.join(clusters)}): the first is that of "
        f"{time(first.cycle_at)} of {first.cluster}."
    )


def nothing_between(record: Record, clusters: Sequence[str], first: datetime, last: datetime) -> NoSuchCycle:
    """Return the answer for a range without a cycle."""
    before = [one for name in clusters if (one := record.in_force(name, first)) is not None]
    after = [one for name in clusters if (one := record.following(name, last)) is not None]
    near = [
        *(f"that of {time(attempt.cycle_at)} of {attempt.cluster} before" for attempt in before[-1:]),
        *(f"that of {time(attempt.cycle_at)} of {attempt.cluster} after" for attempt in after[:1]),
    ]
    return NoSuchCycle(
        f"no cycle is on record from {time(first)} to {time(last)} ({', '.join(clusters)}). The nearest: "
        f"{listed(near) or 'none'}."
    )


def no_manifest(command: Row) -> LakeError:
    """Return the answer for a command whose plan no manifest lists."""
    return LakeError(
        f"command {command['command_id']} is in the outbox, but no manifest of {command['cluster']} at "
        f"{time(command['cycle_at'])} has its plan {command['plan_id']}: the run died before it was listed. Its "
        f"bundle is {command['bundle']}."
    )


def undecided(record: Record, attempt: Attempt) -> NoSuchCycle:
    """Return the answer for a skipped or failed cycle, with the nearest cycles that decided."""
    near = [
        *(f"{time(earlier.cycle_at)} before" for earlier in [_decided_before(record, attempt)] if earlier is not None),
        *(f"{time(later.cycle_at)} after" for later in [_decided_after(record, attempt)] if later is not None),
    ]
    why = (attempt.reason or "no reason is on record").rstrip(".")
    word = "was skipped" if attempt.status == "skipped" else attempt.status
    return NoSuchCycle(
        f"the cycle of {attempt.cluster} at {time(attempt.cycle_at)} {word}: {why}. Nothing was decided in it. "
        f"The nearest that decided: {listed(near) or 'none'}."
    )


def _decided_before(record: Record, attempt: Attempt) -> Attempt | None:
    return _decided(record, attempt, lambda span: (max(attempt.cycle_at - span, FIRST_MOMENT), attempt.cycle_at), -1)


def _decided_after(record: Record, attempt: Attempt) -> Attempt | None:
    return _decided(record, attempt, lambda span: (attempt.cycle_at, attempt.cycle_at + span), 0)


def _decided(
    record: Record, attempt: Attempt, within: Callable[[timedelta], tuple[datetime, datetime]], place: int
) -> Attempt | None:
    """Return the first or last (`place`) cycle that decided, in the shortest span that has one."""
    for span in _NEAR:
        decided = [one for one in record.cycles(attempt.cluster, *within(span), _LIGHT) if one.decided]
        if decided:
            return decided[place]
    return None


def has_decisions(record: Record, attempt: Attempt, bundle: str) -> bool:
    """Return True if a cycle has decided about a bundle: such rows outlive those of its load."""
    return any(
        record.rows([attempt], table, columns=["subject"], where=text("subject") == bundle)[attempt.attempt_id]
        for table in ("split_decisions", "unload_decisions", "placement_decisions")
    )


def look_for_undecided(record: Record, subject: Subject, newest_of: Mapping[str, Attempt]) -> None:
    """Raise an error if one of several clusters, none with the subject, did not decide and had it before."""
    open_ = [attempt for _, attempt in sorted(newest_of.items()) if not attempt.decided]
    for attempt in open_:
        before = _decided_before(record, attempt)
        if before is not None and _is_there(record, before, subject):
            raise undecided(record, attempt)


def _is_there(record: Record, attempt: Attempt, subject: Subject) -> bool:
    from evenkeel.explain.cycles import places_of

    whole = record.attempts(attempt.cluster, attempt.cycle_at, attempt.cycle_at)
    return bool(places_of(record, whole, subject))


def unknown_everywhere(record: Record, subject: Subject, newest_of: Mapping[str, Attempt]) -> EvenkeelError:
    """Return the error for a name that no cluster has; the cluster with the nearest name describes what it has."""
    decided = {name: attempt for name, attempt in sorted(newest_of.items()) if attempt.decided}
    reasons = {name: unknown(record, attempt, subject) for name, attempt in decided.items()}
    near = [name for name, attempt in decided.items() if _has_namespace(record, attempt, subject)]
    if len(near) == 1:
        return reasons[near[0]]
    return BadInput(
        f"no cluster has {subject.kind} {subject.name} in its cycle at that time ({', '.join(sorted(newest_of))}): "
        "name the "
        "cluster with --cluster to see what it has instead."
    )


def unknown(record: Record, attempt: Attempt, subject: Subject) -> BadInput:
    """Return the error for a subject that is not in the cycle."""
    place = f"{attempt.cluster} in the cycle of {time(attempt.cycle_at)}"
    if subject.kind == "broker":
        rows = record.rows([attempt], "broker_load", columns=["broker"])[attempt.attempt_id]
        names = sorted({row["broker"] for row in rows})
        seen = _last_seen(record, attempt, subject)
        return BadInput(f"broker {subject.name} is not among those of {place}.{nearest(subject.name, names)}{seen}")
    if subject.kind == "topic":
        namespace = parse_topic(subject.name, scalable=True).namespace
        return BadInput(f"topic {subject.name}: {_no_namespace(record, attempt, namespace)}")
    namespace = namespace_of(subject.name)
    siblings = _bundles(record, attempt, namespace)
    if not siblings:
        return BadInput(f"bundle {subject.name}: {_no_namespace(record, attempt, namespace)}")
    return BadInput(
        f"bundle {subject.name} is not among those of {place}. {_relatives(record, attempt, subject, siblings)}"
    )


def _has_namespace(record: Record, attempt: Attempt, subject: Subject) -> bool:
    if subject.kind == "broker":
        return False
    namespace = (
        namespace_of(subject.name) if subject.kind == "bundle" else parse_topic(subject.name, scalable=True).namespace
    )
    return bool(_bundles(record, attempt, namespace))


def _bundles(record: Record, attempt: Attempt, namespace: str) -> list[str]:
    rows = record.rows([attempt], "bundle_load", columns=["bundle"], where=text("namespace") == namespace)
    return sorted({row["bundle"] for row in rows[attempt.attempt_id]})


def _no_namespace(record: Record, attempt: Attempt, namespace: str) -> str:
    rows = record.rows([attempt], "bundle_load", columns=["namespace"])[attempt.attempt_id]
    names = sorted({row["namespace"] for row in rows})
    hint = nearest(namespace, names) if names else " No bundle is on record there."
    return f"namespace {namespace} is not on record in {attempt.cluster} at {time(attempt.cycle_at)}.{hint}"


def _relatives(record: Record, attempt: Attempt, subject: Subject, siblings: Sequence[str]) -> str:
    """Return the bundles at the place of the missing one: its children, its parent, or the nearest."""
    hashes = range_of(subject.name)
    children = [name for name in siblings if hashes.covers(range_of(name))]
    parent = next((name for name in siblings if range_of(name).covers(hashes)), None)
    if sum(range_of(name).width for name in children) == hashes.width:
        split = _split_before(record, attempt, subject.name)
        return f"It was split{split}: {_named(children)} have its range now."
    if parent is not None:
        asked = [at for at in _splits_asked(record, attempt.cluster, parent) if at >= attempt.cycle_at]
        split = f"; its split was asked in the cycle of {time(min(asked))}" if asked else ""
        return f"It is a part of {parent}, which is whole in that cycle{split}."
    across = [name for name in siblings if _overlaps(hashes, range_of(name))]
    return f"Its namespace has other boundaries: {_named(across)} overlap its range."


def _overlaps(first: BundleRange, other: BundleRange) -> bool:
    return first.lower < other.upper and other.lower < first.upper


def _named(names: Sequence[str]) -> str:
    shown = list(names[:_MOST_NAMED])
    return listed(shown) if len(names) <= _MOST_NAMED else f"{', '.join(shown)} and {len(names) - _MOST_NAMED} more"


def _split_before(record: Record, attempt: Attempt, bundle: str) -> str:
    """Return when its split was requested, else when it was last seen whole."""
    asked = [at for at in _splits_asked(record, attempt.cluster, bundle) if at <= attempt.cycle_at]
    if asked:
        return f", as asked in the cycle of {time(max(asked))}"
    return _last_seen(record, attempt, Subject("bundle", bundle)).rstrip(".").replace(" It was", ", and was")


def _splits_asked(record: Record, cluster: str, bundle: str) -> list[datetime]:
    condition = (text("bundle") == bundle) & (text("kind") == "split")
    rows = record.outbox("commands", cluster, FIRST_MOMENT, LAST_MOMENT, ["cycle_at"], condition)
    return [row["cycle_at"] for row in rows]


def _last_seen(record: Record, attempt: Attempt, subject: Subject) -> str:
    """A sentence with the last cycle before that had it, or the first one after; empty where none has."""
    table, column = ("broker_load", "broker") if subject.kind == "broker" else ("bundle_load", "bundle")
    condition: Any = text(column) == subject.name
    days = record.dates(table, attempt.cluster)
    for day in [day for day in reversed(days) if day <= attempt.cycle_at.date()][:_DAYS_BACK]:
        moments = _moments(record, table, attempt, day, condition)
        before = [at for at in moments if at <= attempt.cycle_at]
        if before:
            return f" It was last seen in the cycle of {time(max(before))}."
    for day in [day for day in days if day >= attempt.cycle_at.date()][:_DAYS_BACK]:
        after = [at for at in _moments(record, table, attempt, day, condition) if at > attempt.cycle_at]
        if after:
            return f" It was first seen in the cycle of {time(min(after))}."
    return ""


def _moments(record: Record, table: str, attempt: Attempt, day: date, condition: Any) -> list[datetime]:
    first = datetime.combine(day, datetime.min.time(), attempt.cycle_at.tzinfo)
    last = first + timedelta(days=1) - timedelta(microseconds=1)
    return [row["cycle_at"] for row in record.outbox(table, attempt.cluster, first, last, ["cycle_at"], condition)]
