"""Rules whose verdicts several tasks give."""

from __future__ import annotations

from evenkeel.model.consideration import Considered, Rule
from evenkeel.model.words import measured, threshold


def _too_few_brokers(row: Considered) -> str:
    are = "is" if row.measured == 1 else "are"
    return f"Nothing is decided: the rule needs {threshold(row)} brokers, and {measured(row)} {are} known."


def _brokers_own(row: Considered) -> str:
    return f"{row.subject} belongs to {row.broker or 'one broker'} alone and is never moved."


SWITCHED_OFF = Rule("skipped", "switched_off", lambda row: f"Nothing is decided: {row.setting} is off.")
TOO_FEW_BROKERS = Rule("skipped", "too_few_brokers", _too_few_brokers, "below")
BROKERS_OWN_NAMESPACE = Rule("skipped", "brokers_own_namespace", _brokers_own)
LEFT_TO_REQUEST = Rule("skipped", "wished", lambda row: f"{row.subject} is left to the manual request that names it.")
REPORTED_TWICE = Rule(
    "skipped",
    "reported_by_two_brokers",
    lambda row: (
        f"{row.subject} is reported by more than one broker; the report of {row.broker} is not the one acted on."
    ),
)
