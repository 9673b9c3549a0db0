"""`evenkeel backup` and `evenkeel restore`: a copy of a lake, taken while cycles go on, and a lake made of it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evenkeel.cli.options import check_folder
from evenkeel.cli.output import add_json, print_result
from evenkeel.cli.progress import course_of
from evenkeel.model.amounts import plural, size

if TYPE_CHECKING:
    from evenkeel.maintenance.backup import Copied

_PLACE = "DIR|s3a://BUCKET/PREFIX"


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of both."""
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
