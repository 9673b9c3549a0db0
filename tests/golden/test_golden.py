"""The decision code answers as Pulsar's own classes do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from devtools.conformance.cases import Case, case_files, read_cases
from devtools.conformance.comparing import canonical
from devtools.conformance.runner import AGREED, judge

HERE = Path(__file__).parent
FILES = case_files([HERE])
CASES: dict[Path, list[Case]] = {file: list(read_cases(file)) for file in FILES}
FEWEST = {
    "anti_affinity": 97,
    "boundaries": 75,
    "bundle_of": 73,
    "bundle_split_apply": 95,
    "candidates": 82,
    "cycle": 87,
    "hash": 118,
    "long_short_term": 73,
    "select": 176,
    "shed_avg": 119,
    "shed_overload": 127,
    "shed_threshold": 159,
    "shed_uniform": 166,
    "split_algo": 207,
    "split_decide": 119,
    "split_decide_ext": 86,
    "topk": 215,
    "transfer_shed": 332,
    "usage": 111,
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.partition(".")[0])
def test_decisions_are_pulsars_own(file: Path) -> None:
    wrong = []
    for case in CASES[file]:
        verdict = judge(case)
        if verdict.result != AGREED:
            expected = case.error or canonical(case.expected or {})
            wrong.append(f"{case.id}: expected {expected}, got {verdict.got}")
    assert wrong == []


def test_no_case_has_gone_missing() -> None:
    assert Counter(case.op for cases in CASES.values() for case in cases) == FEWEST
