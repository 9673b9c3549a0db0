"""Pulsar's own shedding beside Evenkeel's decisions: the acts of each, their differences, and the reasons.

Pulsar's side is read from the broker logs of a recording in which a cluster shed by itself. Evenkeel's side are cycles
decided from snapshots of the same time. Everything but `read_rounds` is pure.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from evenkeel.errors import BadInput
from evenkeel.explain import wording
from evenkeel.model import amounts

LOG = "broker-logs.txt.gz"
# Unloads that follow one another faster than this belong to one run of the shedder, which comes once a minute.
_ONE_ROUND = timedelta(seconds=20)

_STAMP = re.compile(r"^(?P<process>\S+) (?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{3})(?P<zone>[+-]\d\d:?\d\d|Z)?\s")
_OVERLOAD = re.compile(
    r"(?P<shedder>\w+Shedder)\b.*?Attempting to shed load on (?P<broker>\S+?), which has"
    r"(?: max)? resource usage above avgUsage\s+and threshold "
    r"(?P<measured>[\d.]+)\s*% > (?P<average>[\d.]+)\s*% \+ [\d.]+\s*%"
)
_TO_BROKER = re.compile(
    r"\[(?P<shedder>\w+)\] Unloading bundle: (?P<bundle>\S+/0x[0-9a-f]{8}_0x[0-9a-f]{8}) from broker (?P<source>\S+)"
    r"(?: to dest broker (?P<destination>\S+))?"
)
_TRANSFER = re.compile(
    r"\[(?P<shedder>\w+)\] Unloading bundle: Unload\[sourceBroker=(?P<source>[^,\s]+), "
    r"serviceUnit=(?P<bundle>[^,\s]+), destBroker=Optional(?:\[(?P<destination>[^\]]+)\]|\.empty)"
)


@dataclass(frozen=True, slots=True)
class Overload:
    """A broker that Pulsar's shedder found too busy, in percent of usage."""

    broker: str
    measured_percent: float
    average_percent: float


@dataclass(frozen=True, slots=True)
class LoggedMove:
    """A bundle that leaves a broker; `destination` is None where none was named."""

    bundle: str
    source: str
    destination: str | None


@dataclass(frozen=True, slots=True)
class LoggedRound:
    """One run of Pulsar's own shedder that unloaded something."""

    at: datetime
    shedder: str
    overloads: tuple[Overload, ...]
    moves: tuple[LoggedMove, ...]


@dataclass(frozen=True, slots=True)
class Cycle:
    """The observations and decisions of one cycle of Evenkeel; usage, averages and thresholds are fractions.

    `compared` are the shedder's figures: per broker its remembered usage, and the mean; it sheds from `threshold` over
    that mean on. `refusals` are sentences per broker over that limit that still sheds nothing. `due` is False if the
    shedder did not run in this cycle.
    """

    at: datetime
    moves: tuple[LoggedMove, ...]
    usage: Mapping[str, float]
    compared: Mapping[str, tuple[float, float]]
    threshold: float | None
    bundle_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    due: bool = True
    why_not_due: str = ""


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """A round of Pulsar's beside the cycle nearest to it; `agrees` if the same bundles leave the same brokers."""

    round: LoggedRound
    cycle: Cycle | None
    agrees: bool
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShedderComparison:
    """All rounds of a recording, and the cycles in which Evenkeel alone would have unloaded something."""

    recording: str
    verdicts: tuple[RoundVerdict, ...]
    alone: tuple[Cycle, ...]


def read_rounds(recording: str | Path) -> list[LoggedRound] | None:
    """The rounds in the recording's broker logs; None where the recording has no logs of shedding."""
    path = Path(recording) / LOG
    if not path.is_file():
        return None
    try:
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as lines:
            rounds = parse_rounds(lines)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(
            f"{path} cannot be read as gzip ({error}): the comparison needs the logs as recorded."
        ) from error
    return rounds or None


