"""One plain English sentence, with its numbers, for every verdict.

The templates stand in a module for each kind of decision; those of the frame around all stand here. A rule without a
template (a row of another version) still gets a sentence, made of its columns alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.model.considered import Considered
from evenkeel.rounds.sentences.manual_requests import WISHES
from evenkeel.rounds.sentences.placement import PLACEMENT
from evenkeel.rounds.sentences.shedding import BROKERS, BUNDLES, DIFFERENCES, PAIRS
from evenkeel.rounds.sentences.splits import SPLITTING, SPLITTING_EXTENSIBLE
from evenkeel.rounds.sentences.transfers import TRANSFERS
from evenkeel.rounds.sentences.words import Template, Templates, measured, threshold


def sentence(row: Considered) -> str:
    """What became of the subject and why, in one sentence that ends with a full stop."""
    template = TEMPLATES.get((row.outcome, row.rule))
    return template(row) if template else _plain(row)


def _plain(row: Considered) -> str:
    text = f"{row.subject}: {row.outcome} by the rule {row.rule.replace('_', ' ')}"
    if row.measured is not None and row.threshold is not None:
        text += f" (measured {measured(row)}, threshold {threshold(row)})"
    return f"{text}."


_FRAME: Templates = {
    ("skipped", "switched_off"): lambda row: f"Nothing is decided here: {row.setting} is off.",
    ("skipped", "too_few_brokers"): lambda row: (
        f"Nothing is decided here: it takes {threshold(row)} brokers, and {measured(row)} "
        f"{'is' if row.measured == 1 else 'are'} known."
    ),
    ("skipped", "no_report"): lambda row: (
        f"{row.subject} told nothing of its load: it is neither idle nor part of the average, and gets no bundle."
    ),
    ("skipped", "never_owned"): lambda row: (
        f"{row.subject} has had no owner as far as is known: Pulsar assigns it when a client first asks for it."
    ),
    ("skipped", "not_due"): lambda row: (
        f"Shedding is not due: the last round was {measured(row)} ago, and the interval is {threshold(row)}."
    ),
}

TEMPLATES: Mapping[tuple[str, str], Template] = {
    **SPLITTING,
    **BROKERS,
    **DIFFERENCES,
    **PAIRS,
    **BUNDLES,
    **PLACEMENT,
    **TRANSFERS,
    **SPLITTING_EXTENSIBLE,
    **WISHES,
    **_FRAME,
}
"""Every (outcome, rule) that decisions give, with its sentence."""
