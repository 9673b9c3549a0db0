"""How long what is kept. The periods belong to the lake: its last upkeep put them on record, and they hold until one is
told otherwise. So two that keep the same lake, a DAG and a shell, cannot work against each other by their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, datetime, timedelta

from evenkeel.errors import SettingsError
from evenkeel.lake.delta_log import TOPIC_VERSION_DAYS, TOPICS, VERSION_DAYS
from evenkeel.lake.schema import Table

MOST_DAYS = 36_500
# Delta calls a shorter time unsafe: who reads a version may not have come to its files yet.
LEAST_VERSION_DAYS = 7
# A cycle rests on the one before it, and counts what was done in the day before.
LEAST_ROW_DAYS = 2


@dataclass(frozen=True, slots=True)
class Periods:
    """Days that each kind of row, and versions for time travel, are kept; contradictions are refused together."""

    audit_days: int = 400
    observed_days: int = 30
    considered_days: int = 30
    topics_days: int = 14
    unlisted_days: int = 7
    version_days: int = VERSION_DAYS
    topic_version_days: int = TOPIC_VERSION_DAYS

    def __post_init__(self) -> None:
        wrong = [*self._out_of_range(), *self._contradictions()]
        if wrong:
            raise SettingsError(f"these periods cannot hold: {'; '.join(wrong)}")

    def as_dict(self) -> dict[str, int]:
        """Field -> days."""
        return asdict(self)

    def of(self, kind: str) -> int:
        """The days of one kind (audit, observed, considered, …); AttributeError for an unknown kind."""
        days: int = getattr(self, f"{kind}_days")
        return days

    def cutoff(self, kind: str, now: datetime) -> date:
        """The first date that is kept."""
        return (now - timedelta(days=self.of(kind))).date()

    def _out_of_range(self) -> list[str]:
        least = {"version_days": LEAST_VERSION_DAYS, "topic_version_days": LEAST_VERSION_DAYS, "unlisted_days": 1}
        return [
            f"{name} is {value}, allowed is {least.get(name, LEAST_ROW_DAYS)} to {MOST_DAYS}"
            for name, value in asdict(self).items()
            if not least.get(name, LEAST_ROW_DAYS) <= value <= MOST_DAYS
        ]

    def _contradictions(self) -> list[str]:
        pairs = (
            ("observed_days", "audit_days", "no manifest would list the rows any more"),
            ("considered_days", "audit_days", "no manifest would list the rows any more"),
            ("topics_days", "observed_days", "a cycle whose topics are gone is verified from bundle_load on"),
            (
                "unlisted_days",
                "topics_days",
                "rows of an open run are left alone that long, and would outlast the period",
            ),
        )
        return [
            f"{shorter} ({getattr(self, shorter)}) must not exceed {longer} ({getattr(self, longer)}): {why}"
            for shorter, longer, why in pairs
            if getattr(self, shorter) > getattr(self, longer)
        ]


NAMES = tuple(field.name for field in fields(Periods))
MEANINGS = {
    "audit_days": "manifests, decisions that acted, commands, outcomes, settings, approvals, controls, wishes",
    "observed_days": "what was observed, validation, bundle_load, broker_load, strategy_state",
    "considered_days": "decisions that came to nothing: considered, and nothing done",
    "topics_days": "topic_stats",
    "unlisted_days": "rows that no manifest lists; also how long what was just written is left alone",
    "version_days": "versions of the tables, for time travel",
    "topic_version_days": "versions of topic_stats",
}


def settled(recorded: Mapping[str, int] | None, given: Mapping[str, int | None], *, shorten: bool) -> Periods:
    """The periods that hold from now on: those on record (else the defaults), and over them those given.

    Raises SettingsError for one that would break another, and, unless told to `shorten`, for one shorter than the lake
    was promised.
    """
    known = {name: days for name, days in (recorded or {}).items() if name in NAMES}
    unknown = sorted(set(given) - set(NAMES))
    if unknown:
        raise SettingsError(f"there is no period {unknown[0]!r}; there are {', '.join(NAMES)}")
    wanted = {name: days for name, days in given.items() if days is not None}
    if recorded is not None and not shorten:
        broken = [f"{name} from {known[name]} to {days}" for name, days in wanted.items() if days < known.get(name, 0)]
        if broken:
            raise SettingsError(
                f"this lake was promised longer periods: {'; '.join(sorted(broken))} would break that, and what is "
                "dropped does not come back. Say so explicitly (--shorten, or the param `shorten`) if it is meant"
            )
    return replace(Periods(), **{**known, **wanted})


def kind_of(table: Table) -> str | None:
    """The period that holds for the rows of a table; None: they are kept for good."""
    if table.name == TOPICS:
        return "topics"
    if table.layer in ("observed", "checked", "derived"):
        return "observed"
    return "audit" if table.layer in ("decided", "acted", "wished") else None


def whole_kind(table: Table) -> str | None:
    """The period within which all rows of a table are there: of what was decided, those that acted outlast it."""
    return "considered" if table.layer == "decided" else kind_of(table)
