"""Time stamps of a log: when its checkpoints existed, and which stamps are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from evenkeel.errors import BadNote, BadStamp, LogError
from evenkeel.model.amounts import plural
from evenkeel.times import utc_seconds
from evenkeel.transparency.keys import shown
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.notes import open_checkpoint
from evenkeel.transparency.storage import LogStorage
from evenkeel.transparency.tiles import Tree
from evenkeel.transparency.time_stamp import STAMPS, KeptStamps, demand_stamp, kept_stamps, read_stamp

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_NAMED = 20
"""So many faults at most are named one by one."""
_LISTED = 10
"""So many of the newest stamps are listed of each authority, beside the first."""


@dataclass
class StampCheck:
    """The result for the stamps of a log: a sentence for each wrong one, and a line for the others."""

    faults: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def check_stamps(
    storage: LogStorage, opened: TransparencyLog, tree: Tree, authorities: Sequence[Certificate]
) -> StampCheck:
    """Compare all stamps beside a log with its newest tree and with the certificates of trusted authorities.

    Without certificates, times are reported as unverified.
    """
    check, stamped = StampCheck(), dict[str, list[tuple[int, datetime]]]()
    faults: list[str] = []
    try:
        for kept in kept_stamps(storage):
            if kept.answers:
                faults += _faults_of(kept, opened, tree, authorities, stamped)
    except LogError as error:
        faults.append(str(error))
    check.faults = faults[:_NAMED]
    if (more := len(faults) - _NAMED) > 0:
        check.faults.append(f"{plural(more, 'further time stamp')} of {STAMPS} do not hold")
    unverified = "" if authorities else " (unverified: give the authority's certificates, --stamp-ca)"
    for by, times in sorted(stamped.items()):
        listed = times if len(times) <= _LISTED + 1 else [times[0], *times[-_LISTED:]]
        check.lines += [
            f"checkpoint of {plural(size, 'leaf', 'leaves')} stamped at {utc_seconds(at)} by {by}{unverified}"
            for size, at in listed
        ]
        if left_out := len(times) - len(listed):
            check.lines.append(f"and {plural(left_out, 'time stamp')} between the first and these, by {by}{unverified}")
    if authorities and not stamped:
        check.lines.append("no time stamp of the log holds: nothing but the log says when its checkpoints were there")
    return check


def _faults_of(
    kept: KeptStamps,
    opened: TransparencyLog,
    tree: Tree,
    authorities: Sequence[Certificate],
    stamped: dict[str, list[tuple[int, datetime]]],
) -> list[str]:
    """Return the faults of one size; what holds joins `stamped`: the signer's name -> size and time."""
    place = f"{STAMPS}/{kept.size}"
    try:
        text = _text_of(kept, opened, tree)
    except (BadNote, LogError) as error:
        return [f"{place}: {error}"]
    faults = []
    for name, answer in kept.answers:
        try:
            stamp = read_stamp(answer)
            demand_stamp(stamp, text, authorities)
        except BadStamp as error:
            faults.append(f"{place}/{shown(name)}: {error}")
            continue
        stamped.setdefault(shown(stamp.by), []).append((kept.size, stamp.at))
    return faults


def _text_of(kept: KeptStamps, opened: TransparencyLog, tree: Tree) -> bytes:
    """Return the signed text that was stamped. Raises BadNote or LogError if it is not a checkpoint of this tree."""
    if kept.checkpoint is None:
        raise BadNote("the checkpoint that was stamped is gone; restore it from a copy")
    found = open_checkpoint(kept.checkpoint, opened.origin, opened.all_keys)
    checkpoint = found.checkpoint
    if checkpoint.size != kept.size:
        raise BadNote(f"it holds the checkpoint of another size: {checkpoint.words}")
    if checkpoint.size > tree.size or tree.root_at(checkpoint.size) != checkpoint.root:
        opened.demand_continues(checkpoint)
    return found.note.text.encode()
