"""Processes by an identity that outlives the reuse of pids and every change of the clock."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil

PROC = Path("/proc")


def identity(pid: int) -> str | None:
    """`pid-start` of a process that lives, None where there is none or only its zombie."""
    try:
        if psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return f"{pid}-{_started(pid)}"
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None


def pid_of(process: str) -> int:
    """The pid in an identity."""
    return int(process.partition("-")[0])


def lives(process: str) -> bool:
    """Whether the process of this identity still runs."""
    return identity(pid_of(process)) == process


def _started(pid: int) -> str:
    if PROC.exists():  # ticks since boot; psutil's own figure moves when the clock is set
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    return f"{psutil.Process(pid).create_time():.2f}"


def session_members(session: int) -> list[psutil.Process]:
    """All processes of one session that live. Python workers leave their process group, never their session."""
    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == session and identity(pid) is not None:
                found.append(psutil.Process(pid))
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            continue
    return found


def kill_forks(pid: int, module: str) -> None:
    """Kills what the children of a process that run `python -m module` have forked; those children go on."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children():
            for fork in _forks(child, module):
                with suppress(psutil.NoSuchProcess):
                    fork.kill()


def _forks(child: psutil.Process, module: str) -> list[psutil.Process]:
    try:
        return child.children(recursive=True) if module in child.cmdline() else []
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def kill_session(session: int) -> None:
    """Kills every process of a session but the caller."""
    for process in session_members(session):
        if process.pid != os.getpid():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
