"""What is left of a Delta log that cannot be read, and what to do, in words: for whoever has to mend the table."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path

from evenkeel.lake.commits import local_log

_RESTORE = "Restore the folder `_delta_log` from a copy."
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint.*\.parquet")


def log_state(path: str) -> str:
    """Sentences: what is missing in the log of the table at `path`, and what still is there; '' if nothing is.

    A version can be read from a checkpoint and the commits since, or from all commits.
    """
    log = local_log(path)
    if log is None or not log.is_dir():
        return ""
    names = [file.name for file in log.iterdir()]
    commits = {int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name)}
    checkpoints = {int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))}
    if not commits:
        return f"Its log holds no commit any more. {_RESTORE}"
    newest, reached, hint = max(commits), _reached(commits, checkpoints), _hinted(log)
    if reached == newest:
        return "" if hint is None or hint in checkpoints else _needless(log, hint)
    start = next(version for version in count(newest, -1) if version - 1 not in commits)
    left = "no version can be read" if reached is None else f"the newest version that still can be read is {reached}"
    return (
        f"Its log has the commits {start} to {newest}, and neither what came before {start} nor a checkpoint since: "
        f"{left}. {_RESTORE}"
    )


def _needless(log: Path, hint: int) -> str:
    return (
        f"The checkpoint {hint} is missing, though {log / '_last_checkpoint'} names it. All that it held is in the log "
        "besides: remove that one file, and the table can be read."
    )


def _reached(commits: set[int], checkpoints: set[int]) -> int | None:
    """The newest version that can be put together."""
    starts = [*checkpoints, *([0] if 0 in commits else [])]
    if not starts:
        return None
    return next(version for version in count(max(starts)) if version + 1 not in commits)


def _hinted(log: Path) -> int | None:
    """The checkpoint that readers are told to begin with."""
    try:
        return int(json.loads((log / "_last_checkpoint").read_text(encoding="utf-8"))["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
