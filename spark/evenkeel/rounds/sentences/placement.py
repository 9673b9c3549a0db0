"""Sentences about placement by the modular manager."""

from __future__ import annotations

from evenkeel.model.amounts import amount
from evenkeel.model.considered import Considered
from evenkeel.rounds.sentences.words import Template, Templates, destination_of, plural


def placed(how: str) -> Template:
    """The sentence of a bundle that goes to a broker; `how` says by what, with the words of `placement_words`."""

    def text(row: Considered) -> str:
        start = f"{row.subject} goes from {row.broker}" if row.broker else f"{row.subject} goes"
        return f"{start} to {destination_of(row)}: {how.format(**placement_words(row))}."

    return text


def placement_words(row: Considered) -> dict[str, str]:
    """What a sentence about a placement may name: word -> text."""
    score = row.numbers.get("score")
    removed = int(row.numbers.get("removed", 0))
    others = plural(row.numbers.get("candidates", 1), "candidate")
    filters = f", {plural(removed, 'broker')} filtered out" if removed else ""
    ties = row.numbers.get("best", 1)
    tie = f" (first by name of {amount(ties, 'count')} equal ones)" if ties > 1 else ""
    rate = "is overloaded like all others" if score is None else _rate_words(score)
    usage = f"its average usage of {amount(score, 'fraction')}"
    mean = f"the candidates' mean of {amount(row.numbers.get('mean_usage'), 'fraction')}"
    return {"rate": rate, "usage": usage, "mean": mean, "others": others, "filters": filters, "tie": tie}


def _rate_words(rate: float) -> str:
    return f"has the least long-term message rate, {amount(rate, 'msg/s')}"


def _planned_templates() -> Templates:
    """Of AvgShedder's placement, also for the second look without filters."""
    texts = {
        "planned_destination": "the shedder has planned it so",
        "no_plan": "nothing is planned for it, and of {others}{filters} it is the first by name",
        "planned_is_no_candidate": "the planned broker is no candidate, and of the others it is the first by name",
        "planned_is_overloaded": "the planned broker is overloaded, and of the healthy ones it is the first by name",
    }
    first = {("placed", rule): placed(text) for rule, text in texts.items()}
    again = "all candidates left by the filters are overloaded; without filters "
    return first | {("placed", f"{rule}_of_all_allowed"): placed(again + text) for rule, text in texts.items()}


_UNFILTERED = "all candidates left by the filters are overloaded, and of {others} without filters "

PLACEMENT: Templates = {
    ("placed", "least_long_term_rate"): placed("of {others}{filters}, it {rate}{tie}"),
    ("placed", "least_long_term_rate_of_all_allowed"): placed(f"{_UNFILTERED}it {{rate}}{{tie}}"),
    ("placed", "below_mean_usage"): placed("of {others}{filters}, {usage} is well below {mean}{tie}"),
    ("placed", "below_mean_usage_of_all_allowed"): placed(f"{_UNFILTERED}{{usage}} is well below {{mean}}{{tie}}"),
    ("placed", "near_mean_usage"): placed("of {others}{filters}, none is well below {mean}{tie}"),
    ("placed", "near_mean_usage_of_all_allowed"): placed(f"{_UNFILTERED}none is well below {{mean}}{{tie}}"),
    **_planned_templates(),
    ("placed", "in_turns"): placed("it is its turn among {others}{filters}"),
    ("placed", "in_turns_of_all_allowed"): placed(f"{_UNFILTERED}it is its turn"),
    ("placed", "preallocated"): placed("it was given to that broker before"),
    ("placed", "brokers_own_namespace"): placed("it is that broker's own"),
    ("kept", "already_best"): lambda row: (
        f"{row.subject} stays on {row.broker}: placement would choose the same broker again."
    ),
    ("refused", "no_candidate"): lambda row: (
        f"{row.subject} {f'stays on {row.broker}' if row.broker else 'gets no broker'}: "
        f"none of {plural(len(row.alternatives), 'broker')} may have it."
    ),
}
