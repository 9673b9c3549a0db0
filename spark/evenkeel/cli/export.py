"""`evenkeel export`: a range of cycles as a separate lake, to be read and verified elsewhere."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from evenkeel.cli.options import check_folder
from evenkeel.cli.output import add_json, print_result
from evenkeel.cli.progress import course_of
from evenkeel.times import IN_UTC, bounds_given

_MISSING_SHOWN = 20


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `export`."""
    parser = commands.add_parser("export", help="write a range of cycles as a lake of its own, to verify elsewhere")
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    parser.add_argument("--cluster", metavar="NAME", help="of this cluster (default: of all)")
    parser.add_argument("--from", dest="since", required=True, metavar="TIME", help=f"the first cycle ({IN_UTC})")
    parser.add_argument(
        "--to", dest="until", required=True, metavar="TIME", help="the last cycle; a date is its whole day"
    )
    parser.add_argument("--out", required=True, metavar="DIR|FILE.tar", help="a new folder, or a new tar file")
    add_json(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Write the export and report what is in it."""
    from evenkeel.model.amounts import plural, size
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
