"""`evenkeel status` and `evenkeel watch`: the state and needs of all clusters, and one cluster continuously."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evenkeel.cli.lakes import ALL, LAKE_UNREAD, add_lake_option, first_with, lakes_chosen
from evenkeel.cli.output import add_json, as_line, bare, is_coloured, is_screen

if TYPE_CHECKING:
    from evenkeel.settings.lakes import LakeMap
    from evenkeel.status import LakeStatus
    from evenkeel.status.lakes import LakesStatus

NEEDS_ATTENTION = 1
_CODES = (
    "exit code: 0 nothing needs attention; 1 a cluster does (moods bad and warn); 2 there is no answer, or a lake of "
    "several cannot be read: the others are shown"
)
_HOME_AND_CLEAR = "\x1b[H\x1b[J"
_LEAST_SECONDS = 0.2


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `status` and of `watch`."""
    status = commands.add_parser(
        "status", help="say of every cluster how it is and what needs attention", epilog=_CODES
    )
    add_lake_option(status, ALL)
    status.add_argument("--cluster", metavar="NAME", help="of this cluster alone")
    status.add_argument("--json", action="store_true", help="one JSON object on standard output, for a program")
    status.set_defaults(run=run_status)
    watch = commands.add_parser("watch", help="show a cluster as it goes on, until Ctrl-C", epilog=_CODES)
    watch.add_argument("cluster", metavar="CLUSTER")
    add_lake_option(watch, ALL)
    watch.add_argument("--every", metavar="SECONDS", type=float, default=5.0, help="how often to look (default: 5)")
    add_json(watch, "a status in one line for each change")
    watch.set_defaults(run=run_watch)


def run_status(given: argparse.Namespace) -> int:
    """Print the status; 1 where a cluster needs attention."""
    from evenkeel.status.rendering import as_json, as_text

    lakes = lakes_chosen(given)
    status: LakeStatus | LakesStatus
    if given.cluster is None and lakes.is_several:
        from evenkeel.status.lakes import read_lakes_status

        status = several = read_lakes_status(lakes, datetime.now(UTC))
        unread = several.faulty
    else:
        status, unread = _status(given, lakes), ()
    out = sys.stdout if given.json else bare(sys.stdout)
    out.write(as_json(status) if given.json else as_text(status, coloured=is_coloured(out)))
    return LAKE_UNREAD if unread else code_of(status)


def _status(given: argparse.Namespace, lakes: LakeMap) -> LakeStatus:
    """Return the status of the named cluster in its lake, or of the only lake."""
    from evenkeel.status import read_status

    return first_with(lakes, lambda lake: read_status(lake, datetime.now(UTC), cluster=given.cluster), given.cluster)


def run_watch(given: argparse.Namespace) -> int:
    """Show a cluster's status until Ctrl-C: redrawn in place on a terminal, elsewhere a line for each change."""
    from evenkeel.errors import BadInput
    from evenkeel.status.rendering import as_object, as_text, moment_line

    if not given.every >= _LEAST_SECONDS:
        raise BadInput(f"--every {given.every:g}: look at most five times a second, so {_LEAST_SECONDS} at least")
    lakes, out, printed, shown = lakes_chosen(given), sys.stdout if given.json else bare(sys.stdout), "", None
    try:
        while True:
            shown = _status(given, lakes)
            if is_screen(out) and not given.json:
                out.write(_HOME_AND_CLEAR + as_text(shown, coloured=is_coloured(out)))
                out.write(f"{shown.at:%H:%M:%S} UTC, every {given.every:g} s; Ctrl-C ends it\n")
            elif (line := moment_line(shown)) != printed:
                out.write(f"{as_line(as_object(shown)) if given.json else line}\n")
                printed = line
            out.flush()
            time.sleep(given.every)
    except KeyboardInterrupt:
        return 0 if shown is None else code_of(shown)


def code_of(status: LakeStatus | LakesStatus) -> int:
    """Return the exit code: 1 if a cluster needs attention, else 0."""
    return NEEDS_ATTENTION if any(line.mood in ("bad", "warn") for line in status.clusters) else 0
