"""Explanations of decisions: for a bundle, topic, broker or command, at a moment or over a range.

`subject` parses the question, `ask` finds cluster and cycles, `cycles` reads their rows, `explanation` and `changes`
interpret them, `rendering` writes text or JSON. Everything is read without a JVM.
"""

from __future__ import annotations

from evenkeel.explain.ask import Times, explain, times
from evenkeel.explain.explanation import Course, Moment
from evenkeel.explain.rendering import as_json, as_text

__all__ = ["Course", "Moment", "Times", "as_json", "as_text", "explain", "times"]
