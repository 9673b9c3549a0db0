"""`evenkeel verify`: is the record whole, and is it decided again as it was?"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict
from functools import partial
from typing import Any

from evenkeel.cli.options import session
from evenkeel.model.amounts import plural
from evenkeel.record.verify import BUNDLES, TOPICS, VerifyReport, verify
from evenkeel.times import IN_UTC, bounds_given

_NAME = "verify"
NOT_SOUND = 1
_DEPTHS = {"topics": TOPICS, "bundles": BUNDLES, "chain": None}
EPILOG = """Reads exactly the rows that each manifest names, decides again with the settings and the state of then,
and compares. Ends with 0 where all is as it was, with 1 where anything is not; every such place is named.

--depth topics (the default) begins at the topics on record, as far back as they are kept, and at the loads of bundles
before that; bundles always at those loads; chain looks at the manifests alone.

A file that still is, byte for byte, the one that its manifest lists stands for its rows; so does one that upkeep put
together and held against the manifests. Others (in an object store, of an export, or changed) are looked at row by row,
and so are all with --rows. Spark is started for that, and for depth topics, only."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "verify",
        help="prove that the record is whole and that its decisions come out again",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    parser.add_argument("--from", dest="since", metavar="TIME", help=f"first cycle ({IN_UTC}; default: the first)")
    parser.add_argument("--to", dest="until", metavar="TIME", help="last cycle; a date is its whole day")
    parser.add_argument("--depth", choices=sorted(_DEPTHS), default="topics", help="where deciding again begins")
    parser.add_argument("--rows", action="store_true", help="look at every row, also where its file is as it was")
    parser.add_argument("--json", action="store_true", help="one JSON document for a program")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Verifies and says what came of it."""
    since, until = bounds_given(given.since, given.until)
    started = time.monotonic()

    def progress(done: int, total: int) -> None:
        rate = done / max(time.monotonic() - started, 0.001)
        print(f"{done} of {plural(total, 'attempt')} looked at ({rate:.0f} a second)", file=sys.stderr, flush=True)

    found = verify(
        given.lake,
        partial(session, _NAME, given.lake),
        cluster=given.cluster,
        since=since,
        until=until,
        depth=_DEPTHS[given.depth],
        by_rows=given.rows,
        progress=progress,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    print(json.dumps(as_json(found), indent=2, ensure_ascii=False) if given.json else as_text(found))
    return 0 if found.is_sound else NOT_SOUND


def as_text(found: VerifyReport) -> str:
    """For a person: the chains, how many cycles came out again, and every fault."""
    lines = [
        f"{cluster}: a chain of {plural(count, 'manifest')}, head {found.heads[cluster][:16]}"
        for cluster, count in sorted(found.manifests.items())
    ]
    if found.read < sum(found.manifests.values()):
        lines.append(f"of the range, and read in full: {plural(found.read, 'manifest')}")
    verified = found.verified
    if verified.by_files or verified.by_rows:
        writes = plural(verified.by_files, "write")
        lines.append(f"{writes} looked at by file, {verified.by_rows:,} by row")
    if verified.tried:
        depths = Counter(verified.reproduced.values())
        deep = ", ".join(f"{count:,} from the {depth} on" for depth, count in sorted(depths.items(), reverse=True))
        came_out = f"{len(verified.reproduced):,} of {plural(verified.tried, 'cycle')} reproduced"
        lines.append(f"{came_out} ({deep})" if deep else came_out)
    if verified.reworded:
        lines.append(
            f"{len(verified.reworded):,} of them in wording only: another version of Evenkeel wrote their sentences, "
            "and this one says the same decisions in other words"
        )
    if verified.expired:
        lines.append(f"{plural(len(verified.expired), 'cycle')} past the period: only the chain is looked at there")
    if found.sums:
        lines.append(
            f"{plural(found.sums, 'attempt')} of an older version of Evenkeel, with a sum for the digest of rows: it "
            "shows what changed by accident, and not rows that somebody chose to fit it"
        )
    if found.idle:
        lines.append(f"{plural(found.idle, 'attempt')} decided nothing (skipped or failed)")
    lines += [f"{fault.kind}: {fault.sentence()}" for fault in found.faults]
    lines.append(
        "all is as it was written" if found.is_sound else f"not as it should be: {plural(len(found.faults), 'place')}"
    )
    return "\n".join(lines)


def as_json(found: VerifyReport) -> dict[str, Any]:
    """For a program."""
    faults = [asdict(fault) for fault in found.faults]
    for fault in faults:
        fault["cycle_at"] = fault["cycle_at"].isoformat() if fault["cycle_at"] else None
    return {
        "sound": found.is_sound,
        "chains": {name: {"manifests": n, "head": found.heads[name]} for name, n in sorted(found.manifests.items())},
        "manifests_read": found.read,
        "attempts": found.attempts,
        "digests": {"roots": found.attempts - found.sums, "sums": found.sums},
        "writes_by_files": found.verified.by_files,
        "writes_by_rows": found.verified.by_rows,
        "reproduced": len(found.verified.reproduced),
        "wording_only": len(found.verified.reworded),
        "differing": len(found.verified.differing),
        "expired": len(found.verified.expired),
        "undecidable": len(found.verified.undecidable),
        "faults": faults,
    }
