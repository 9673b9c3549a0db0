"""Charts held against Vega-Lite's schema, which drawing them does not do: a word that it does not know is left out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def checked_charts() -> Iterator[list[Any]]:
    """What is drawn in a `with` block is checked after it; there has to be something."""
    import altair
    import vl_convert

    draw, drawn = vl_convert.vegalite_to_svg, list[Any]()

    def noted(chart: Any, **more: Any) -> Any:
        drawn.append(chart)
        return draw(chart, **more)

    with patch("vl_convert.vegalite_to_svg", noted):
        yield drawn
    assert drawn
    for chart in drawn:
        altair.Chart.from_dict({**chart, "$schema": altair.SCHEMA_URL}, validate=True)
