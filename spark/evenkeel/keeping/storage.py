"""What a lake holds: bytes and files per table and per cycle, and what of it is not rows. From the logs alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from evenkeel.errors import NoLake
from evenkeel.keeping.inventory import Inventory, bytes_on_disk, log_on_disk, take_inventory
from evenkeel.lake.store import Lake
from evenkeel.lake.tables import TABLES


@dataclass(frozen=True, slots=True)
class Stored:
    """One table. `disk` and `log` are None where the table lies in an object store."""

    table: str
    files: int
    rows: int
    live: int
    disk: int | None
    log_files: int | None
    log: int | None
    last_date: int
    uncompacted: int

    @property
    def history(self) -> int | None:
        """Bytes of files that only earlier versions name."""
        return None if self.disk is None or self.log is None else max(0, self.disk - self.live - self.log)


@dataclass(frozen=True, slots=True)
class Lakeful:
    """All tables, the cycles on record, and the newest whole date with its number of cycles."""

    tables: tuple[Stored, ...]
    cycles: int
    last_date: date | None
    cycles_of_last_date: int


def measure(root: str) -> Lakeful:
    """Takes the inventory of every table. Raises NoLake where there is no lake."""
    from deltalake import DeltaTable

    lake = Lake(root)
    if not DeltaTable.is_deltatable(lake.path("cycles")):
        raise NoLake(f"there is no lake at {root}: its `cycles` table is missing. Name the folder of the tables")
    found = {
        name: take_inventory(table, lake.path(name))
        for name, table in TABLES.items()
        if DeltaTable.is_deltatable(lake.path(name))
    }
    cycles = _cycles(lake)
    newest = max(cycles, default=None)
    whole = newest - timedelta(days=1) if newest and newest - timedelta(days=1) in cycles else newest
    tables = tuple(_stored(lake, name, inventory, whole) for name, inventory in found.items())
    return Lakeful(tables, sum(cycles.values()), whole, cycles.get(whole, 0) if whole else 0)


def _stored(lake: Lake, name: str, inventory: Inventory, day: date | None) -> Stored:
    log = log_on_disk(lake.path(name))
    return Stored(
        table=name,
        files=len(inventory.files),
        rows=inventory.rows,
        live=inventory.size,
        disk=bytes_on_disk(lake.path(name)),
        log_files=log[0] if log else None,
        log=log[1] if log else None,
        last_date=sum(file.size for file in inventory.files if file.date is not None and file.date == day),
        uncompacted=sum(file.write_id is not None for file in inventory.files),
    )


def _cycles(lake: Lake) -> dict[date, int]:
    """Cycles on record by date: clusters and moments, however often decided."""
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    dataset = DeltaTable(lake.path("cycles")).to_pyarrow_dataset()
    planned = dataset.to_table(columns=["cluster", "cycle_at", "cycle_date"], filter=pc.field("row_kind") == "planned")
    distinct = planned.group_by(["cluster", "cycle_at", "cycle_date"]).aggregate([])
    counted = distinct.group_by("cycle_date").aggregate([("cycle_at", "count")])
    return dict(zip(counted["cycle_date"].to_pylist(), counted["cycle_at_count"].to_pylist(), strict=True))
