"""Names and addresses in the configuration file: of lakes and clusters, and the defaults derived from names."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

MAIN: Final = "main"
"""Name of the lake at the entry `lake`; no table of [lakes] has it."""
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$"
"""Names that a lake may have: the ids of its DAGs end with it."""
_SIGNS = re.compile(r"[*?\[]")
_STORE = re.compile(r"[a-z0-9]+://")


def claims_of(cluster: str, lists: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return the lakes whose list names the cluster, else those with a pattern that it fits."""
    exact = [lake for lake, names in lists if cluster in names]
    return exact or [
        lake for lake, names in lists if any(is_pattern(name) and fnmatchcase(cluster, name) for name in names)
    ]


def is_pattern(text: str) -> bool:
    """Return True if the text is a pattern of names."""
    return _SIGNS.search(text) is not None


def comparable(address: str) -> str:
    """Return the address in the form in which two addresses of one place are equal."""
    if "://" in address and not address.startswith("file://"):
        return address.rstrip("/")
    return os.path.realpath(address.removeprefix("file://"))


def address_beside(file: Path, value: str) -> str:
    """Return a lake's address as the configuration `file` gives it: a folder is relative to the file."""
    return value if _STORE.match(value) else str(file.absolute().parent / value)


def default_landing(cluster: str) -> str:
    """Return the landing place of a cluster's snapshots if its configuration names none."""
    return f"landing/{cluster}"


def default_keys(cluster: str) -> str:
    """Return the name of the keys that sign a cluster's queues if its configuration gives none."""
    return f"queue_{cluster}"
