"""All tables of the lake, by name and in the order of the pipeline."""

from __future__ import annotations

from evenkeel.lake.schema import Table
from evenkeel.lake.schemas.acted import ACTED, STEERED, WISHED
from evenkeel.lake.schemas.decided import DECIDED, PLANNER_TABLES
from evenkeel.lake.schemas.kept import HEAT, KEPT, REPLAYED
from evenkeel.lake.schemas.observed import DERIVED, OBSERVED

TABLES: dict[str, Table] = {
    table.name: table for table in (*OBSERVED, *DERIVED, *WISHED, *DECIDED, *ACTED, *STEERED, *KEPT, *REPLAYED)
}
OF_RECORD = tuple(name for name, table in TABLES.items() if table not in REPLAYED)
"""The tables of the record; the others are made by the first replay."""
FROM_THE_FIRST = tuple(name for name in OF_RECORD if name not in PLANNER_TABLES)
"""Tables of every lake from its first cycle on; the planner's are made when it first runs, or by upkeep."""
HEAT_TABLES: dict[str, Table] = {table.name: table for table in HEAT}
"""Tables outside the record that Python alone writes: rules cannot read their bytes."""
EVERY_TABLE: dict[str, Table] = {**TABLES, **HEAT_TABLES}
