"""Why something was decided: for a bundle, topic, broker or command, at a moment or over a range.

`ask` finds cluster and cycles, `gather` reads their rows, `model` and `changes` say what they mean, `text` and
`as_json` write it down. Everything is read without a JVM.
"""

from __future__ import annotations

from evenkeel.record.explain.ask import Times, explain, times
from evenkeel.record.explain.explanation import Course, Moment
from evenkeel.record.explain.rendering import as_json, as_text

__all__ = ["Course", "Moment", "Times", "as_json", "as_text", "explain", "times"]
