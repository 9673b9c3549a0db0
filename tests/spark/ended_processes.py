from __future__ import annotations

from pathlib import Path


def ended_processes(pid: int) -> int:
    """A figure that grows whenever a process that this one started has ended: the pages that all of them took."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[8])
