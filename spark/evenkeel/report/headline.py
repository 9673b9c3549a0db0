"""The first sentences of a report: the plan, its effect, and the action to take about a cycle left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from evenkeel.explain import wording
from evenkeel.lake.record import Attempt, Row
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.model import amounts
from evenkeel.report.decisions import Decisions, is_wish


@dataclass(frozen=True, slots=True)
class Headline:
    """The headline. `mode` is a word or two, `text` the sentence, `effect` its effect or why it has none."""

    mode: str
    text: str
    effect: str
    advice: tuple[str, ...] = ()


def headline(
    attempt: Attempt, decided: Decisions, checks: Sequence[Row], unload_rows: Sequence[Row], outcomes: str = ""
) -> Headline:
    """Return the headline of one cycle; `outcomes` counts its commands by outcome."""
    mode = "Dry run: nothing was sent" if attempt.mode == "dry_run" else f"Mode {attempt.mode}"
    if attempt.status == "skipped":
        return Headline(mode, "This cycle was skipped: nothing was decided.", _stop(attempt), _advice(attempt, checks))
    if attempt.status == "failed":
        return Headline(mode, "This cycle failed: nothing was decided.", _stop(attempt), _advice(attempt, checks))
    acts = _acts(decided)
    held = _held(decided)
    rows = [row for row in unload_rows if row["strategy"] == BY_DRAINING and row["subject_kind"] == "broker"]
    drained = [str(row["sentence"]) for row in sorted(rows, key=lambda row: str(row["subject"]))]
    if not acts:
        why = " ".join(filter(None, (*(drained or [_why_nothing(decided, unload_rows)]), _wishes(decided))))
        return Headline(mode, f"Evenkeel would leave this cluster as it is{held.replace(';', ':', 1)}.", why)
    would = "would" if attempt.mode == "dry_run" else "decided to"
    text = f"Evenkeel {would} {wording.listed(acts)}"
    if attempt.status == "withheld":
        return Headline(mode, f"{text}, and held it back.", _stop(attempt))
    came = f"Of the commands that were on record: {outcomes}. " if outcomes else ""
    came += f"{_stop(attempt)} " if attempt.status == "closed" and attempt.reason else ""
    return Headline(mode, f"{text}{held}.", " ".join((f"{came}{_effect(attempt, decided)}".rstrip(), *drained)).strip())


def _held(decided: Decisions) -> str:
    """Return how many commands guards hold back, as the end of a sentence."""
    if not decided.held:
        return ""
    return f"; {amounts.plural(len(decided.held), 'command')} {_were(len(decided.held))} held back"


def _acts(decided: Decisions) -> list[str]:
    acts = []
    if decided.moving:
        moving = {unload["subject"] for unload in decided.moving}
        sources = [s.broker for s in decided.sheddings if any(unload["subject"] in moving for unload in s.unloads)]
        one = wording.shortened(wording.visible(sources[0]), 80)
        where = one if len(sources) == 1 else f"{len(sources)} brokers"
        acts.append(f"unload {amounts.plural(len(decided.moving), 'bundle')} from {where}")
    if decided.splitting:
        acts.append(f"split {amounts.plural(len(decided.splitting), 'bundle')}")
    if number := len(decided.placed_ownerless):
        acts.append(f"place {amounts.plural(number, 'bundle')} that {'has' if number == 1 else 'have'} no owner")
    return acts


def _effect(attempt: Attempt, decided: Decisions) -> str:
    row, parts = attempt.planned, []
    if row["moved_traffic_share"]:
        does = "That moves" if decided.moving else "That concerns"
        parts.append(f"{does} {amounts.percent(row['moved_traffic_share'])} of the cluster's traffic.")
    before, after = row["before_max_over_mean"], row["after_max_over_mean"]
    if before is not None and after is not None and f"{before:.2f}" != f"{after:.2f}":
        parts.append(
            f"By share of traffic, the busiest broker would go from {amounts.ratio(before)} to {amounts.ratio(after)} "
            "times the mean usage."
        )
    refused = len(decided.refusals) - len(decided.refused_wishes)
    if refused:
        parts.append(f"{amounts.plural(refused, 'further act')} {_were(refused)} refused.")
    return " ".join((*parts, _wishes(decided))).rstrip()


def _wishes(decided: Decisions) -> str:
    """Return the answer to a manual request, or the number of answers to look up."""
    refused = decided.refused_wishes
    if len(refused) < 2:
        return "".join(str(wish["sentence"]) for wish in refused)
    return f"{len(refused)} requests were refused, each with its reason below."


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _why_nothing(decided: Decisions, unload_rows: Sequence[Row]) -> str:
    """Return the sentence of the row nearest to an act: a guard's, the cluster's, a refusal, the busiest broker's."""
    stopped = (*decided.standstill, *decided.held)
    if stopped:
        return str(stopped[0]["sentence"])
    whole = [row for row in unload_rows if row["subject_kind"] == "cluster"]
    if whole:
        return str(whole[0]["sentence"])
    refused = [row for row in decided.refusals if not is_wish(row)]
    if refused:
        return str(refused[0]["sentence"])
    brokers = [row for row in unload_rows if row["subject_kind"] == "broker" and row["margin"] is not None]
    limited = [row for row in brokers if row["setting"] is not None]  # the others were compared with another broker
    if brokers:
        return str(max(limited or brokers, key=lambda row: (row["margin"], row["subject"]))["sentence"])
    return "No bundle and no broker is over a limit."


