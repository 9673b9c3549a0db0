"""One command per bundle and cycle, and none for part of a bundle before the bundle is split.

Two commands for one bundle at once can both be lost: the extensible manager lets a split time out beside an unload, and
the modular one may keep the destination of the very unload that it refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from evenkeel.decisions.guards.objection import Objection
from evenkeel.decisions.guards.overlap import is_part_of
from evenkeel.decisions.guards.situation import Command


def firsts(commands: Sequence[Command]) -> dict[str, int]:
    """Bundle to the index of the first command that the plan has for it."""
    found: dict[str, int] = {}
    for index, command in enumerate(commands):
        found.setdefault(command.bundle, index)
    return found


def repeated(index: int, commands: Sequence[Command], first: Mapping[str, int]) -> Objection | None:
    """Whether the plan has an earlier command for the same bundle, held back or not."""
    earlier = first[commands[index].bundle]
    if earlier == index:
        return None
    return Objection("one_command_per_bundle", words={"kind": commands[earlier].kind})


def orphaned(command: Command, split: Sequence[str], asked: Collection[str]) -> Objection | None:
    """Whether the bundle is to come out of a split that is not asked before it. It keeps its place in the budgets.

    `split`: bundles that the plan splits; `asked`: those whose split was let through so far.
    """
    parents = (parent for parent in split if is_part_of(command.bundle, parent))
    missing = min((parent for parent in parents if parent not in asked), default=None)
    return None if missing is None else Objection("parent_not_split", words={"parent": missing}, keeps_place=True)
