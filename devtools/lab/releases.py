"""Releases of Pulsar that can be started: one lock file each, with every jar of a running broker.

`devtools/lab/relock.py` writes them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "jars"
LATEST = "4.2.4"


def releases() -> tuple[str, ...]:
    """Versions with a lock file, newest first."""
    versions = [path.stem for path in FOLDER.glob("*.lock")]
    return tuple(sorted(versions, key=lambda version: [int(part) for part in version.split(".")], reverse=True))


def lock_of(version: str) -> Path:
    """The lock file of a release."""
    return FOLDER / f"{version}.lock"


def lock_digest(version: str) -> str:
    """Return a digest that changes with every line of the lock."""
    return hashlib.sha256(lock_of(version).read_bytes()).hexdigest()
