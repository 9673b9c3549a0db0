"""Where `evenkeel collect` puts its snapshots."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from evenkeel.errors import SettingsError
from evenkeel.sources.writing import FolderStore, SnapshotStore

S3_SCHEME = "s3://"


def store_of(
    target: str,
    *,
    cluster: str | None = None,
    spool: str | None = None,
    say: Callable[[str], None] | None = None,
) -> SnapshotStore:
    """The place that a folder's path or `s3://bucket/prefix` names.

    For S3 only: `cluster` (None: as its snapshots say), `spool`, the folder where snapshots wait for their upload, and
    `say`, which hears of what an operator should know.
    """
    scheme, separator, _ = target.partition("://")
    if not separator:
        return FolderStore(target)
    if target.startswith(S3_SCHEME):
        from evenkeel.sources.s3.client import connect
        from evenkeel.sources.s3.spool import S3Spool

        return S3Spool(target, spool or spool_folder(target, cluster), connect(), cluster=cluster, say=say)
    raise SettingsError(f"--to {target}: this version writes to folders and to s3://, and knows no {scheme}://")


def spool_folder(target: str, cluster: str | None) -> Path:
    """Where snapshots wait by default: below `XDG_STATE_HOME`, one folder for each target and cluster."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    digest = hashlib.sha256(f"{target}\n{cluster or ''}".encode("utf-8", "replace")).hexdigest()
    return Path(state) / "evenkeel" / "uploads" / digest[:12]