def parse_rounds(lines: Iterable[str]) -> list[LoggedRound]:
    """Rounds in time order from lines `PROCESS TIME LEVEL class [thread] text`; other lines are passed over."""
    events = sorted(
        (event for line in lines if (event := _event(line)) is not None), key=lambda event: (event[0], str(event[2]))
    )
    groups: list[list[tuple[datetime, str, Overload | LoggedMove]]] = []
    for event in events:
        if groups and event[0] - groups[-1][-1][0] <= _ONE_ROUND:
            groups[-1].append(event)
        else:
            groups.append([event])
    return [round for group in groups if (round := _round(group)).moves]


def _event(line: str) -> tuple[datetime, str, Overload | LoggedMove] | None:
    stamp = _STAMP.match(line)
    if stamp is None:
        return None
    at = datetime.fromisoformat(stamp["at"].replace(",", ".") + (stamp["zone"] or "+00:00")).astimezone(UTC)
    if overload := _OVERLOAD.search(line):
        try:
            figures = float(overload["measured"]), float(overload["average"])
        except ValueError:
            return None
        return at, overload["shedder"], Overload(overload["broker"], *figures)
    if move := _TRANSFER.search(line) or _TO_BROKER.search(line):
        return at, move["shedder"], LoggedMove(move["bundle"], move["source"], move["destination"])
    return None


def _round(events: Sequence[tuple[datetime, str, Overload | LoggedMove]]) -> LoggedRound:
    overloads = {e.broker: e for _, _, e in events if isinstance(e, Overload)}
    moves = {e.bundle: e for _, _, e in events if isinstance(e, LoggedMove)}
    return LoggedRound(events[0][0], events[0][1], tuple(overloads.values()), tuple(moves.values()))


def compare(
    recording: str, rounds: Sequence[LoggedRound], cycles: Sequence[Cycle], *, within: timedelta = timedelta(minutes=1)
) -> ShedderComparison:
    """Compare each round with the nearest cycle before it, at most `within` older.

    If that cycle's shedder was not due, the nearest due cycle within the same time is used, before or after the round;
    the sentences state it.
    """
    verdicts = tuple(_verdict(round, *_beside(round, cycles, within)) for round in rounds)
    used = {verdict.cycle.at for verdict in verdicts if verdict.cycle is not None}
    alone = tuple(cycle for cycle in cycles if cycle.moves and cycle.at not in used)
    return ShedderComparison(recording, verdicts, alone)


def _beside(round: LoggedRound, cycles: Sequence[Cycle], within: timedelta) -> tuple[Cycle | None, Cycle | None]:
    """Return the cycle to compare with, and the nearest one before if that is another."""
    before = [c for c in cycles if timedelta(0) <= round.at - c.at <= within]
    nearest = max(before, key=lambda c: c.at, default=None)
    if nearest is not None and nearest.due:
        return nearest, None
    due = [c for c in cycles if c.due and abs(c.at - round.at) <= within]
    chosen = min(due, key=lambda c: (abs(c.at - round.at), c.at), default=None)
    return (chosen, nearest) if chosen is not None else (nearest, None)


def _verdict(round: LoggedRound, cycle: Cycle | None, not_due: Cycle | None) -> RoundVerdict:
    if cycle is None:
        return RoundVerdict(round, None, False, ("Evenkeel has no cycle within a minute before this round.",))
    theirs = {move.bundle: move for move in round.moves}
    ours = {move.bundle: move for move in cycle.moves}
    same = {b for b in theirs.keys() & ours.keys() if theirs[b].source == ours[b].source}
    agrees = same == theirs.keys() == ours.keys()
    sentences = [*_timing(round, cycle, not_due), *_same(sorted(same), theirs, ours)]
    if not agrees:
        sentences += [*_figures(round, cycle), *_bundles(theirs, ours, cycle)]
    return RoundVerdict(round, cycle, agrees, tuple(sentences))


