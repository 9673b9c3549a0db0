"""Heat of bundles over time: tables built from the record, and pictures read from them.

`build` updates the tables `heat_blocks` and `heat_marks` from the record (the DAG `heat`, `evenkeel heat`); `picture`
reads a cluster's heat over any range of time. Pure modules are the scale and the layers (`scale`), ranges of keys
(`key_ranges`), the content of a column and changes of owner (`columns`), blocks as bytes (`blocks`) and a picture's
rows (`rows_shown`). No JVM is needed anywhere.
"""

from __future__ import annotations

from evenkeel.heat.builder import Built, as_json, as_text, build
from evenkeel.heat.heat_picture import HeatPicture
from evenkeel.heat.reader import Within, picture

__all__ = ["Built", "HeatPicture", "Within", "as_json", "as_text", "build", "picture"]
