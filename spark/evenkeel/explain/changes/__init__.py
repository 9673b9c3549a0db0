"""Changes that would have changed an answer: the decision is repeated with one figure or setting changed.

`question` repeats decisions, `boundary` finds the nearest value, `figures` has the figures that may be changed,
`inputs` reads a cycle's rows, and `change` puts the answer into words. Each answer is proven: the deciding code was run
on both sides of the boundary.
"""

from __future__ import annotations

from evenkeel.explain.changes.change import Change, without_groups
from evenkeel.explain.changes.question import AskedCycle

__all__ = ["AskedCycle", "Change", "without_groups"]
