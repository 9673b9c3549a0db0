"""Runs all cases, prints one line per operation and the first disagreements."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from devtools.conformance import extensible, leader_round, load, names, placement, shedding, splitting
from devtools.conformance.cases import Case, case_files, read_cases
from devtools.conformance.comparing import canonical, same
from evenkeel.errors import BadInput, EvenkeelError

Operation = Callable[[dict[str, Any]], dict[str, Any]]

OPERATIONS: Mapping[str, Operation] = {
    **names.OPERATIONS,
    **load.OPERATIONS,
    **splitting.OPERATIONS,
    **shedding.OPERATIONS,
    **placement.OPERATIONS,
    **extensible.OPERATIONS,
    **leader_round.OPERATIONS,
}
"""Every operation that Evenkeel decides, by its name in the cases."""

SHOWN = 3
AGREED, DISAGREED, NOT_IMPLEMENTED = "agreed", "disagreed", "not implemented"


@dataclass(slots=True)
class Tally:
    """Results of the cases of one operation."""

    agreed: int = 0
    total: int = 0
    skipped: int = 0

    def line(self, op: str) -> str:
        """The operation's line of the report."""
        return f"{op}: {self.agreed} of {self.total} agree ({self.skipped} not implemented)"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of one case; `got` is Evenkeel's answer as JSON-like value or the text of its error."""

    case: Case
    result: str
    got: Any


@dataclass(slots=True)
class Report:
    """Result of a run."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    disagreements: list[Verdict] = field(default_factory=list)
    disagreed: int = 0

    def add(self, verdict: Verdict) -> None:
        """Count one case."""
        tally = self.tallies.setdefault(verdict.case.op, Tally())
        if verdict.result == NOT_IMPLEMENTED:
            tally.skipped += 1
            return
        tally.total += 1
        tally.agreed += verdict.result == AGREED
        if verdict.result == DISAGREED:
            self.disagreed += 1
            if len(self.disagreements) < SHOWN:
                self.disagreements.append(verdict)


def judge(case: Case) -> Verdict:
    """Decide one case and compare with Pulsar's answer; whatever is raised but an `EvenkeelError` disagrees."""
    operation = OPERATIONS.get(case.op)
    if operation is None:
        return Verdict(case, NOT_IMPLEMENTED, None)
    try:
        got = operation(case.input)
    except EvenkeelError as error:
        return Verdict(case, DISAGREED if case.error is None else AGREED, f"error: {error}")
    except Exception as defect:  # a defect of ours in one case must not hide the others
        return Verdict(case, DISAGREED, f"defect: {defect!r}")
    if case.expected is None:
        return Verdict(case, DISAGREED, got)
    return Verdict(case, AGREED if same(canonical(case.expected), got) else DISAGREED, got)


def run(paths: Iterable[str | Path]) -> Report:
    """Judge every case in these files and folders."""
    report = Report()
    for file in case_files(paths):
        for case in read_cases(file):
            report.add(judge(case))
    if not report.tallies:
        raise BadInput(f"no case in {', '.join(map(str, paths))}: the files are empty")
    return report


def main(arguments: Sequence[str], out: TextIO | None = None, err: TextIO | None = None) -> int:
    """The command: 0 all implemented cases agree, 1 some disagree, 2 the cases cannot be read."""
    out, err = out or sys.stdout, err or sys.stderr
    if not arguments:
        err.write("usage: python -m devtools.conformance CASES_DIR_OR_FILE...\n")
        return 2
    try:
        report = run(list(arguments))
    except BadInput as error:
        err.write(f"conformance: {error}\n")
        return 2
    for op, tally in sorted(report.tallies.items()):
        out.write(tally.line(op) + "\n")
    for verdict in report.disagreements:
        out.write(_disagreement(verdict))
    if report.disagreed > len(report.disagreements):
        out.write(f"\n… and {report.disagreed - len(report.disagreements)} more disagreements\n")
    return 1 if report.disagreed else 0


def _disagreement(verdict: Verdict) -> str:
    case = verdict.case
    expected = f"error: {case.error}" if case.expected is None else canonical(case.expected)
    lines = (("input", case.input), ("expected", expected), ("got", verdict.got))
    return f"\n{case.id}\n" + "".join(f"  {name:8} {_shortened(value)}\n" for name, value in lines)


def _shortened(value: Any, longest: int = 1200) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"
