"""What would have changed an answer: the decision is asked again with one figure or setting changed.

`question` asks, `boundary` finds the nearest value, `figures` has what may be changed, `inputs` reads a cycle's rows,
and `change` puts the answer into words. What is said is true of the deciding code: it was asked on both sides.
"""

from __future__ import annotations

from evenkeel.explain.changes.change import Change, without_groups
from evenkeel.explain.changes.question import AskedCycle

__all__ = ["AskedCycle", "Change", "without_groups"]