def _timing(round: LoggedRound, cycle: Cycle, not_due: Cycle | None) -> list[str]:
    gap = (round.at - cycle.at).total_seconds()
    side = "earlier" if gap >= 0 else "later"
    text = f"Evenkeel's snapshot was taken {amounts.duration(gap)} {side}, at {wording.time(cycle.at, date=False)}"
    if not_due is None:
        return [text + "."] if cycle.due else [f"{text}; its shedder was not due. {cycle.why_not_due}".strip()]
    skipped = wording.time(not_due.at, date=False)
    return [f"{text}: in the nearest cycle before, {skipped}, its shedder was not due."]


def _same(same: list[str], theirs: Mapping[str, LoggedMove], ours: Mapping[str, LoggedMove]) -> list[str]:
    sentences = []
    for bundle in same:
        theirs_goes_to, ours_goes_to = theirs[bundle].destination, ours[bundle].destination
        if theirs_goes_to == ours_goes_to or theirs_goes_to is None or ours_goes_to is None:
            goal = f" to {theirs_goes_to or ours_goes_to}" if theirs_goes_to or ours_goes_to else ""
            sentences.append(f"Both take {bundle} from {theirs[bundle].source}{goal}.")
        else:
            sentences.append(
                f"Both take {bundle} from {theirs[bundle].source}; Pulsar sends it to {theirs_goes_to}, "
                f"Evenkeel to {ours_goes_to}: the destination rests on long-term averages, which the leader "
                "has kept since it started and Evenkeel since its first cycle."
            )
    return sentences


def _figures(round: LoggedRound, cycle: Cycle) -> list[str]:
    """Return what the leader and the snapshot saw of the brokers concerned."""
    sentences = []
    for overload in round.overloads:
        theirs = (
            f"the leader saw {overload.broker} at {_percent(overload.measured_percent)} against an average of "
            f"{_percent(overload.average_percent)}"
        )
        compared = cycle.compared.get(overload.broker)
        if compared is None:
            usage = cycle.usage.get(overload.broker)
            seen = "no usage of it" if usage is None else f"a usage of {amounts.percent(usage)}"
            sentences.append(f"{_capital(theirs)}; the snapshot has {seen}, and the shedder compared nothing.")
            continue
        measured, mean = compared
        seen = (
            f"{_capital(theirs)}; from the snapshots Evenkeel remembers {amounts.percent(measured)} against an average "
            f"of {amounts.percent(mean)}"
        )
        if overload.broker in cycle.refusals:
            sentences.append(f"{seen}. {cycle.refusals[overload.broker]}")
        elif cycle.threshold is not None and measured < mean + cycle.threshold:
            sentences.append(f"{seen}, which stays below the limit of {amounts.percent(mean + cycle.threshold)}.")
        else:
            sentences.append(f"{seen}.")
    return sentences


def _bundles(theirs: Mapping[str, LoggedMove], ours: Mapping[str, LoggedMove], cycle: Cycle) -> list[str]:
    """Return the bundles that only one side takes, with their load in the snapshot."""
    sentences = []
    only_theirs, only_ours = sorted(theirs.keys() - ours.keys()), sorted(ours.keys() - theirs.keys())
    if only_theirs:
        sentences.append(f"Only Pulsar unloads {_with_traffic(only_theirs, cycle)}.")
    if only_ours:
        sentences.append(f"Only Evenkeel unloads {_with_traffic(only_ours, cycle)}.")
    if only_theirs and only_ours:
        sentences.append(
            "Both take the busiest bundles first; which these are differs because the leader averages the figures of "
            "every report, Evenkeel those of its snapshots."
        )
    return sentences


def _with_traffic(bundles: Sequence[str], cycle: Cycle) -> str:
    return wording.listed([
        f"{bundle} ({amounts.throughput(cycle.bundle_bytes_per_s.get(bundle))} in the snapshot)" for bundle in bundles
    ])  # fmt: skip


def _percent(value: float) -> str:
    return amounts.percent(value / 100)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
