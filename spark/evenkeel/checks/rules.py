"""What a rule is, and what came of it for one cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

REJECT = "reject"
QUARANTINE = "quarantine"
WARN = "warn"
SEVERITIES = (REJECT, QUARANTINE, WARN)

_SAMPLE = 10
_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of one table or of several.

    `severity`: reject sets the record aside, quarantine leaves the cluster out of the cycle, warn only records.
    `kind` is expectation or cross_table; `advice` says what an operator can do; `definition` is the rule as it stands.
    """

    name: str
    table: str
    severity: str
    advice: str
    kind: str = "cross_table"
    unit: str | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule found in one cluster: how many it looked at, who broke it, and the sentence to say so."""

    checked: int
    offenders: Sequence[str] = ()
    said: str = ""
    measured: float | None = None
    threshold: float | None = None
    failed: int | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing broke the rule."""
        return not self.offenders and not self.failed


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of validation_results."""

    cluster: str
    rule: Rule
    found: Found

    @property
    def passed(self) -> bool:
        """Whether the cluster meets the rule."""
        return self.found.passed

    def row(self) -> dict[str, Any]:
        """The columns of `validation_results`, without cluster and cycle."""
        rule, found = self.rule, self.found
        return {
            "checked_table": rule.table,
            "rule": rule.name,
            "kind": rule.kind,
            "severity": rule.severity,
            "passed": found.passed,
            "checked_rows": found.checked,
            "failed_rows": len(found.offenders) if found.failed is None else found.failed,
            "measured": found.measured,
            "threshold": found.threshold,
            "unit": rule.unit,
            "sample": [shortened(name) for name in sorted(set(found.offenders))[:_SAMPLE]],
            "detail": self.sentence(),
            "definition": json.dumps(definition_of(rule), sort_keys=True, ensure_ascii=False),
        }

    def sentence(self) -> str:
        """What was found and what to do."""
        if self.passed:
            return f"{self.found.checked} looked at, all in order."
        return f"{self.found.said} {_CONSEQUENCES[self.rule.severity]} {self.rule.advice}".strip()


_CONSEQUENCES = {
    REJECT: "Set aside, the rest goes on.",
    QUARANTINE: "The cluster is left out of this cycle.",
    WARN: "Recorded only.",
}


def definition_of(rule: Rule) -> dict[str, Any]:
    """The rule as it stands, for the record."""
    return {"rule": rule.name, "severity": rule.severity, "advice": rule.advice, **rule.definition}


def shortened(name: str) -> str:
    """A name that fits a line: the middle of very long ones is left out."""
    return name if len(name) <= _NAME_LENGTH else f"{name[:120]}… ({len(name)} characters) …{name[-40:]}"


def listing(names: Sequence[str], most: int = 3) -> str:
    """A few names in order, and how many more there are."""
    ordered = sorted(set(names))
    shown = ", ".join(shortened(name) for name in ordered[:most])
    return shown if len(ordered) <= most else f"{shown} and {len(ordered) - most} more"
