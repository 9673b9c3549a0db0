"""All tables of the lake, by name and in the order of the pipeline."""

from __future__ import annotations

from evenkeel.lake.acted import ACTED
from evenkeel.lake.decided import DECIDED
from evenkeel.lake.derived import DERIVED
from evenkeel.lake.kept import KEPT
from evenkeel.lake.observed import OBSERVED
from evenkeel.lake.replayed import REPLAYED
from evenkeel.lake.schema import Table
from evenkeel.lake.steered import STEERED
from evenkeel.lake.wished import WISHED

TABLES: dict[str, Table] = {
    table.name: table for table in (*OBSERVED, *DERIVED, *WISHED, *DECIDED, *ACTED, *STEERED, *KEPT, *REPLAYED)
}
OF_RECORD = tuple(name for name, table in TABLES.items() if table not in REPLAYED)
"""What every lake has from its first cycle on; the others are made when something is replayed."""
