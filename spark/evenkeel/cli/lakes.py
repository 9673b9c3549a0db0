"""The lakes of a command: the one in `--lake`, that of a cluster, or all that are configured."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

from evenkeel.errors import BadInput, EvenkeelError, NoLake, NoSuchCycle, SettingsError, visible
from evenkeel.lake.record import Record
from evenkeel.lake.record.ranges import nearest
from evenkeel.settings.lakes import ConfiguredLake, LakeMap, configured_lakes
from evenkeel.settings.names import NAME_PATTERN
from evenkeel.settings.operation import CONFIGURATION

LAKE_UNREAD = 2
"""The exit code if one of several lakes cannot be read; the other lakes are shown."""
ALL = "as configured: all lakes, or that of the cluster"
_Found = TypeVar("_Found")


def add_lake_option(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the option for the lake; `default`: the value without it."""
    parser.add_argument(
        "--lake", metavar="DIR", help=f"where the tables are, or the name of a configured lake (default: {default})"
    )


def address_of(lake: str) -> str:
    """Return the address of the lake that `--lake` names: that of a configured lake by its name, else the text."""
    if not os.environ.get(CONFIGURATION) or not re.match(NAME_PATTERN, lake):
        return lake
    try:
        lakes = configured_lakes()
    except SettingsError:  # a folder can be named beside a configuration that cannot be read
        return lake
    named = [known_lake.path for known_lake in lakes.lakes if known_lake.name == lake]
    return named[0] if named and lakes.is_several else lake


def known_record(lake: str, cluster: str, otherwise: str) -> Record:
    """Return the lake's record; NoSuchCycle, with the nearest name, for a cluster of which it has nothing.

    `otherwise` ends the message: what to do for a cluster that is new.
    """
    record = Record(lake)
    tables = ("cycles", "broker_reports", "commands")
    known = sorted({name for table in tables for name in record.files(table).clusters()})
    if cluster not in known:
        hint = nearest(cluster, known)
        raise NoSuchCycle(f"nothing of {cluster!r} is on record in {lake}.{hint} Nothing was changed. {otherwise}")
    return record


def lakes_chosen(given: argparse.Namespace) -> LakeMap:
    """Return the named lake, else all that are configured; BadInput without any."""
    if given.lake:
        return LakeMap((ConfiguredLake("", given.lake),))
    lakes = configured_lakes()
    if not lakes.lakes:
        raise BadInput("no lake is named: give --lake DIR, or set EVENKEEL_LAKE.")
    return lakes


def only_lake(given: argparse.Namespace) -> str:
    """Return the named lake, else the one that is configured; BadInput if there are none or several."""
    lakes = lakes_chosen(given)
    if lakes.is_several:
        raise BadInput(f"there are several lakes: give --lake with {' or '.join(lake.name for lake in lakes.lakes)}")
    return lakes.lakes[0].path


def first_with(lakes: LakeMap, read: Callable[[str], _Found], cluster: str | None) -> _Found:
    """Return the result of `read` in the cluster's lake, else in the first of the others that has it."""
    first: EvenkeelError | None = None
    home = None if cluster is None else lakes.reader_lake_of(cluster)
    for lake in sorted(lakes.lakes, key=lambda lake: lake != home):
        try:
            return read(lake.path)
        except (NoSuchCycle, NoLake) as error:
            first = first or error
        except (EvenkeelError, OSError) as error:
            if first is None:  # it is the cluster's own
                raise
            say_unread(lake, error)
    assert first is not None
    raise first


def each_of(
    lakes: LakeMap, read: Callable[[str], _Found]
) -> Iterator[tuple[ConfiguredLake, _Found | EvenkeelError | OSError]]:
    """Return each lake with the result of `read`, or why it cannot be read; the error of a single lake is raised."""
    for lake in lakes.lakes:
        try:
            yield lake, read(lake.path)
        except (EvenkeelError, OSError) as error:
            if not lakes.is_several:
                raise
            yield lake, error


def say_unread(lake: ConfiguredLake, error: Exception) -> None:
    """Report on standard error that a lake cannot be read, and why."""
    from evenkeel.status.lakes import lake_fault

    print(f"evenkeel: the lake {lake.name} cannot be read: {visible(lake_fault(error))}", file=sys.stderr)
