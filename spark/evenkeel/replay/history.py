"""The recorded cycles of a range: their manifests, the settings that were in force, and what they counted on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evenkeel.errors import BadInput, LakeError, NoSuchCycle, SettingsError
from evenkeel.lake.store import Lake
from evenkeel.record.read import Attempt, Record, clusters_of
from evenkeel.record.read.record import FIRST_MOMENT, LAST_MOMENT
from evenkeel.record.verify.recorded_cycle import Background, again, background_of
from evenkeel.settings import EffectiveSettings
from evenkeel.times import FROM_TO, bounds_given


@dataclass(frozen=True, slots=True)
class History:
    """The decided cycles of one cluster in a range, oldest first; `left_out` are those that decided nothing."""

    lake: str
    cluster: str
    cycles: tuple[Attempt, ...]
    left_out: int
    settings: Mapping[str, EffectiveSettings]
    background: Background

    def known(self, attempt: Attempt) -> dict[str, Any]:
        """What a cycle's row holds beside its settings, as text and lists: see `rounds.reading.cycle_row`."""
        planned = attempt.planned
        known = {"mode": attempt.mode, "snapshot_at": text_of(planned.get("snapshot_at") or attempt.cycle_at)}
        if not (planned["wishes"] or planned.get("acts") or planned.get("pauses")):
            return known
        try:
            cycle = again(attempt, self.background).cycle
        except LookupError as error:
            where = f"{attempt.cluster} at {attempt.cycle_at.isoformat()}"
            raise LakeError(f"the cycle of {where} cannot be decided again: {error.args[0]}") from None
        return {**known, "wishes": cycle.wishes, "acts": cycle.acts, "pauses": cycle.pauses}


def read_history(
    lake: str, cluster: str | None, since: str | None, until: str | None, *, options: tuple[str, str] = FROM_TO
) -> History:
    """The cycles from `since` to `until`, both included; a date stands for its whole day, None for no bound.

    `options` are what these two are called where they were given.

    Raises NoSuchCycle with the nearest cycles where the range holds none, LakeError where settings are past their
    retention, BadInput for what is no time.
    """
    first, last = bounds_given(since, until, options=options)
    record = Record(lake)
    name = _cluster(record, cluster)
    inside = record.cycles(name, first or FIRST_MOMENT, last or LAST_MOMENT)
    decided = [attempt for attempt in inside if attempt.decided and attempt.plan_id is not None]
    if not decided:
        raise NoSuchCycle(_none(record, name, inside, first, last))
    background = background_of(Lake(lake), decided)
    return History(
        lake=lake,
        cluster=name,
        cycles=tuple(decided),
        left_out=len(inside) - len(decided),
        settings=_settings(background, decided),
        background=background,
    )


def _cluster(record: Record, cluster: str | None) -> str:
    known = clusters_of(record, cluster)
    if len(known) > 1:
        raise BadInput(
            f"{len(known)} clusters are on record in {record.lake}: name one by --cluster ({', '.join(known[:20])})"
        )
    return known[0]


def _none(
    record: Record, cluster: str, inside: Sequence[Attempt], first: datetime | None, last: datetime | None
) -> str:
    asked = f"from {first.isoformat() if first else 'the beginning'} to {last.isoformat() if last else 'now'}"
    if inside:
        reasons = sorted({attempt.reason or attempt.status for attempt in inside})
        return f"none of the {len(inside)} cycles of {cluster} {asked} was decided: {'; '.join(reasons[:3])}"
    before = None if first is None else record.in_force(cluster, first)
    after = None if last is None else record.following(cluster, last)
    near = [f"the last one before is at {before.cycle_at.isoformat()}"] if before else []
    near += [f"the first one after is at {after.cycle_at.isoformat()}"] if after else []
    moments = record.moments(cluster)
    span = f"{moments[0].as_py().isoformat()} to {moments[-1].as_py().isoformat()}"
    return f"no cycle of {cluster} is on record in {record.lake} {asked}: {', '.join(near)} (on record: {span})"


def _settings(background: Background, cycles: Iterable[Attempt]) -> dict[str, EffectiveSettings]:
    """Settings digest -> the settings; what is missing, or not of this version, is named by its first cycle."""
    found: dict[str, EffectiveSettings] = {}
    for attempt in cycles:
        digest = str(attempt.planned["settings_digest"])
        if digest not in found:
            found[digest] = _settings_of(background, digest, attempt)
    return found


def _settings_of(background: Background, digest: str, attempt: Attempt) -> EffectiveSettings:
    where = f"{attempt.cluster} at {attempt.cycle_at.isoformat()}"
    text = background.settings.get(digest)
    if text is None:
        raise LakeError(f"the settings of {where} are not on record: without them it cannot be decided again")
    try:
        return EffectiveSettings.from_json(text)
    except SettingsError as error:
        version = attempt.planned["code_version"]
        raise LakeError(
            f"the settings of {where}, recorded by Evenkeel {version}, are not those of this version: {error}. "
            "Replay them with the version that recorded them, or choose a later --from"
        ) from None


def text_of(moment: datetime) -> str:
    """A moment as packed rows and rounds have it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
