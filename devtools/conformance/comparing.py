"""Equality of two answers: decisions exactly, doubles to a relative 1e-12, errors by being errors."""

from __future__ import annotations

import math
from typing import Any

RELATIVE_TOLERANCE = 1e-12
NOT_PART_OF_THE_ANSWER = ("accepted", "stateOrderDependent")


def canonical(answer: dict[str, Any]) -> dict[str, Any]:
    """Pulsar's answer with ties broken by name, without the notes about other orders."""
    return {k: v for k, v in answer.items() if k not in NOT_PART_OF_THE_ANSWER}


def same(expected: Any, got: Any) -> bool:
    """Return True if `got` is the expected answer."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(same(v, got[k]) for k, v in expected.items())
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(same, expected, got))
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(got, float) and not math.isfinite(got):
        return bool(expected == _spelled(got))
    if isinstance(expected, float) or isinstance(got, float):
        return _close(expected, got)
    return bool(expected == got)


def _close(expected: Any, got: Any) -> bool:
    if not isinstance(expected, int | float) or not isinstance(got, int | float):
        return False
    return math.isclose(expected, got, rel_tol=RELATIVE_TOLERANCE, abs_tol=0.0)


def _spelled(x: float) -> str:
    return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
