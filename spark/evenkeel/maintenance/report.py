"""What an upkeep did, and what a lake holds, in lines for a person and objects for a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from evenkeel.maintenance.inventory import Lakeful, Stored
from evenkeel.maintenance.upkeep import Done
from evenkeel.model.amounts import size


def upkeep_as_text(done: Done) -> Iterator[str]:
    """A table, then the periods in force, what is left to do, and rows that are not what manifests list."""
    head = ("table", "files", "now", "size", "now", "expired", "unlisted", "freed", "oldest kept")
    rows = [
        (
            one.table, f"{one.files_before:,}", f"{one.files_after:,}", size(one.bytes_before), size(one.bytes_after),
            f"{one.rows_expired:,}", f"{one.rows_unlisted:,}", size(one.bytes_freed), str(one.oldest_kept or ""),
        )
        for one in done.tables
    ]  # fmt: skip
    yield from _columns(head, rows)
    yield ""
    yield f"kept, in days: {', '.join(f'{k} {v}' for k, v in done.periods.as_dict().items())}"
    yield from (f"left: {line}" for line in done.left)
    yield from (f"wrong: {line}" for line in done.wrong)


def upkeep_as_json(done: Done) -> Iterator[dict[str, Any]]:
    """An object per table: what upkeep did there."""
    for one in done.tables:
        yield {**asdict(one), "oldest_kept": str(one.oldest_kept) if one.oldest_kept else None}


def storage_as_text(stored: Lakeful) -> Iterator[str]:
    """A table, largest first, then what a cycle takes and what makes it grow."""
    head = ("table", "rows", "files", "size", "earlier versions", "log", "per cycle")
    tables = sorted(stored.tables, key=lambda one: (-(one.disk or one.live), one.table))
    rows = [
        (
            one.table, f"{one.rows:,}", f"{one.files:,}", size(one.live), size(one.history), size(one.log),
            size(_per_cycle(one, stored)),
        )
        for one in tables
    ]  # fmt: skip
    yield from _columns(head, rows)
    yield ""
    whole = sum(one.disk if one.disk is not None else one.live for one in tables)
    yield f"{size(whole)} in {sum(one.files for one in tables):,} files, for {stored.cycles:,} cycles"
    if stored.cycles_of_last_date:
        each = sum(one.last_date for one in tables) / stored.cycles_of_last_date
        yield f"a cycle of {stored.last_date} takes {size(each)} (tables that are not parted by date left out)"
    yield from _growth(tables)


def storage_as_json(stored: Lakeful) -> Iterator[dict[str, Any]]:
    """An object per table: rows, files and bytes, and the bytes that a cycle adds."""
    for one in stored.tables:
        yield {**asdict(one), "history": one.history, "bytes_per_cycle": _per_cycle(one, stored)}


def _growth(tables: Sequence[Stored]) -> Iterator[str]:
    """The largest shares, and what can be done about them."""
    whole = sum(one.disk if one.disk is not None else one.live for one in tables) or 1
    rows, history = max(tables, key=lambda one: one.live), sum(one.history or 0 for one in tables)
    log, small = sum(one.log or 0 for one in tables), sum(one.uncompacted for one in tables)
    yield f"most of all grows {rows.table}: {100 * rows.live / whole:.0f} % of the bytes are its rows"
    if history:
        yield f"files of earlier versions: {100 * history / whole:.0f} %; they go when --version-days is over"
    if log:
        yield f"logs: {100 * log / whole:.0f} %; they go with the versions"
    yield f"files of a single write: {small:,}; `evenkeel upkeep` makes few of them once their date is over"


def _per_cycle(one: Stored, stored: Lakeful) -> float:
    if one.last_date and stored.cycles_of_last_date:
        return one.last_date / stored.cycles_of_last_date
    return one.live / stored.cycles if stored.cycles else 0.0


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    for row in (head, *rows):
        cells = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip()
