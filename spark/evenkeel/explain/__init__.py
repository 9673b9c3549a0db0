"""Why something was decided: for a bundle, topic, broker or command, at a moment or over a range.

`subject` reads what is asked, `ask` finds cluster and cycles, `cycles` reads their rows, `explanation` and `changes`
say what they mean, `rendering` writes it as text or JSON. Everything is read without a JVM.
"""

from __future__ import annotations

from evenkeel.explain.ask import Times, explain, times
from evenkeel.explain.explanation import Course, Moment
from evenkeel.explain.rendering import as_json, as_text

__all__ = ["Course", "Moment", "Times", "as_json", "as_text", "explain", "times"]
