"""The order of figures as Java has it (Double.compare): not-a-number comes after everything, also after infinity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any


def by_figure(figures: Mapping[str, float]) -> Callable[[str], Any]:
    """A sort key for names by their figures. Not-a-number would mix up a sort in Python."""
    if not any(map(math.isnan, figures.values())):
        return figures.__getitem__
    return {name: (1, 0.0) if math.isnan(x) else (0, x) for name, x in figures.items()}.__getitem__
