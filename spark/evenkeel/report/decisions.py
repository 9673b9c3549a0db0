"""The decisions of a cycle, grouped for operators: acts, refusals, and considered rows without an act."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.explain.explanation import candidates_of, reason_of, scored_by, strategy_of
from evenkeel.explain.rendering import MOST_LINES, alternative_line, rule_line
from evenkeel.lake.record import Row
from evenkeel.lake.schemas.acted import SPLIT, UNLOAD, UNLOAD_TOPIC
from evenkeel.manual_requests.round import BY_REQUEST
from evenkeel.manual_requests.unload import bundle_of_topic, is_topic_unload
from evenkeel.report.plan_cost import traffic_of
from evenkeel.settings.keys.balancing import SHEDDERS_OF

# More lines than this help no one on a page; the tables hold them all.
MOST_CONSIDERED = 200
MOST_CANDIDATES = 12

_TABLES = {"split_decisions": "split", "unload_decisions": "unload", "placement_decisions": "placement"}


@dataclass(frozen=True, slots=True)
class SheddingLine:
    """A broker that sheds, why, and its bundles and topics as `Decisions.unloads` has them."""

    broker: str
    sentence: str
    unloads: tuple[Row, ...]
    why: Why | None


@dataclass(frozen=True)
class Decisions:
    """All decisions of a cycle. `considered` has the nearest to a limit first; `considered_count` counts them all.

    `ownerless`: placements of bundles without an owner, as `_placement` returns them. `splits`: rows of bundles that
    are cut, with their `why` and if a guard holds them back (`is_held`); `cuts` are hexadecimal hash positions.
    `refusals` and `considered` are rows of the decided tables, with the `kind` split, unload or placement. Rows of
    guards, each with its `why`: `held` on the commands that they hold back, `standstill` on sending the cluster no
    command at all, and `excepted` on the commands that they let pass in spite of their rule.
    """

    sheddings: tuple[SheddingLine, ...]
    ownerless: tuple[Row, ...]
    splits: tuple[Row, ...]
    refusals: tuple[Row, ...]
    considered: tuple[Row, ...]
    considered_count: int
    held: tuple[Row, ...] = ()
    standstill: tuple[Row, ...] = ()
    excepted: tuple[Row, ...] = ()

    @property
    def unloads(self) -> tuple[Row, ...]:
        """All unloads, in the order of the sheddings that decided them, held ones (`is_held`) included.

        Of a bundle that leaves its broker, or a topic that is closed on it (`is_topic`). `traffic`: now, byte/s;
        `average`: over the short term, byte/s, if the shedder used it, as its sentence shows; `placement`: as
        `_placement` returns it, None if none was decided.
        """
        return tuple(unload for shedding in self.sheddings for unload in shedding.unloads)

    @property
    def moving(self) -> tuple[Row, ...]:
        """Unloads that have a destination and are not held back: the others are not carried out."""
        placed = (u for u in self.unloads if u["placement"] is not None and u["placement"]["destination"] is not None)
        return tuple(unload for unload in placed if not unload["is_held"])

    @property
    def splitting(self) -> tuple[Row, ...]:
        """Splits that are not held back."""
        return tuple(split for split in self.splits if not split["is_held"])

    @property
    def refused_wishes(self) -> tuple[Row, ...]:
        """Return the refused manual requests."""
        return tuple(filter(is_wish, self.refusals))

    @property
    def placed_ownerless(self) -> tuple[Row, ...]:
        """Placements of bundles without an owner for which a broker was found."""
        return tuple(placement for placement in self.ownerless if placement["destination"] is not None)


def decisions(tables: Mapping[str, Sequence[Row]]) -> Decisions:
    """Group the rows of the decided tables."""
    guards, whys = tables.get("guard_decisions", ()), Whys(tables)
    held = held_bundles(guards)
    traffic = traffic_of(tables["bundle_load"])
    placed = [row for row in tables["placement_decisions"] if row["outcome"] in ("placed", "refused", "kept")]
    settings = tables.get("settings", ())
    by_bundle = {row["subject"]: _placement(row, strategy_of(row, settings), whys) for row in placed}
    every = [{**row, "kind": kind} for table, kind in _TABLES.items() for row in tables[table]]
    refused = [row for row in every if row["outcome"] == "refused"]
    let_be = sorted((row for row in every if row["outcome"] in ("kept", "skipped")), key=_distance)
    return Decisions(
        sheddings=_sheddings(tables["unload_decisions"], by_bundle, traffic, held, whys),
        ownerless=_ownerless(placed, by_bundle),
        splits=tuple(
            {
                **row,
                "cuts": [f"0x{cut:08x}" for cut in row["cuts"] or ()],
                "why": whys.of("split_decisions", row),
                "is_held": row["subject"] in held["split"],
            }
            for row in tables["split_decisions"]
            if row["outcome"] == "split"
        ),
        refusals=tuple(sorted(refused, key=lambda row: (row["kind"], row["subject"]))),
        considered=tuple(let_be[:MOST_CONSIDERED]),
        considered_count=len(let_be),
        held=_objections(guards, "bundle", "held", whys),
        standstill=_objections(guards, "cluster", "held", whys),
        excepted=_objections(guards, "bundle", "allowed", whys),
    )


def _is_held(unload: Row, held: Mapping[str, Collection[str]]) -> bool:
    if is_topic_unload(unload):
        return bundle_of_topic(unload) in held[UNLOAD_TOPIC]
    return unload["subject"] in held[UNLOAD]


def held_bundles(guards: Sequence[Row]) -> dict[str, frozenset[str]]:
    """Return by kind of command the bundles whose commands are held back."""
    held = [row for row in guards if row["outcome"] == "held"]
    return {
        kind: frozenset(row["subject"] for row in held if row["kind"] == kind) for kind in (SPLIT, UNLOAD, UNLOAD_TOPIC)
    }


def _objections(guards: Sequence[Row], subject_kind: str, outcome: str, whys: Whys) -> tuple[Row, ...]:
    """Return the guards' rows of one outcome in the order of the plan."""
    objecting = [row for row in guards if (row["subject_kind"], row["outcome"]) == (subject_kind, outcome)]
    return tuple(
        {**row, "why": whys.of("guard_decisions", row)}
        for row in sorted(objecting, key=lambda row: (row["position"], row["rule"]))
    )


