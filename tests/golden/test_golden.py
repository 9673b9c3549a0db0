"""The decision code answers as Pulsar's own classes do."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.conformance.cases import Case, case_files, read_cases
from evenkeel.conformance.comparing import canonical
from evenkeel.conformance.runner import AGREED, judge

HERE = Path(__file__).parent
CASES = [case for file in case_files([HERE]) for case in read_cases(file)]
FEWEST = {
    "anti_affinity": 97,
    "boundaries": 75,
    "bundle_of": 73,
    "bundle_split_apply": 95,
    "candidates": 82,
    "cycle": 87,
    "hash": 118,
    "long_short_term": 73,
    "select": 173,
    "shed_avg": 117,
    "shed_overload": 124,
    "shed_threshold": 159,
    "shed_uniform": 160,
    "split_algo": 207,
    "split_decide": 119,
    "split_decide_ext": 86,
    "topk": 213,
    "transfer_shed": 330,
    "usage": 111,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_decision_is_pulsars_own(case: Case) -> None:
    verdict = judge(case)
    expected = case.error or canonical(case.expected or {})
    assert verdict.result == AGREED, f"expected {expected}, got {verdict.got}"


def test_no_case_has_gone_missing() -> None:
    found: dict[str, int] = {}
    for case in CASES:
        found[case.op] = found.get(case.op, 0) + 1
    assert found == FEWEST
