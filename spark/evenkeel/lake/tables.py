"""All tables of the lake, by name and in the order of the pipeline."""

from __future__ import annotations

from evenkeel.lake.acted import ACTED
from evenkeel.lake.decided import DECIDED
from evenkeel.lake.derived import DERIVED
from evenkeel.lake.kept import KEPT
from evenkeel.lake.observed import OBSERVED
from evenkeel.lake.schema import Table
from evenkeel.lake.steered import STEERED
from evenkeel.lake.wished import WISHED

TABLES: dict[str, Table] = {
    table.name: table for table in (*OBSERVED, *DERIVED, *WISHED, *DECIDED, *ACTED, *STEERED, *KEPT)
}