def _ownerless(rows: Sequence[Row], placements: Mapping[str, Row]) -> tuple[Row, ...]:
    """Return bundles without owner that got one: first those where anti-affinity had an effect, then by name."""
    placed = [placements[row["subject"]] for row in rows if row["cause"] == "no_owner" and row["outcome"] == "placed"]
    return tuple(sorted(placed, key=lambda row: (not row["changed_by_anti_affinity"], row["subject"])))


def _sheddings(
    rows: Sequence[Row],
    placements: Mapping[str, Row],
    traffic: Mapping[str, float],
    held: Mapping[str, Collection[str]],
    whys: Whys,
) -> tuple[SheddingLine, ...]:
    taken: dict[str, list[Row]] = {}
    for row in rows:
        if row["subject_kind"] in ("bundle", "topic") and row["outcome"] == "unload":
            taken.setdefault(row["broker"] or "", []).append(row)
    sheds = {row["subject"]: row for row in rows if row["subject_kind"] == "broker" and row["outcome"] == "unload"}
    return tuple(
        SheddingLine(
            broker,
            sheds[broker]["sentence"] if broker in sheds else "",
            tuple(
                {
                    **row,
                    "traffic": traffic.get(row["subject"]),
                    "average": _average(row),
                    "placement": placements.get(row["subject"]),
                    "why": whys.of("unload_decisions", row),
                    "is_held": _is_held(row, held),
                    "is_topic": is_topic_unload(row),
                }
                for row in sorted(bundles, key=lambda row: (row["numbers"].get("rank", 0.0), row["subject"]))
            ),
            whys.of("unload_decisions", sheds[broker]) if broker in sheds else None,
        )
        for broker, bundles in sorted(taken.items())
    )


def _average(row: Row) -> float | None:
    """Return the average that a modular shedder used; TransferShedder uses the latest figures: None."""
    average: float | None = row["numbers"].get("bundle_throughput")
    return None if row["strategy"] in SHEDDERS_OF["extensible"] else average


def _placement(row: Row, strategy: str, whys: Whys) -> Row:
    """Return the row of a bundle's destination with its `why`; `destination` None: no broker.

    `others` counts candidates not listed; `scored` names the candidates' score, and `unit` its unit.
    """
    candidates = candidates_of(row, strategy)
    scored, unit = scored_by(strategy)
    return {
        **row,
        "destination": row["destination"] if row["outcome"] == "placed" else None,
        "candidates": candidates[:MOST_CANDIDATES],
        "others": max(0, len(candidates) - MOST_CANDIDATES),
        "scored": scored,
        "unit": unit,
        "why": whys.of("placement_decisions", row),
    }


def is_wish(row: Row) -> bool:
    """Return True for a decision that an operator asked for."""
    return bool(row["strategy"] == BY_REQUEST)


def _distance(row: Row) -> tuple[float, int, str, str]:
    """Return the sort key by distance to the limit: margin over threshold; rows without numbers keep their order."""
    order = {"cluster": 0, "broker": 1, "bundle": 2}.get(row["subject_kind"], 3)
    if order < 2:
        return (-1.0, order, row["kind"], row["subject"])
    margin, threshold = row["margin"], row["threshold"]
    far = abs(margin / threshold) if margin is not None and threshold else 1e9
    return (far, order, row["kind"], row["subject"])


# Details of a decision in the report: the rule with its numbers, and the rejected alternatives.


@dataclass(frozen=True, slots=True)
class Why:
    """A reason in the words of `evenkeel explain`; `others` are empty if the report shows them in a table."""

    rule: str
    others: tuple[str, ...] = ()


class Whys:
    """The explanations of a cycle's rows; each is made when it is asked for."""

    def __init__(self, tables: Mapping[str, Sequence[Row]]) -> None:
        self._tables, self._settings = tables, tables.get("settings", ())

    def of(self, table: str, row: Row) -> Why:
        """The explanation of one row of a decided table."""
        reason = reason_of(table, row, self._tables[table], self._settings)
        others = () if table == "placement_decisions" else reason.alternatives[:MOST_LINES]
        return Why(rule_line(reason), tuple(alternative_line(option) for option in others))
