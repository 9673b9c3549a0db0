"""`evenkeel export`, `evenkeel backup` and `evenkeel restore`: copies of a lake, or of a range of its cycles."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.cli.options import check_folder
from evenkeel.cli.output import add_json, course_of, print_result
from evenkeel.model.amounts import plural, size
from evenkeel.times import IN_UTC, bounds_given

if TYPE_CHECKING:
    from evenkeel.maintenance.backup import Copied


_PLACE = "DIR|s3a://BUCKET/PREFIX"


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of all three."""
    parser = commands.add_parser("export", help="write a range of cycles as a lake of its own, to verify elsewhere")
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    parser.add_argument("--cluster", metavar="NAME", help="of this cluster (default: of all)")
    parser.add_argument("--from", dest="since", required=True, metavar="TIME", help=f"the first cycle ({IN_UTC})")
    parser.add_argument(
        "--to", dest="until", required=True, metavar="TIME", help="the last cycle; a date is its whole day"
    )
    parser.add_argument("--out", required=True, metavar="DIR|FILE.tar", help="a new folder, or a new tar file")
    add_json(parser)
    parser.set_defaults(run=run_export)
    backup = commands.add_parser("backup", help="copy a lake while cycles go on; again: only what came since")
    backup.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    backup.add_argument("--to", required=True, metavar=_PLACE, help="an empty place, or an earlier backup of this lake")
    backup.add_argument("--prune", action="store_true", help="remove from the backup what the lake has no more")
    add_json(backup)
    backup.set_defaults(run=run_backup)
    restore = commands.add_parser("restore", help="make a lake of a backup, in an empty place")
    restore.add_argument("--from", dest="backup", required=True, metavar=_PLACE, help="a backup")
    restore.add_argument("--lake", required=True, metavar=_PLACE, help="an empty place")
    add_json(restore)
    restore.set_defaults(run=run_restore)


def run_backup(given: argparse.Namespace) -> int:
    """Copy a lake and report the copied amounts and the last cycle in the copy."""
    from evenkeel.maintenance.backup import back_up

    check_folder(given.to, "--to")
    with course_of("files") as progress:
        done = back_up(given.lake, given.to, now=lambda: datetime.now(UTC), prune=given.prune, progress=progress)
    newest = _newest_cycles(given.to)
    lines = [f"{given.to}: a backup of {given.lake}; {_what(done)}", *_on_record(newest)]
    lines.append(f"To check it: `evenkeel verify --lake {given.to}`. To use it: `evenkeel restore`")
    print_result(given, "\n".join(lines), {"place": given.to, **asdict(done), "newest_cycles": newest})
    return 0


def run_restore(given: argparse.Namespace) -> int:
    """Make a lake of a backup, and report the missing part of the record and the steps before cycles run again."""
    from evenkeel.maintenance.backup import restore

    check_folder(given.lake, "--lake")
    with course_of("files") as progress:
        done, began = restore(given.backup, given.lake, progress=progress)
    newest = _newest_cycles(given.lake)
    lines = [f"{given.lake}: restored from {given.backup}; {_what(done)}", *_on_record(newest)]
    lines += [
        f"What was decided, sent and seen after {began:%Y-%m-%dT%H:%M:%SZ} may be missing.",
        f"Before cycles run again: `evenkeel verify --lake {given.lake}`, then `evenkeel doctor --lake {given.lake}`",
    ]
    if done.has_log:
        lines.append(
            "Its transparency log ends with the backup: a witness that has seen more of it refuses it from now on. "
            "Begin a new log under a new key (`evenkeel log make-key`), and keep the old one, `_log`, beside it"
        )
    result = {"lake": given.lake, "as_of": began, **asdict(done), "newest_cycles": newest}
    print_result(given, "\n".join(lines), result)
    return 0


def _what(done: Copied) -> str:
    removed = f", {plural(done.removed, 'file')} removed" if done.removed else ""
    return f"{plural(done.files, 'file')} ({size(done.size)}) copied, {done.kept:,} there before{removed}"


def _on_record(newest: Mapping[str, datetime | None]) -> list[str]:
    return [f"  {name}: its newest cycle on record is {at:%Y-%m-%dT%H:%M:%SZ}" for name, at in newest.items() if at]


def _newest_cycles(lake: str) -> dict[str, datetime | None]:
    """Return cluster -> its newest recorded cycle."""
    from evenkeel.lake.record import Record

    record = Record(lake)
    return {cluster: record.newest_row_at("cycles", cluster) for cluster in record.clusters()}


_MISSING_SHOWN = 20


def run_export(given: argparse.Namespace) -> int:
    """Write the export and report what is in it."""
    from evenkeel.verify.export import export

    since, until = bounds_given(given.since, given.until)
    assert since is not None
    assert until is not None
    check_folder(Path(given.out).absolute().parent, "--out")
    with course_of("tables") as progress:
        done = export(given.lake, given.out, since=since, until=until, cluster=given.cluster, progress=progress)
    lines = [f"{done.path}: {plural(done.cycles, 'cycle')}, {size(done.size)}"]
    for name, part in sorted(done.clusters.items()):
        rows = f"chain rows {part['first_sequence']} to {part['last_sequence']}"
        lines.append(f"  {name}: {plural(part['attempts'], 'attempt')} from {part['from']} to {part['to']}, {rows}")
    lines += [f"  {table}: {plural(count, 'row')}" for table, count in sorted(done.rows.items()) if count]
    for missing in done.missing[:_MISSING_SHOWN]:
        print(
            f"missing: {missing.table} of {missing.cluster} at {missing.cycle_at.isoformat()}: {missing.found:,} of "
            f"{missing.listed:,} rows of write {missing.write_id} are left; they are past their retention",
            file=sys.stderr,
        )
    if len(done.missing) > _MISSING_SHOWN:
        more = plural(len(done.missing) - _MISSING_SHOWN, "more write")
        print(f"missing: {more}, listed in export.json", file=sys.stderr)
    lines.append("To check it: unpack it, if it is a tar, and run `evenkeel verify --lake` with its folder")
    result = {"path": str(done.path), "bytes": done.size, "cycles": done.cycles, "clusters": done.clusters}
    print_result(
        given, "\n".join(lines), {**result, "rows": done.rows, "missing": [asdict(missing) for missing in done.missing]}
    )
    return 0
