"""Which releases of Pulsar can be started: one lock file each, with every jar of a broker that runs.

A line is `group:artifact:version[:classifier] sha256`. `relock` writes them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from devtools.lab.errors import LabError
from evenkeel.spark.java import Jar

FOLDER = Path(__file__).parent / "jars"
LATEST = "4.2.4"


def releases() -> tuple[str, ...]:
    """Versions with a lock file, newest first."""
    found = [path.stem for path in FOLDER.glob("*.lock")]
    return tuple(sorted(found, key=lambda version: [int(part) for part in version.split(".")], reverse=True))


def lock_of(version: str) -> Path:
    """The lock file of a release."""
    return FOLDER / f"{version}.lock"


def locked_jars(version: str) -> list[Jar]:
    """The jars of a release in the order of its class path."""
    jars = []
    for number, line in enumerate(lock_of(version).read_text(encoding="utf-8").splitlines(), start=1):
        coordinates, _, digest = line.partition(" ")
        parts = coordinates.split(":")
        if len(parts) not in (3, 4) or len(digest) != 64:
            raise LabError(f"{lock_of(version)}:{number} is no `group:artifact:version[:classifier] sha256`: {line!r}")
        jars.append(Jar(parts[0], parts[1], parts[2], digest, *parts[3:]))
    return jars


def lock_digest(version: str) -> str:
    """Changes with every line of the lock."""
    return hashlib.sha256(lock_of(version).read_bytes()).hexdigest()
