"""Message groups: what SQS keeps in order, and what it gives to one consumer at a time."""

from __future__ import annotations

import hashlib
import re

# SQS allows a group id letters, digits and punctuation of ASCII, 1 to 128 of them.
_ALLOWED = re.compile(r"[!-~]{1,128}")


def group_of(name: str) -> str:
    """The group for a name: the name itself where SQS takes it, else a digest of it.

    A namespace has a slash, so it meets neither a digest nor the group of a control.
    """
    if _ALLOWED.fullmatch(name):
        return name
    return "sha256-" + hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()


def command_group(bundle: str) -> str:
    """The group of a command: its bundle's namespace, so that a namespace's splits stay before its unloads."""
    return group_of(bundle.rpartition("/")[0])


def report_group(command_id: str) -> str:
    """The group of a report: one for each command.

    A group gives out nothing more while a message of it is taken and not deleted; whoever takes reports deletes them
    only once they are on record, and must not wait for that to see the others.
    """
    return group_of(command_id)


def control_group(control_id: str) -> str:
    """The group of a control: one for each, so that none waits behind another that stays on the queue for a while.

    Their order does not matter: of several the one made last holds.
    """
    return f"control-{control_id}"