def _stop(attempt: Attempt) -> str:
    return wording.ended(attempt.reason or "No reason is on record")


def _advice(attempt: Attempt, checks: Sequence[Row]) -> tuple[str, ...]:
    """Return the action to take about a cycle that did not decide."""
    details = [str(check["detail"]) for check in checks if not check["passed"] and check["severity"] == "quarantine"]
    if attempt.status == "failed":
        run = f"{attempt.planned['dag_id'] or 'the run'} / {attempt.planned['run_id'] or 'unknown'}"
        details.append(
            f"See the log of the task that is red in {run}, and clear it to run again: nothing is decided twice."
        )
    else:
        details.append("The next cycle tries again; other clusters are not affected. The load below was still read.")
    return tuple(details)


_SEVERITIES = ("quarantine", "reject", "warn")
_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class RejectionSummary:
    """Records that one rule set aside from one table, with the first few of them (place, reason, record)."""

    rule: str
    table: str
    count: int
    samples: tuple[tuple[str, str, str], ...]


def checks(rows: Sequence[Row]) -> list[Row]:
    """All rules, as rows of `validation_results`: failed ones first, the gravest first among them."""
    rank = {severity: n for n, severity in enumerate(_SEVERITIES)}
    return sorted(
        rows,
        key=lambda row: (row["passed"], rank.get(row["severity"], len(rank)), row["checked_table"], row["rule"]),
    )


def rejections(rows: Sequence[Row]) -> tuple[RejectionSummary, ...]:
    """Records set aside, by table and rule."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["rejected_from"], row["rule"]), []).append(row)
    return tuple(
        RejectionSummary(
            rule,
            table,
            len(records),
            tuple((f"{row['file']}, {row['place']}", row["reason"], row["record"] or "") for row in records[:_SAMPLES]),
        )
        for (table, rule), records in sorted(groups.items())
    )


OPEN = "open"
_BUT_HARMED = " but harmed"
_NOTHING_YET = "Nothing is on record of it yet: the next cycle looks."
_MOODS = {"done": "good", OPEN: "warn", "unknown": "warn", "stale": "warn", "withheld": "warn", "overridden": "warn"}


@dataclass(frozen=True, slots=True)
class Result:
    """A command and its outcome: also `open`, or `done but harmed` by a later cycle. `mood`: good, warn or bad."""

    kind: str
    bundle: str
    from_broker: str
    destination: str
    outcome: str
    seen_at: datetime | None
    detail: str

    @property
    def did_harm(self) -> bool:
        """Return True if a later cycle has seen harm."""
        return self.outcome.endswith(_BUT_HARMED)

    @property
    def mood(self) -> str:
        """good, warn or bad, by the outcome."""
        return _MOODS.get(self.outcome, "bad")


def harm_lines(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return a sentence for each command that did harm, the latest seen first; `rows` are commands with their harm."""
    latest = sorted(rows, key=lambda row: row["command_id"])
    return tuple(_harm_line(row) for row in sorted(latest, key=lambda row: row["seen_at"], reverse=True))


def _harm_line(row: Row) -> str:
    goal = f" to {row['destination']}" if row["destination"] else ""
    start = f" from {row['from_broker']}" if row["from_broker"] else ""
    return (
        f"The {row['kind']} of {row['bundle']}{start}{goal}, decided at {wording.time(row['cycle_at'])}, did harm, "
        f"seen at {wording.time(row['seen_at'])}: {row['detail']}."
    )


def results(commands: Iterable[Row], harm: Mapping[str, str] | None = None) -> tuple[Result, ...]:
    """Return the results of commands with their last `outcome`, `seen_at` and `detail`, harmful ones first.

    Outcomes of a dry run are not results. `harm`: command id -> its harm, in words.
    """
    every = tuple(
        Result(
            row["kind"],
            row["bundle"],
            row["from_broker"] or "",
            row["destination"] or "",
            (row["outcome"] or OPEN) + (_BUT_HARMED if row["command_id"] in (harm or {}) else ""),
            row["seen_at"],
            (harm or {}).get(row["command_id"]) or row["detail"] or _NOTHING_YET,
        )
        for row in sorted(commands, key=lambda row: row["step"])
        if row["mode"] != "dry_run"
    )
    return tuple(sorted(every, key=lambda result: not result.did_harm))


def tally(counted: Sequence[Result]) -> str:
    """Return counts in words, as `1 done but harmed, 8 done`: harm first, then the most frequent, then by name."""
    counts = Counter(result.outcome for result in counted)
    ordered = sorted(counts.items(), key=lambda pair: (not pair[0].endswith(_BUT_HARMED), -pair[1], pair[0]))
    return wording.listed([f"{number:,} {outcome.replace('_', ' ')}" for outcome, number in ordered])
