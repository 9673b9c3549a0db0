"""Commits of a table's log that no promised version needs."""

from __future__ import annotations

from pathlib import Path

from evenkeel.errors import LakeError
from evenkeel.lake.commits import local_log


def clean_log(path: str) -> None:
    """Removes what is older than the table's `delta.logRetentionDuration`, but for the last checkpoint before that
    moment and all that follows it: each version inside the period stays readable.

    Spark should do so whenever it writes a checkpoint, and was seen not to.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        DeltaTable(path).cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise LakeError(f"the log of {path} cannot be cleaned: {error}") from error
    log = local_log(path)
    if log is not None:
        _drop_checksums(log)


def _drop_checksums(log: Path) -> None:
    """Checksums of commits that are gone, Delta's own and those of the file system: nobody asks for them any more."""
    first = min((int(commit.stem) for commit in log.glob("[0-9]*.json") if commit.stem.isdigit()), default=0)
    for checksum in log.glob("*.crc"):
        version = checksum.name.lstrip(".").partition(".")[0]
        if version.isdigit() and int(version) < first:
            checksum.unlink(missing_ok=True)
